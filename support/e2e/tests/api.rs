//! Both endpoints over the whole stack: what only the engine can show to work.

use std::time::Duration;

use e2e::{Chat, Spec, Stack, eventually};
use serde_json::{Value, json};

async fn ask(stack: &Stack, path: &str, body: Value) -> (u16, Value) {
    let response = stack.http().post(stack.url(0, path)).json(&body).send().await;
    let response = response.expect("an answer");
    let status = response.status().as_u16();
    (status, response.json().await.expect("JSON"))
}

#[tokio::test(flavor = "multi_thread")]
async fn several_choices_are_one_answer() {
    let stack = Stack::start(Spec::mock(2_000, 100)).await;
    let messages = json!([{"role": "user", "content": "hi"}]);
    let body = json!({"messages": messages, "n": 3, "max_tokens": 5, "seed": 7});
    let (status, answer) = ask(&stack, "/v1/chat/completions", body).await;
    assert_eq!(status, 200, "{answer}");
    let choices = answer["choices"].as_array().expect("choices");
    let indices: Vec<_> = choices.iter().map(|it| it["index"].as_u64()).collect();
    assert_eq!(indices, [Some(0), Some(1), Some(2)]);
    assert!(choices.iter().all(|it| it["finish_reason"] == "length"), "{answer}");
    assert_eq!(answer["usage"]["completion_tokens"], 15);
    let one = Chat::new("hi", 5).whole().ask(&stack, 0).await;
    let alone = one.usage.expect("a usage");
    assert_eq!(answer["usage"]["prompt_tokens"], alone["prompt_tokens"]);
    assert!(eventually(Duration::from_secs(2), async || stack.is_idle().await).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_choices_that_do_not_all_fit_none_stays() {
    let spec = Spec::mock(2_000, 100).admission(&["--limit-requests", "2", "--patience-ms", "50"]);
    let stack = Stack::start(spec).await;
    let messages = json!([{"role": "user", "content": "hi"}]);
    let body = json!({"messages": messages, "n": 4, "max_tokens": 400});
    let (status, answer) = ask(&stack, "/v1/chat/completions", body).await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!("overloaded_requests")));
    assert!(
        eventually(Duration::from_secs(4), async || stack.is_idle().await).await,
        "a choice that was taken back is still held"
    );
    assert!(Chat::new("hi", 4).ask(&stack, 0).await.is_complete());
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_are_continued_as_they_are() {
    let stack = Stack::start(Spec::mock(2_000, 100)).await;
    let path = "/v1/completions";
    let body = json!({"prompt": ["abc", "de"], "echo": true, "max_tokens": 3});
    let (status, answer) = ask(&stack, path, body).await;
    assert_eq!(status, 200, "{answer}");
    for (choice, prompt) in answer["choices"].as_array().expect("choices").iter().zip(["abc", "de"])
    {
        assert!(choice["text"].as_str().is_some_and(|it| it.starts_with(prompt)), "{answer}");
    }
    assert_eq!(answer["usage"]["completion_tokens"], 6);
    let (status, answer) = ask(&stack, path, json!({"prompt": [1, 2, 3], "max_tokens": 2})).await;
    assert_eq!((status, &answer["usage"]["prompt_tokens"]), (200, &json!(3)));
    let (status, answer) = ask(&stack, path, json!({"prompt": [[1], [4_000_000_000_u32]]})).await;
    assert_eq!((status, &answer["error"]["param"]), (400, &json!("prompt[1]")), "{answer}");
    let (status, answer) = ask(&stack, path, json!({"prompt": ""})).await;
    assert_eq!((status, &answer["error"]["param"]), (400, &json!("prompt")), "{answer}");
}
