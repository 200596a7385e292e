//! Log probabilities, from the engine to the client.

use proto::v1::{FinishReason, Tier, TokenLogprob};
use serde_json::json;

use crate::{
    choices::records,
    support::{Stack, Step, chat, completion, post},
};

fn token(text: &str, logprob: f32) -> TokenLogprob {
    TokenLogprob { token: 1, bytes: text.into(), logprob, top: Vec::new() }
}

/// "Hé", with one likely token beside the first.
fn likely() -> Vec<Step> {
    let first = TokenLogprob { top: vec![token("J", -0.5)], ..token("H", -1.5) };
    vec![
        Step::Accept(Tier::Promised),
        Step::Likely(first),
        Step::Likely(token("é", f32::NEG_INFINITY)),
        Step::Finish(FinishReason::Stop),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_tells_them_whole_and_streamed() {
    let stack = Stack::start().await;
    stack.engine.will(likely());
    let tokens = [
        json!({"token": "H", "logprob": -1.5, "bytes": [72],
            "top_logprobs": [{"token": "J", "logprob": -0.5, "bytes": [74]}]}),
        json!({"token": "é", "logprob": -9999.0, "bytes": [195, 169], "top_logprobs": []}),
    ];
    let whole = post(stack.address, chat(r#""logprobs":true,"top_logprobs":1"#)).await.json();
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["content"], "Hé");
    assert_eq!(choice["logprobs"], json!({"content": tokens, "refusal": null}));
    stack.engine.saw_prepare().await;
    assert_eq!(stack.engine.saw_generate().await.top_logprobs, Some(1));

    let response = post(stack.address, chat(r#""logprobs":true,"stream":true"#)).await;
    let records = records(&response.text());
    for (index, token) in tokens.iter().enumerate() {
        let logprobs = &records[1 + index]["choices"][0]["logprobs"];
        assert_eq!(*logprobs, json!({"content": [token], "refusal": null}));
    }
    stack.engine.saw_prepare().await;
    assert_eq!(stack.engine.saw_generate().await.top_logprobs, Some(0));
    // Who does not ask gets none, although this engine sends them.
    let plain = post(stack.address, chat("")).await.text();
    assert!(!plain.contains("logprob"), "{plain}");
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_tell_them_in_their_own_shape() {
    let stack = Stack::start().await;
    stack.engine.will(likely());
    let whole = post(stack.address, completion(r#""logprobs":1"#)).await.json();
    assert_eq!(
        whole["choices"][0]["logprobs"],
        json!({
            "tokens": ["H", "é"],
            "token_logprobs": [-1.5, -9999.0],
            "top_logprobs": [{"J": -0.5, "H": -1.5}, {"é": -9999.0}],
            "text_offset": [0, 1],
        })
    );
    let response = post(stack.address, completion(r#""logprobs":1,"stream":true"#)).await;
    let offsets: Vec<_> = records(&response.text())
        .iter()
        .map(|it| it["choices"][0]["logprobs"]["text_offset"].clone())
        .collect();
    assert_eq!(offsets, [json!([0]), json!([1]), json!(null)]);
}
