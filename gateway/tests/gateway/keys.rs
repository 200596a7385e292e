//! API keys and their limits.

use std::time::Duration;

use proto::v1::Tier;

use crate::support::{Connection, LONG, Response, Stack, Step, post, request};

const BODY: &str = r#"{"messages":[{"role":"user","content":"hi"}]}"#;

async fn ask(stack: &Stack, headers: &str) -> Response {
    post(stack.address, request("/v1/chat/completions", headers, BODY)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_keys_only_they_may_ask() {
    let stack = Stack::with(&["--api-keys", "sk-a,sk-b"]).await;
    for headers in [
        "authorization: Bearer sk-a\r\n",
        "Authorization: bearer sk-b\r\n",
        "api-key: sk-a\r\n",
        "X-Api-Key: sk-b\r\nauthorization: Bearer dummy\r\n",
    ] {
        assert_eq!(ask(&stack, headers).await.status, 200, "{headers}");
    }
    for headers in [
        "",
        "authorization: Bearer \r\n",
        "authorization: Bearer sk-c\r\n",
        "authorization: Bearer sk-a sk-b\r\n",
        "authorization: sk-a\r\n",
        "api-key:\r\n",
    ] {
        let response = ask(&stack, headers).await;
        assert_eq!(response.status, 401, "{headers}");
        let (kind, _, code) = response.error();
        assert_eq!(
            (kind.as_str(), code.as_deref()),
            ("authentication_error", Some("invalid_api_key"))
        );
        assert_eq!(response.header("www-authenticate"), Some("Bearer"));
        assert!(!response.text().contains("sk-"), "{}", response.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn some_paths_are_open_and_the_others_are_not() {
    let stack = Stack::with(&["--api-keys", "sk-a"]).await;
    let get = async |path: &str, headers: &str| {
        post(stack.address, format!("GET {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n")).await.status
    };
    for path in ["/health", "/ready", "/metrics", "/version"] {
        assert_eq!(get(path, "").await, 200, "{path}");
    }
    for path in ["/v1/models", "/v1/models/org/tiny", "/nowhere", "/v1/completions"] {
        assert_eq!(get(path, "").await, 401, "{path}");
        assert_ne!(get(path, "authorization: Bearer sk-a\r\n").await, 401, "{path}");
    }
}

/// The router decodes paths, and so must whoever asks for a key.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_the_same_however_it_is_written() {
    let stack = Stack::with(&["--api-keys", "sk-a rpm=2"]).await;
    let health = post(stack.address, "GET /healt%68/ HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(health.status, 200);
    let header = "authorization: Bearer sk-a\r\n";
    let ask = async |path: &str| post(stack.address, request(path, header, BODY)).await.status;
    assert_eq!(ask("/v1/chat/completion%73").await, 200);
    assert_eq!(ask("//v%31/%63hat/completions").await, 200);
    assert_eq!(ask("/v1/chat/completion%73").await, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_may_ask_so_often_and_no_oftener() {
    let keys = "sk-a rpm=2,sk-b";
    let stack = Stack::with(&["--api-keys", keys, "--key-requests-per-minute", "3"]).await;
    for (key, allowed) in [("sk-a", 2), ("sk-b", 3)] {
        let header = format!("authorization: Bearer {key}\r\n");
        for _ in 0..allowed {
            assert_eq!(ask(&stack, &header).await.status, 200);
        }
        let response = ask(&stack, &header).await;
        assert_eq!(response.status, 429);
        let (kind, _, code) = response.error();
        assert_eq!(
            (kind.as_str(), code.as_deref()),
            ("rate_limit_error", Some("rate_limit_exceeded"))
        );
        let wait = response.header("retry-after").expect("a wait").parse().expect("seconds");
        assert!((1_u32..=59).contains(&wait), "{wait}");
        // Looking costs nothing.
        let look = format!("GET /v1/models HTTP/1.1\r\nhost: x\r\n{header}\r\n");
        assert_eq!(post(stack.address, look).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_may_have_so_many_running_and_a_client_that_leaves_frees_one() {
    let stack = Stack::with(&["--api-keys", "sk-a", "--key-concurrent-max", "1"]).await;
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Token("x"), Step::Hang]);
    let header = "authorization: Bearer sk-a\r\n";
    let mut running = Connection::open(stack.address).await;
    running.send(request("/v1/chat/completions", header, BODY)).await;
    stack.engine.saw_prepare().await;
    stack.engine.saw_generate().await;
    let refused = ask(&stack, header).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.error().2.as_deref(), Some("rate_limit_exceeded"));
    assert!(refused.header("retry-after").is_some());
    drop(running);
    stack.engine.saw_drop().await;
    stack.engine.will(crate::support::answer(&["x"]));
    let free = async {
        while ask(&stack, header).await.status == 429 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, free).await.expect("the place never came back");
}
