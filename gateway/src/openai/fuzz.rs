//! Requests and answers that nobody would think of.
//!
//! Each test runs for `CADENCE_FUZZ_SECS` seconds, about one if that is not set. What once failed is kept in
//! the folder `corpus` and is tried first, every time.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestCaseResult, TestError, TestRunner},
};
use proto::v1::TokenLogprob;
use serde_json::Value;

use super::{Endpoint, Head, Records, Request, Terms};
use crate::error::ApiError;

const ENDPOINTS: [Endpoint; 2] = [Endpoint::Chat, Endpoint::Completions];

fn corpus(kind: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "corpus", kind].iter().collect()
}

fn kept(kind: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(corpus(kind)).expect("the corpus is a part of the source");
    entries.map(|it| fs::read(it.expect("an entry").path()).expect("a file")).collect()
}

/// Tries what is kept, then inputs of the strategy until the time is over. The smallest that fails is
/// kept.
fn fuzz<S: Strategy<Value = Vec<u8>>>(
    kind: &str,
    strategy: &S,
    check: impl Fn(&[u8]) -> TestCaseResult,
) {
    for input in kept(kind) {
        check(&input).unwrap_or_else(|why| panic!("{:?}: {why}", String::from_utf8_lossy(&input)));
    }
    let secs = std::env::var("CADENCE_FUZZ_SECS").ok();
    let secs = secs.map_or(1, |secs| secs.parse().expect("CADENCE_FUZZ_SECS is in seconds"));
    let end = Instant::now() + Duration::from_secs(secs);
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    while Instant::now() < end {
        let outcome = TestRunner::new(config.clone()).run(strategy, |input| check(&input));
        let Err(TestError::Fail(why, input)) = outcome else { continue };
        let name = input
            .iter()
            .fold(5_381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        fs::write(corpus(kind).join(format!("{name:08x}")), &input).expect("the corpus is ours");
        panic!("{:?}: {why}", String::from_utf8_lossy(&input));
    }
}

/// Names of members, and places inside of them.
const NAMES: &[&str] = &[
    "messages",
    "prompt",
    "model",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "n",
    "logprobs",
    "top_logprobs",
    "presence_penalty",
    "frequency_penalty",
    "repeat_penalty",
    "repetition_penalty",
    "logit_bias",
    "ignore_eos",
    "response_format",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "stream",
    "stream_options",
    "include_usage",
    "user",
    "metadata",
    "modalities",
    "echo",
    "suffix",
    "best_of",
    "role",
    "content",
    "type",
    "text",
    "name",
    "7",
    "999999",
];

/// Scalars at the edges.
const SCALARS: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "2",
    "-1",
    "0.5",
    "-0.0",
    "1e308",
    "-1e308",
    "1e999",
    "1e-400",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "\"\"",
    "\"x\"",
    "\"user\"",
    "\"text\"",
    "\"none\"",
    "\"\\u0000\"",
    "\"\\ud83d\"",
    "\"\\ud83d\\ude00\"",
    "\"\u{2028}\"",
    "NaN",
];

/// JSON, nearly: names that mean something, values of every kind, and now and then none at all.
fn document() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        8 => proptest::sample::select(SCALARS).prop_map(str::to_owned),
        1 => ".{0,12}".prop_map(|text| Value::from(text).to_string()),
        1 => any::<f64>().prop_map(|number| number.to_string()),
    ];
    let name = proptest::sample::select(NAMES);
    let value = scalar.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(","))),
            vec((name.clone(), inner), 0..8).prop_map(object),
        ]
    });
    let named = (proptest::sample::select(NAMES), value);
    let good = proptest::sample::select(
        &[
            "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"prompt\":\"hi\"",
            "\"prompt\":[1,2]",
            "\"user\":\"me\"",
        ][..],
    );
    (good, vec(named, 0..6)).prop_map(|(good, members)| {
        let members = object(members);
        let rest = members.strip_prefix('{').expect("an object begins so");
        format!("{{{good}{}{rest}", if rest == "}" { "" } else { "," })
    })
}

