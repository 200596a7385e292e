//! `POST /v1/chat/completions`, as it is asked for.

use proto::v1::{ChatMessage, Sampling};
use serde_json::Value;

use super::{
    fields::{Fields, wrong},
    messages, unsupported,
};
use crate::error::ApiError;

/// A request may name at most this many stop sequences.
const STOP_COUNT_MAX: usize = 32;
/// A stop sequence is at most this long, in bytes.
const STOP_BYTES_MAX: usize = 512;
const STOP_KIND: &str = "a string or an array of strings";
/// An unknown model's name is repeated up to this many characters.
const MODEL_ECHO_CHARS: usize = 100;

/// A checked chat request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChatRequest {
    pub(crate) messages: Vec<ChatMessage>,
    pub(crate) sampling: Sampling,
    /// The cap on generated tokens, at least 1; may be absurdly large.
    pub(crate) max_tokens: Option<u64>,
    pub(crate) stop: Vec<String>,
    pub(crate) stream: bool,
    /// A stream ends with the usage.
    pub(crate) include_usage: bool,
}

impl ChatRequest {
    /// Reads a request for `served_model`.
    ///
    /// # Errors
    /// Names the member that is wrong, or not supported.
    pub(crate) fn parse(body: &[u8], served_model: &str) -> Result<Self, ApiError> {
        let mut fields = Fields::parse(body)?;
        check_model(&mut fields, served_model)?;
        let messages = messages::take(&mut fields)?;
        let stream = fields.flag("stream")?.unwrap_or(false);
        let include_usage = match fields.object("stream_options")? {
            Some(mut options) => options.flag("include_usage")?.unwrap_or(false),
            None => false,
        };
        let request = Self {
            messages,
            sampling: sampling(&mut fields)?,
            max_tokens: max_tokens(&mut fields)?,
            stop: stop(&mut fields)?,
            stream,
            include_usage,
        };
        unsupported::check(&mut fields)?;
        Ok(request)
    }
}

fn check_model(fields: &mut Fields, served: &str) -> Result<(), ApiError> {
    match fields.text("model")? {
        Some(model) if model != served => {
            Err(ApiError::ModelNotFound { model: model.chars().take(MODEL_ECHO_CHARS).collect() })
        }
        _ => Ok(()),
    }
}

/// `max_completion_tokens` is the newer name of `max_tokens`.
fn max_tokens(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    match (fields.count("max_tokens")?, fields.count("max_completion_tokens")?) {
        (Some(old), Some(new)) if old != new => {
            let be = format!("equal max_tokens when both are given, but {new} is not {old}");
            Err(fields.must("max_completion_tokens", &be))
        }
        (old, new) => Ok(new.or(old)),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "to f32, within the ranges just checked")]
