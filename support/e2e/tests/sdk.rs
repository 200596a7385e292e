//! The clients that people have, unmodified. Each script is a conversation with the whole stack, and
//! its last check kills the engine.

use e2e::{Client, Spec, Stack};

/// Answers of 900 tokens take some seconds, and between any two tokens there is a heartbeat.
fn spec() -> Spec {
    let spec = Spec::mock(8_000, 200).engine(&["--context-tokens", "4608"]);
    spec.gateway(&["--sse-heartbeat-ms", "2"])
}

/// There are two places only: enough for two choices, and a third request is refused.
async fn converse(client: Client, script: &str, spec: Spec) {
    let spec = spec.admission(&["--limit-requests", "2"]).gateway(&["--body-bytes-max", "200000"]);
    client.converse(script, &Stack::start(spec).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curl() {
    converse(Client::Shell, "curl.sh", spec()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openai_for_python() {
    converse(Client::Python, "python/with_openai.py", spec()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openai_for_python_on_the_real_model() {
    converse(Client::Python, "python/with_openai.py", Spec::model()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn langchain() {
    converse(Client::Python, "python/with_langchain.py", spec()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn litellm() {
    converse(Client::Python, "python/with_litellm.py", spec()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openai_for_node() {
    converse(Client::Node, "node/with_openai.mjs", spec()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vercel_ai() {
    converse(Client::Node, "node/with_vercel.mjs", spec()).await;
}