fn object(members: Vec<(&'static str, String)>) -> String {
    let members: Vec<_> =
        members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

/// A body with some of its bytes replaced, put in or left out.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let wound = (any::<proptest::sample::Index>(), any::<u8>(), 0..3_u8);
    (document(), vec(wound, 0..3), proptest::bool::weighted(0.5)).prop_map(
        |(text, wounds, hurt)| {
            let mut bytes = text.into_bytes();
            for (at, byte, how) in wounds.into_iter().filter(|_| hurt) {
                let at = at.index(bytes.len());
                match how {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    _ => drop(bytes.split_off(at.max(1))),
                }
            }
            bytes
        },
    )
}

#[test]
fn any_body_is_read_or_refused_by_name() {
    let terms = Terms { model: Some("x"), vocabulary: Some(1_000), choices_max: 8 };
    fuzz("requests", &body(), |body| {
        for endpoint in ENDPOINTS {
            match Request::parse(endpoint, body, &terms) {
                Ok(asked) => {
                    let choices = asked.prompts.len() * asked.copies as usize;
                    prop_assert!((1..=8).contains(&choices));
                    prop_assert!(asked.max_tokens != Some(0));
                    let sampling = asked.sampling;
                    prop_assert!((0.0..=2.0).contains(&sampling.temperature));
                    prop_assert!(sampling.top_p > 0.0 && sampling.top_p <= 1.0);
                    prop_assert!(sampling.repeat_penalty.is_none_or(|it| it > 0.0 && it <= 10.0));
                    prop_assert!(sampling.logit_bias.iter().all(|it| it.token < 1_000));
                    prop_assert!(asked.stop.iter().all(|it| !it.is_empty()));
                }
                Err(ApiError::Invalid { message, param, .. }) => {
                    prop_assert!(!message.is_empty());
                    // Only what is no JSON object has no member to blame.
                    let is_object =
                        serde_json::from_slice::<Value>(body).is_ok_and(|value| value.is_object());
                    prop_assert!(!is_object || param.is_some_and(|param| !param.is_empty()));
                }
                Err(ApiError::ModelNotFound { .. }) => {}
                Err(other) => prop_assert!(false, "{other:?}"),
            }
        }
        Ok(())
    });
}

/// Text as models write it, and as they do not.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "\\PC{0,8}",
        any::<String>(),
        proptest::sample::select(
            &[
                "\n",
                "\r\n",
                "\n\n",
                "data: [DONE]\n\n",
                "\u{2028}",
                "\u{2029}",
                "\u{85}",
                "\u{0}",
                "\u{b}\u{c}\u{1c}\u{1d}\u{1e}",
                "\u{7f}",
                "\"",
                "\\",
                "\u{feff}",
                "\u{10ffff}",
                ": x\n\n",
                "\u{e2}\u{c2}",
            ][..]
        )
        .prop_map(str::to_owned),
    ];
    vec(piece, 0..6).prop_map(|pieces| pieces.concat().into_bytes())
}

/// The records of a stream, as the strictest of clients splits them.
fn lines(stream: &str) -> Result<Vec<Value>, String> {
    let breaks =
        ['\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];
    if let Some(found) = stream.chars().find(|char| breaks.contains(char)) {
        return Err(format!("{found:?} breaks a line"));
    }
    let records = stream.strip_suffix("\n\n").ok_or("no empty line at the end")?.split("\n\n");
    let record = |record: &str| {
        let json = record.strip_prefix("data: ").ok_or("no data")?;
        serde_json::from_str(json).map_err(|error| format!("{error}: {record:?}"))
    };
    records.map(record).collect()
}

#[test]
fn any_text_is_one_line_of_json_and_comes_back_whole() {
    let head =
        Head { id: "x".into(), created: 1, model: "a\u{2028}b\n".into(), fingerprint: "f".into() };
    fuzz("texts", &text(), |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let token = TokenLogprob { bytes: bytes.to_vec(), logprob: -1.0, ..Default::default() };
        let halves = token.bytes.split_at(bytes.len() / 2);
        let top =
            [halves.0, halves.1].map(|half| TokenLogprob { bytes: half.to_vec(), ..token.clone() });
        let token = TokenLogprob { top: top.to_vec(), ..token };
        for endpoint in ENDPOINTS {
            for logprobs in [false, true] {
                let mut records = Records::new(endpoint, head.clone(), 1, logprobs);
                let mut out = records.piece(0, &text, std::slice::from_ref(&token));
                out.extend(records.finish(0, "stop"));
                let stream = String::from_utf8(out).expect("UTF-8");
                let told = lines(&stream).map_err(TestCaseError::fail)?;
                prop_assert_eq!(told.len(), 2);
                let choice = &told[0]["choices"][0];
                let said = match endpoint {
                    Endpoint::Chat => &choice["delta"]["content"],
                    Endpoint::Completions => &choice["text"],
                };
                prop_assert_eq!(said.as_str(), Some(&*text));
            }
        }
        Ok(())
    });
}