fn sampling(fields: &mut Fields) -> Result<Sampling, ApiError> {
    let temperature = fields.number("temperature", 0.0..=2.0)?.unwrap_or(1.0);
    let top_p = fields.number("top_p", 0.0..=1.0)?.unwrap_or(1.0);
    if top_p as f32 <= 0.0 {
        return Err(fields.must("top_p", "be above 0"));
    }
    let min_p = fields.number("min_p", 0.0..=1.0)?.unwrap_or(0.0);
    // Both 0 and -1 are in use for "off".
    let top_k = fields.integer("top_k", -1..=i64::MAX)?.unwrap_or(0).max(0);
    let seed = fields.integer("seed", i64::MIN..=i64::MAX)?;
    Ok(Sampling {
        temperature: temperature as f32,
        top_k: u32::try_from(top_k).unwrap_or(u32::MAX),
        top_p: top_p as f32,
        min_p: min_p as f32,
        seed: seed.map(i64::cast_unsigned),
        ..Sampling::default()
    })
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let sequences = match fields.take("stop") {
        None => Vec::new(),
        Some(Value::Array(sequences)) => sequences,
        Some(text @ Value::String(_)) => vec![text],
        Some(other) => return Err(wrong("stop", STOP_KIND, &other)),
    };
    if sequences.len() > STOP_COUNT_MAX {
        return Err(fields.must("stop", &format!("have at most {STOP_COUNT_MAX} sequences")));
    }
    let mut stop = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        let Value::String(text) = sequence else {
            return Err(wrong("stop", STOP_KIND, &sequence));
        };
        if !(1..=STOP_BYTES_MAX).contains(&text.len()) {
            return Err(
                fields.must("stop", &format!("have sequences of 1 to {STOP_BYTES_MAX} bytes"))
            );
        }
        stop.push(text);
    }
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a request that has `members` beside its messages.
    fn read(members: &str) -> Result<ChatRequest, ApiError> {
        let comma = if members.is_empty() { "" } else { "," };
        let body = format!(r#"{{"messages":[{{"role":"user","content":"hi"}}]{comma}{members}}}"#);
        ChatRequest::parse(body.as_bytes(), "org/tiny")
    }

    #[track_caller]
    fn refuses(param: &str, values: &[&str]) {
        for value in values {
            match read(&format!("\"{param}\":{value}")) {
                Err(ApiError::Invalid { param: Some(named), .. }) => {
                    assert!(named.starts_with(param), "{param}: {value} is told as {named}");
                }
                other => panic!("{param}: {value} gave {other:?}"),
            }
        }
    }

    #[track_caller]
    fn takes(members: &[&str]) {
        for member in members {
            let outcome = read(member);
            assert!(outcome.is_ok(), "{member} gave {outcome:?}");
        }
    }

    #[test]
    fn absent_members_have_openai_s_defaults() {
        let request = read("").expect("a request");
        assert_eq!(
            request.sampling,
            Sampling { temperature: 1.0, top_p: 1.0, ..Sampling::default() }
        );
        assert_eq!((request.max_tokens, request.stream, request.stop.len()), (None, false, 0));
    }

    #[test]
    fn null_is_absent_everywhere() {
        let names = "model max_tokens max_completion_tokens temperature top_p top_k min_p seed stop stream \
             stream_options n user logprobs top_logprobs logit_bias presence_penalty frequency_penalty \
             response_format tools tool_choice functions function_call modalities metadata";
        for name in names.split_whitespace() {
            assert_eq!(read(&format!("\"{name}\":null")), read(""), "{name}");
        }
    }

    #[test]
    fn the_model_is_checked() {
        takes(&[r#""model":"org/tiny""#]);
        assert_eq!(
            read(r#""model":"gpt-4""#),
            Err(ApiError::ModelNotFound { model: "gpt-4".into() })
        );
        refuses("model", &["5", "[]", "{}", "true"]);
    }

    #[test]
    fn both_names_of_the_cap_mean_the_same() {
        let cap = |members| read(members).map(|request| request.max_tokens);
        assert_eq!(cap(r#""max_tokens":7"#), Ok(Some(7)));
        assert_eq!(cap(r#""max_completion_tokens":7"#), Ok(Some(7)));
        assert_eq!(cap(r#""max_tokens":7,"max_completion_tokens":7"#), Ok(Some(7)));
        assert_eq!(cap(r#""max_tokens":18446744073709551616"#), Ok(Some(u64::MAX)));
        assert!(cap(r#""max_tokens":7,"max_completion_tokens":8"#).is_err());
        let bad = ["0", "-1", "0.5", "2.0", "\"7\"", "true", "[]", "{}"];
        refuses("max_tokens", &bad);
        refuses("max_completion_tokens", &bad);
    }

    #[test]
    fn sampling_is_read_and_bounded() {
        let sampling = |members| read(members).expect("a request").sampling;
        assert_eq!(sampling(r#""temperature":0"#).temperature, 0.0);
        assert_eq!(sampling(r#""top_k":-1"#).top_k, 0);
        assert_eq!(sampling(r#""top_k":9223372036854775807"#).top_k, u32::MAX);
        assert_eq!(sampling(r#""seed":-1"#).seed, Some(u64::MAX));
        assert_eq!(sampling(r#""seed":0"#).seed, Some(0));
        refuses("temperature", &["-0.1", "2.1", "\"0.5\"", "true", "[]", "{}"]);
        refuses("top_p", &["0", "1e-300", "-0.1", "1.1", "\"1\"", "false", "[]"]);
        refuses("min_p", &["-0.1", "1.1", "\"0\"", "[]"]);
        refuses("top_k", &["-2", "0.5", "\"5\"", "true"]);
        refuses("seed", &["9223372036854775808", "0.5", "\"5\"", "true", "{}"]);
    }

    #[test]
    fn stop_sequences_are_bounded() {
        let stop = |members| read(members).map(|request| request.stop);
        assert_eq!(stop(r#""stop":"x""#), Ok(vec!["x".into()]));
        assert_eq!(stop(r#""stop":["x","y","z","1","2"]"#).map(|stop| stop.len()), Ok(5));
        assert_eq!(stop(r#""stop":[]"#), Ok(vec![]));
        let many = format!("[{}\"x\"]", "\"x\",".repeat(STOP_COUNT_MAX));
        let long = format!("\"{}\"", "x".repeat(STOP_BYTES_MAX + 1));
        refuses("stop", &["\"\"", "[\"\"]", "5", "[5]", "true", "{}", "[null]", &many, &long]);
    }

    #[test]
    fn streaming_is_read() {
        takes(&[r#""stream_options":{}"#, r#""stream_options":{"include_obfuscation":false}"#]);
        let request = read(r#""stream":true,"stream_options":{"include_usage":true}"#);
        assert!(request.is_ok_and(|request| request.stream && request.include_usage));
        refuses("stream", &["\"false\"", "0", "[]", "{}"]);
        refuses("stream_options", &["true", "\"x\"", "[]", r#"{"include_usage":1}"#]);
    }

    #[test]
    fn what_would_change_the_answer_is_refused() {
        refuses("n", &["2", "0", "-1", "1.5", "\"1\"", "128", "99999999999999999999"]);
        refuses("logprobs", &["true", "1", "\"true\""]);
        refuses("top_logprobs", &["0", "5", "21", "true"]);
        refuses("logit_bias", &[r#"{"5":1}"#, r#"{"abc":5}"#, "[]", "5"]);
        refuses("presence_penalty", &["0.1", "-2", "2.1", "\"0\""]);
        refuses("frequency_penalty", &["1", "true"]);
        refuses("repeat_penalty", &["1.1", "\"1\""]);
        refuses(
            "response_format",
            &[
                r#"{"type":"json_object"}"#,
                r#"{"type":"sound"}"#,
                "{}",
                "\"text\"",
                r#"{"type":5}"#,
            ],
        );
        refuses("tools", &[r#"[{"type":"function"}]"#, "{}", "\"x\""]);
        refuses("tool_choice", &["\"required\"", r#"{"type":"function"}"#, "5", "\"x\""]);
        refuses("functions", &["[{}]", "{}"]);
        refuses("function_call", &["{}", "\"x\"", "5"]);
        refuses("modalities", &[r#"["audio"]"#, r#"["text","audio"]"#, "\"text\"", "[5]"]);
    }

    #[test]
    fn what_would_not_is_ignored() {
        takes(&[
            r#""n":1"#,
            r#""logprobs":false"#,
            r#""logit_bias":{}"#,
            r#""presence_penalty":0,"frequency_penalty":0.0,"repeat_penalty":1.0"#,
            r#""response_format":{"type":"text"}"#,
            r#""tools":[],"tool_choice":"auto","parallel_tool_calls":true"#,
            r#""tools":[{"type":"function"}],"tool_choice":"none""#,
            r#""functions":[],"function_call":"none""#,
            r#""modalities":["text"],"user":"me","metadata":{"a":"b"},"store":true"#,
            r#""some_new_member":{"x":[1,2,3]}"#,
        ]);
        refuses("user", &["5", "[]"]);
        refuses("metadata", &["\"x\"", "5"]);
        refuses("store", &["\"x\"", "1"]);
    }
}
