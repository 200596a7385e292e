//! Traces as people have them.

use expect_test::{Expect, expect};
use workload::trace;

fn check(text: &str, expected: Expect) {
    let seen = match trace::parse(text) {
        Ok(entries) => entries.iter().map(trace::print).collect::<Vec<_>>().join("\n"),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&seen);
}

#[test]
fn times_count_from_the_first_request_and_are_put_in_order() {
    check(
        r#"{"time": 12.5, "prompt": "second", "max_tokens": 8}
{"time": 11.25, "prompt": "first"}"#,
        expect![[r#"
            {"time":0.0,"messages":[{"role":"user","content":"first"}]}
            {"time":1.25,"messages":[{"role":"user","content":"second"}],"max_tokens":8}"#]],
    );
}

#[test]
fn counts_and_prefixes_are_enough() {
    check(
        r#"{"timestamp": 1500, "prompt_tokens": 100, "prefix": 7, "prefix_tokens": 80, "max_tokens": 5, "e2e_ms": 4000}"#,
        expect![[
            r#"{"time":0.0,"prompt_tokens":100,"prefix":7,"prefix_tokens":80,"max_tokens":5,"e2e_ms":4000}"#
        ]],
    );
    check(
        r#"{"time": 0, "prompt_tokens": 10, "prefix": 7}"#,
        expect![[r#"{"time":0.0,"prompt_tokens":10}"#]],
    );
}

#[test]
fn public_traces_of_hashed_blocks_share_what_they_share() {
    let text = r#"{"timestamp": 0, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 48]}
{"timestamp": 3000, "input_length": 600, "output_length": 9, "hash_ids": [46, 99]}"#;
    let entries = trace::parse(text).expect("valid");
    let passages = |at: usize| entries[at].given.prompt.passages().collect::<Vec<_>>();
    let tokens: Vec<_> = passages(0).iter().map(|passage| passage.tokens.0).collect();
    assert_eq!(tokens, [512, 512, 76]);
    assert_eq!(passages(0)[0], passages(1)[0]);
    assert_ne!(passages(0)[1].id, passages(1)[1].id);
}

#[test]
fn what_makes_no_sense_is_named_with_its_line() {
    check("\n\n", expect!["line 1: the trace holds no request"]);
    check("{\"time\": 1}", expect!["line 1: no `messages`, `prompt` or `prompt_tokens`"]);
    check(
        "{\"time\": 1, \"prompt\": \"\"}\n\n{\"prompt\": \"\"}",
        expect!["line 3: no `time` (seconds) and no `timestamp` (milliseconds)"],
    );
    check(
        "{\"time\": 1e300, \"prompt\": \"\"}",
        expect![
            "line 1: time 1000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        ],
    );
    check("{\"time\": 1, \"prompt\": \"\", \"max_tokens\": 0}", expect!["line 1: max_tokens is 0"]);
    check("{\"time\": 1, \"messages\": []}", expect!["line 1: `messages` is empty"]);
    check(
        r#"{"time": 1, "messages": [{"role": "wizard", "content": ""}]}"#,
        expect!["line 1: role `wizard` is not known"],
    );
    check(
        r#"{"time": 1, "prompt_tokens": 4000000000}"#,
        expect!["line 1: prompt_tokens is 4000000000, at most 10000000"],
    );
    check("not json", expect!["line 1: expected ident at line 1 column 2"]);
    check(
        r#"{"time": 1, "prompt_tokens": -4}"#,
        expect!["line 1: invalid value: integer `-4`, expected u32 at line 1 column 31"],
    );
}

#[test]
fn a_file_of_prompts_may_be_plain_text() {
    let text = "What is a bridge?\n\n{\"prompt\": \"Why?\", \"max_tokens\": 3}\n";
    let prompts = trace::parse_prompts(text).expect("valid");
    let seen: Vec<_> =
        prompts.iter().map(|given| (given.prompt.text(), given.max_tokens)).collect();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], ("What is a bridge?".into(), None));
    assert_eq!(seen[1].0, "Why?");
    assert_eq!(trace::parse_prompts("").expect_err("empty").what, "the file holds no prompt");
    assert_eq!(trace::parse_prompts("{").expect_err("broken").line, 1);
}
