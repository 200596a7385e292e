use super::*;
use crate::openai::messages::tests::user;

const TERMS: Terms<'_> = Terms { model: Some("org/tiny"), vocabulary: Some(1_000), choices_max: 8 };

/// Reads a chat request that has `members` beside its messages.
fn read(members: &str) -> Result<Request, ApiError> {
    let comma = if members.is_empty() { "" } else { "," };
    let body = format!(r#"{{"messages":[{{"role":"user","content":"hi"}}]{comma}{members}}}"#);
    Request::parse(Endpoint::Chat, body.as_bytes(), &TERMS)
}

#[track_caller]
fn refuses(param: &str, values: &[&str]) {
    for value in values {
        refuses_as(param, &format!("\"{param}\":{value}"));
    }
}

#[track_caller]
fn refuses_as(param: &str, members: &str) {
    match read(members) {
        Err(ApiError::Invalid { param: Some(named), .. }) => {
            assert!(named.starts_with(param), "{members} is told as {named}");
        }
        other => panic!("{members} gave {other:?}"),
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
    let plain = Sampling { temperature: 1.0, top_p: 1.0, ..Sampling::default() };
    assert_eq!((&request.prompts, &request.sampling), (&vec![user("hi")], &plain));
    assert_eq!((request.max_tokens, request.stream, request.stop.len()), (None, false, 0));
    assert_eq!((request.copies, request.top_logprobs, request.echo), (1, None, false));
}

#[test]
fn null_is_absent_everywhere() {
    let names = "model max_tokens max_completion_tokens temperature top_p top_k min_p seed stop stream \
         stream_options n user logprobs top_logprobs logit_bias ignore_eos presence_penalty frequency_penalty \
         repeat_penalty repetition_penalty response_format tools tool_choice parallel_tool_calls \
         functions function_call modalities metadata audio prediction";
    for name in names.split_whitespace() {
        assert_eq!(read(&format!("\"{name}\":null")), read(""), "{name}");
    }
}

#[test]
fn the_model_is_checked_once_it_is_known() {
    takes(&[r#""model":"org/tiny""#]);
    assert_eq!(read(r#""model":"gpt-4""#), Err(ApiError::ModelNotFound { model: "gpt-4".into() }));
    refuses("model", &["5", "[]", "{}", "true"]);
    let unknown = Terms { model: None, ..TERMS };
    let body = br#"{"model":"gpt-4","messages":[{"role":"user","content":"hi"}]}"#;
    assert!(Request::parse(Endpoint::Chat, body, &unknown).is_ok());
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
    assert_eq!(sampling(r#""presence_penalty":-2"#).presence_penalty, -2.0);
    assert_eq!(sampling(r#""frequency_penalty":0.5"#).frequency_penalty, 0.5);
    assert!(sampling(r#""ignore_eos":true"#).ignore_eos);
    refuses("ignore_eos", &["1", "\"true\"", "[]"]);
    refuses("temperature", &["-0.1", "2.1", "\"0.5\"", "true", "[]", "{}"]);
    refuses("top_p", &["0", "1e-300", "-0.1", "1.1", "\"1\"", "false", "[]"]);
    refuses("min_p", &["-0.1", "1.1", "\"0\"", "[]"]);
    refuses("top_k", &["-2", "0.5", "\"5\"", "true"]);
    refuses("seed", &["9223372036854775808", "0.5", "\"5\"", "true", "{}"]);
    refuses("presence_penalty", &["-2.1", "2.1", "\"0\"", "true", "[]"]);
    refuses("frequency_penalty", &["-2.1", "1e300", "{}"]);
}

#[test]
fn the_repeat_penalty_has_two_names() {
    let penalty = |members| read(members).map(|request| request.sampling.repeat_penalty);
    assert_eq!(penalty(r#""repeat_penalty":1.5"#), Ok(Some(1.5)));
    assert_eq!(penalty(r#""repetition_penalty":1.5"#), Ok(Some(1.5)));
    assert_eq!(penalty(r#""repeat_penalty":1.5,"repetition_penalty":1.5"#), Ok(Some(1.5)));
    assert_eq!(penalty(r#""repeat_penalty":1"#), Ok(None));
    refuses_as("repetition_penalty", r#""repeat_penalty":1.5,"repetition_penalty":1.4"#);
    for name in ["repeat_penalty", "repetition_penalty"] {
        refuses(name, &["0", "-1", "1e-300", "10.1", "\"1\"", "true", "[]"]);
    }
}

#[test]
fn logit_bias_names_tokens_of_the_model() {
    let bias = |members| read(members).map(|request| request.sampling.logit_bias);
    let wanted = [(0, -100.0), (7, 0.5), (999, 100.0)];
    let wanted = wanted.map(|(token, bias)| proto::v1::LogitBias { token, bias }).to_vec();
    assert_eq!(bias(r#""logit_bias":{"999":100,"7":0.5,"0":-100}"#), Ok(wanted));
    assert_eq!(bias(r#""logit_bias":{}"#), Ok(vec![]));
    let many = |count: u32| {
        let members: Vec<_> = (0..count).map(|id| format!("\"{id}\":1")).collect();
        format!("{{{}}}", members.join(","))
    };
    let unknown = Terms { vocabulary: None, ..TERMS };
    let with = |bias: &str| {
        let body =
            format!(r#"{{"messages":[{{"role":"user","content":"x"}}],"logit_bias":{bias}}}"#);
        Request::parse(Endpoint::Chat, body.as_bytes(), &unknown)
    };
    assert!(with(&many(1_024)).is_ok());
    assert!(with(&many(1_025)).is_err());
    assert!(with(r#"{"4294967295":1}"#).is_ok());
    refuses(
        "logit_bias",
        &[
            r#"{"1000":1}"#,
            r#"{"999999":5}"#,
            r#"{"-1":5}"#,
            r#"{"+1":5}"#,
            r#"{"":5}"#,
            r#"{"abc":5}"#,
            r#"{"4294967296":5}"#,
            r#"{"5":1e30}"#,
            r#"{"5":100.1}"#,
            r#"{"5":"1"}"#,
            r#"{"5":null}"#,
            r#"{"5":1,"05":2}"#,
            "[]",
            "5",
            "\"x\"",
            &many(100_000 - 20),
        ],
    );
}

#[test]
fn log_probabilities_are_asked_for_in_two_members() {
    let top = |members| read(members).map(|request| request.top_logprobs);
    assert_eq!(top(r#""logprobs":true"#), Ok(Some(0)));
    assert_eq!(top(r#""logprobs":true,"top_logprobs":20"#), Ok(Some(20)));
    assert_eq!(top(r#""logprobs":false"#), Ok(None));
    refuses_as("top_logprobs", r#""top_logprobs":0"#);
    refuses_as("top_logprobs", r#""logprobs":false,"top_logprobs":5"#);
    for bad in ["-1", "21", "0.5", "true", "\"5\"", "[]"] {
        refuses_as("top_logprobs", &format!(r#""logprobs":true,"top_logprobs":{bad}"#));
    }
    refuses("logprobs", &["1", "0", "\"true\"", "[]", "{}"]);
}

#[test]
fn choices_are_bounded() {
    assert_eq!(read(r#""n":8"#).map(|request| request.copies), Ok(8));
    refuses("n", &["9", "0", "-1", "1.5", "\"1\"", "true", "128", "99999999999999999999"]);
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
    refuses(
        "response_format",
        &[
            r#"{"type":"json_object"}"#,
            r#"{"type":"json_schema","json_schema":{"name":"x","schema":{}}}"#,
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

#[test]
fn of_two_members_with_one_name_the_last_counts() {
    let request = read(r#""temperature":"x","temperature":0,"n":9,"n":2"#).expect("a request");
    assert_eq!((request.sampling.temperature, request.copies), (0.0, 2));
}
