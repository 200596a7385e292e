use proto::v1::{TokenIds, prepare_request::Input};

use crate::{
    error::ApiError,
    openai::{Endpoint, Request, Terms},
};

fn read(members: &str) -> Result<Request, ApiError> {
    let terms = Terms { model: Some("org/tiny"), vocabulary: Some(1_000), choices_max: 8 };
    Request::parse(Endpoint::Completions, format!("{{{members}}}").as_bytes(), &terms)
}

#[track_caller]
fn refuses(param: &str, members: &str) {
    match read(members) {
        Err(ApiError::Invalid { param: Some(named), .. }) => assert_eq!(named, param, "{members}"),
        other => panic!("{members} gave {other:?}"),
    }
}

fn ids(ids: &[u32]) -> Input {
    Input::TokenIds(TokenIds { ids: ids.to_vec() })
}

#[test]
fn prompts_come_in_four_forms() {
    let prompts = |prompt: &str| read(&format!("\"prompt\":{prompt}")).map(|it| it.prompts);
    let text = |text: &str| Input::Text(text.into());
    assert_eq!(prompts(r#""a""#), Ok(vec![text("a")]));
    assert_eq!(prompts(r#"["a","b"]"#), Ok(vec![text("a"), text("b")]));
    assert_eq!(prompts("[1,2]"), Ok(vec![ids(&[1, 2])]));
    assert_eq!(prompts("[[1,2],[4294967295]]"), Ok(vec![ids(&[1, 2]), ids(&[u32::MAX])]));
    for (bad, param) in [
        ("null", "prompt"),
        ("5", "prompt"),
        ("true", "prompt"),
        ("{}", "prompt"),
        ("[]", "prompt"),
        ("[[]]", "prompt[0]"),
        ("[[1],[]]", "prompt[1]"),
        ("[\"a\",5]", "prompt[1]"),
        ("[\"a\",null]", "prompt[1]"),
        ("[1,\"a\"]", "prompt[1]"),
        ("[-1]", "prompt[0]"),
        ("[0.5]", "prompt[0]"),
        ("[[1,4294967296]]", "prompt[0][1]"),
        ("[{}]", "prompt[0]"),
        ("[null]", "prompt[0]"),
    ] {
        refuses(param, &format!("\"prompt\":{bad}"));
    }
    refuses("prompt", "");
}

#[test]
fn choices_of_all_prompts_together_are_bounded() {
    let copies = |members| read(members).map(|it| (it.prompts.len(), it.copies));
    assert_eq!(copies(r#""prompt":["a","b"],"n":4"#), Ok((2, 4)));
    refuses("n", r#""prompt":["a","b"],"n":5"#);
    refuses("prompt", r#""prompt":["1","2","3","4","5","6","7","8","9"]"#);
}

#[test]
fn the_options_of_old_are_read_or_refused() {
    let request = read(r#""prompt":"a","logprobs":5,"echo":false,"suffix":"","best_of":1"#);
    assert_eq!(request.map(|it| (it.top_logprobs, it.echo)), Ok((Some(5), false)));
    assert_eq!(read(r#""prompt":"a","echo":true"#).map(|it| it.echo), Ok(true));
    assert!(read(r#""prompt":"a","n":2,"best_of":2,"suffix":null,"logprobs":null"#).is_ok());
    for (param, members) in [
        ("best_of", r#""best_of":2"#),
        ("best_of", r#""n":2,"best_of":1"#),
        ("best_of", r#""best_of":"1""#),
        ("suffix", r#""suffix":"x""#),
        ("suffix", r#""suffix":5"#),
        ("logprobs", r#""logprobs":6"#),
        ("logprobs", r#""logprobs":-1"#),
        ("logprobs", r#""logprobs":true"#),
        ("echo", r#""echo":true,"logprobs":0"#),
        ("echo", r#""echo":1"#),
        ("response_format", r#""response_format":{"type":"json_object"}"#),
        ("tools", r#""tools":[{}]"#),
    ] {
        refuses(param, &format!("\"prompt\":\"a\",{members}"));
    }
    refuses("echo", r#""prompt":[1],"echo":true"#);
}
