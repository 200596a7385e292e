//! What only a real model can get wrong.

use e2e::{Answer, Chat, Spec, Stack};
use futures_util::{StreamExt as _, stream};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_real_model_keeps_its_zeros_and_its_marks() {
    let spec = Spec::model().admission(&["--limit-requests", "128", "--limit-tokens", "1000000"]);
    let stack = Stack::start(spec.admission(&["--limit-kv-blocks", "100000"])).await;
    zeros_are_text(&stack).await;
    no_answer_shows_a_mark_of_the_template(&stack).await;
}

/// A string of C would end there.
async fn zeros_are_text(stack: &Stack) {
    let count = async |text: &str| {
        let messages =
            json!([{"role": "system", "content": text}, {"role": "user", "content": text}]);
        let chat = Chat::new("", 2).with("messages", messages).with("stop", json!("\u{0}"));
        let answer = chat.ask(stack, 0).await;
        assert!(answer.is_complete(), "{answer:?}");
        answer.usage.expect("usage")["prompt_tokens"].as_u64().expect("a number")
    };
    let (cut, whole) = (count("one").await, count("one\u{0}two three four five six").await);
    assert!(whole >= cut + 10, "{whole} tokens are hardly more than {cut}");
    let model = Chat::new("hello", 2).with("model", json!("a\u{0}b")).ask(stack, 0).await;
    assert_eq!(model.status, 404);
}

async fn no_answer_shows_a_mark_of_the_template(stack: &Stack) {
    let subjects =
        ["rain", "a fox", "bread", "the sea", "two", "music", "snow", "a king", "tea", "time"];
    let asks = (0..100_usize).map(async |number| {
        let verb = [
            "Describe", "Name", "Explain", "Praise", "Draw", "Count", "Sell", "Teach", "Answer",
            "Say",
        ];
        let content = format!("{} {}.", verb[number / 10], subjects[number % 10]);
        let chat =
            Chat::new(&content, 12).with("temperature", json!(1)).with("seed", json!(number));
        patient(chat).ask(stack, 0).await
    });
    let answers: Vec<Answer> = stream::iter(asks).buffer_unordered(8).collect().await;
    for answer in &answers {
        assert!(answer.is_complete() && !answer.text.contains("<|"), "{answer:?}");
    }
}

fn patient(chat: Chat) -> Chat {
    chat.header("x-slo-patience-ms", 60_000)
}
