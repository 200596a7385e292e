//! What is said and what comes back, as JSON.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workload::Ask;

use super::{Api, Class, Failure};

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Cow<'a, str>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Message<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    max_tokens: u32,
    temperature: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore_eos: Option<bool>,
    stream: bool,
    stream_options: StreamOptions,
}

/// The body of a request.
pub(crate) fn body(ask: &Ask, api: Api, model: &str, ignore_eos: bool) -> Bytes {
    let message = |part: &'_ workload::Part| Message {
        role: part.role.name(),
        content: Cow::Owned(part.content.text().into_owned()),
    };
    let messages = match api {
        Api::Chat => Some(ask.prompt.parts.iter().map(message).collect()),
        Api::Completions => None,
    };
    let body = Body {
        model,
        prompt: messages.is_none().then(|| ask.prompt.text()),
        messages,
        max_tokens: ask.max_tokens.0,
        temperature: 0.0,
        ignore_eos: ignore_eos.then_some(true),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
    };
    Bytes::from(serde_json::to_vec(&body).expect("strings and numbers have JSON"))
}

/// What one event of a stream says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) has_content: bool,
    pub(super) finish_reason: Option<String>,
    pub(super) usage: Option<Usage>,
}

/// Token counts as the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) prompt: u32,
    pub(super) completion: u32,
    pub(super) cached: Option<u32>,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    text: Option<String>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
}

#[derive(Deserialize)]
struct WireUsage {
    prompt_tokens: u32,
    completion_tokens: u32,
    total_tokens: Option<u32>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u32>,
}

/// Reads the data of an event.
///
/// # Errors
/// It is an error of the server's, or makes no sense.
pub(super) fn parse(data: &[u8]) -> Result<Chunk, Failure> {
    let wire: Wire = serde_json::from_slice(data)
        .map_err(|error| Failure::new(Class::Protocol, format!("an event is not JSON: {error}")))?;
    if let Some(error) = wire.error {
        return Err(Failure::new(Class::InBandError, error.to_string()));
    }
    let usage = wire.usage.map(usage).transpose()?;
    let mut chunk = Chunk { usage, ..Chunk::default() };
    for choice in wire.choices {
        let delta = choice.delta.into_iter();
        let said = delta.flat_map(|it| [it.content, it.reasoning_content, it.reasoning]);
        let mut texts = said.chain([choice.text]).flatten();
        chunk.has_content |= texts.any(|text| !text.is_empty());
        chunk.finish_reason = chunk.finish_reason.or(choice.finish_reason);
    }
    Ok(chunk)
}

fn usage(said: Value) -> Result<Usage, Failure> {
    let text = said.to_string();
    let bad = |why: String| Failure::new(Class::BadUsage, format!("{why}: {text}"));
    let wire: WireUsage = serde_json::from_value(said).map_err(|why| bad(why.to_string()))?;
    let sum = wire.prompt_tokens.checked_add(wire.completion_tokens);
    if wire.total_tokens.is_some() && wire.total_tokens != sum {
        return Err(bad("the total is not the sum".into()));
    }
    let cached = wire.prompt_tokens_details.and_then(|details| details.cached_tokens);
    if cached.is_some_and(|cached| cached > wire.prompt_tokens) {
        return Err(bad("more is cached than was asked".into()));
    }
    Ok(Usage { prompt: wire.prompt_tokens, completion: wire.completion_tokens, cached })
}

#[cfg(test)]
mod tests {
    use units::TokenCount;
    use workload::{Budgets, Content, Prompt};

    use super::*;

    fn class(data: &str) -> Class {
        parse(data.as_bytes()).expect_err(data).class
    }

    #[test]
    fn both_apis_and_reasoning_are_content() {
        for choice in [
            r#"{"delta":{"content":"a"}}"#,
            r#"{"delta":{"content":null,"reasoning_content":"a"}}"#,
            r#"{"text":"a","finish_reason":null}"#,
        ] {
            let chunk = parse(format!(r#"{{"choices":[{choice}]}}"#).as_bytes()).expect("valid");
            assert!(chunk.has_content, "{choice}");
        }
        let role = br#"{"choices":[{"delta":{"role":"assistant","content":""}}],"usage":null}"#;
        assert_eq!(parse(role), Ok(Chunk::default()));
    }

    #[test]
    fn usage_that_cannot_be_is_a_class_of_its_own() {
        for usage in [
            r#"{"prompt_tokens":-1,"completion_tokens":1}"#,
            r#"{"prompt_tokens":1,"completion_tokens":1,"total_tokens":3}"#,
            r#"{"prompt_tokens":1.5,"completion_tokens":1}"#,
            r#"{"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2}}"#,
            r#"{"prompt_tokens":4294967295,"completion_tokens":1,"total_tokens":0}"#,
            "[]",
        ] {
            assert_eq!(class(&format!(r#"{{"choices":[],"usage":{usage}}}"#)), Class::BadUsage);
        }
    }

    #[test]
    fn an_error_in_band_is_one() {
        assert_eq!(class(r#"{"error":{"message":"gone"}}"#), Class::InBandError);
        assert_eq!(class("{]"), Class::Protocol);
        assert_eq!(class(r#"{"choices":{}}"#), Class::Protocol);
        assert!(parse(br#"{"error":null,"choices":[]}"#).is_ok());
    }

    #[test]
    fn a_request_says_what_is_asked() {
        let ask = Ask {
            prompt: Prompt::user(Content::Text("hi".into())),
            max_tokens: TokenCount(5),
            budgets: Budgets::default(),
        };
        let text = |api| String::from_utf8(body(&ask, api, "m", false).to_vec()).unwrap();
        let rest = r#""max_tokens":5,"temperature":0.0,"stream":true,"stream_options":{"include_usage":true}}"#;
        assert_eq!(
            text(Api::Chat),
            format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],{rest}"#)
        );
        assert_eq!(text(Api::Completions), format!(r#"{{"model":"m","prompt":"hi",{rest}"#));
    }
}
