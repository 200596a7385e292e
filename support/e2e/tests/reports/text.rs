//! What is generated, and where it ends. The mock's words lie across every way to cut a text.

use e2e::{Chat, Spec, Stack};
use futures_util::{StreamExt as _, stream};
use serde_json::json;

/// At most this many requests at once: they wait for their turn here, not there.
const AT_ONCE: usize = 8;

fn fast() -> Spec {
    Spec::mock(100, 10).engine(&["--context-tokens", "256"])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_part_of_a_text_stops_it_where_it_first_occurs() {
    let stack = Stack::start(fast()).await;
    let chat = Chat::new("Say something.", 8);
    let whole = chat.ask(&stack, 0).await.text;
    assert!(whole.len() >= 32, "{whole:?}");
    let parts =
        (0..whole.len()).flat_map(|start| (start + 3..=start + 8).map(move |end| (start, end)));
    let stops = parts.filter_map(|(start, end)| whole.get(start..end));
    let checks = stops.map(async |stop| {
        let cut = chat.clone().with("stop", json!([stop]));
        let expected = &whole[..whole.find(stop).expect("it is a part")];
        for cut in [cut.ask(&stack, 0).await, cut.whole().ask(&stack, 0).await] {
            assert_eq!(
                (cut.text.as_str(), cut.finish.as_deref()),
                (expected, Some("stop")),
                "{stop:?}"
            );
        }
    });
    let done = stream::iter(checks).buffer_unordered(AT_ONCE).count().await;
    assert!(done > 150, "only {done} stop strings");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_cut_says_so() {
    let stack = Stack::start(fast()).await;
    // The last asks for more than the context has room for.
    for (cap, expected) in [(1, Some(1)), (5, Some(5)), (100_000, None)] {
        let chat = Chat::new("Go on and on.", cap);
        for answer in [chat.ask(&stack, 0).await, chat.clone().whole().ask(&stack, 0).await] {
            assert_eq!(answer.finish.as_deref(), Some("length"), "{answer:?}");
            let usage = answer.usage.expect("usage");
            let (prompt, completion) = (&usage["prompt_tokens"], &usage["completion_tokens"]);
            let room = 256 - prompt.as_u64().expect("a number");
            assert_eq!(completion.as_u64(), Some(expected.unwrap_or(room)), "{usage}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_text_parts_is_one_text() {
    let stack = Stack::start(fast()).await;
    for role in ["system", "user", "assistant"] {
        let ask = async |content| {
            let messages =
                json!([{"role": role, "content": content}, {"role": "user", "content": "?"}]);
            let answer = Chat::new("", 4).with("messages", messages).ask(&stack, 0).await;
            (answer.text, answer.usage.expect("usage")["prompt_tokens"].clone())
        };
        let parts = json!([
            {"type": "text", "text": "one "},
            {"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}},
        ]);
        assert_eq!(ask(parts).await, ask(json!("one two")).await, "{role}");
    }
}
