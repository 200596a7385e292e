//! Routes, fields, and what reaches the upstreams.

use proto::v1::{LogitBias, Tier, generate_request::Prompt, prepare_request::Input};
use tonic::Status;

use crate::support::{
    CONTEXT_TOKENS, Connection, MODEL, Preparing, Stack, Step, Verdict, admitted, answer, chat,
    get, post, request,
};

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_and_found_by_name() {
    let stack = Stack::start().await;
    let list = get(stack.address, "/v1/models").await.json();
    assert_eq!(list["object"], "list");
    let model = &list["data"][0];
    assert_eq!(model["id"], MODEL);
    assert_eq!(model["object"], "model");
    assert_eq!(model["created"], 1_700_000_000);
    assert!(model["owned_by"].is_string());
    for path in ["/v1/models/org/tiny", "/v1/models/org%2Ftiny", "//v1/models/org%2ftiny/"] {
        let one = get(stack.address, path).await;
        assert_eq!((one.status, &one.json()), (200, model), "{path}");
    }
    let unknown = get(stack.address, "/v1/models/gpt-4").await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.error().2.as_deref(), Some("model_not_found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_paths_and_methods_get_the_envelope() {
    let stack = Stack::start().await;
    for path in ["/", "/v1", "/v2/models", "/v1/complete", "/v1/modelsx", "/%00", "/v1/chat"] {
        let response = get(stack.address, path).await;
        assert_eq!(response.status, 404, "{path}");
        assert_eq!(response.error().2.as_deref(), Some("not_found"), "{path}");
    }
    for (method, path, allow) in [
        ("GET", "/v1/chat/completions", "POST, OPTIONS"),
        ("PUT", "/v1/chat/completions", "POST, OPTIONS"),
        ("GET", "/v1/completions", "POST, OPTIONS"),
        ("POST", "/v1/models", "GET, HEAD, OPTIONS"),
        ("DELETE", "/v1/models/org/tiny", "GET, HEAD, OPTIONS"),
        ("POST", "/health", "GET, HEAD, OPTIONS"),
        ("PATCH", "/ready", "GET, HEAD, OPTIONS"),
    ] {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
        let response = post(stack.address, head).await;
        assert_eq!(response.status, 405, "{method} {path}");
        assert_eq!(response.header("allow"), Some(allow));
        assert_eq!(response.error().2.as_deref(), Some("method_not_allowed"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slashes_too_many_do_no_harm() {
    let stack = Stack::start().await;
    for path in ["/v1/chat/completions/", "//v1/chat/completions", "/v1//chat///completions//"] {
        let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
        assert_eq!(post(stack.address, request(path, "", body)).await.status, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn head_has_no_body_and_a_connection_serves_many() {
    let stack = Stack::start().await;
    let mut connection = Connection::open(stack.address).await;
    for path in ["/health", "/v1/models", "/ready", "/version", "/metrics"] {
        connection.send(format!("HEAD {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
        let response = connection.read(true).await;
        assert_eq!(response.status, 200, "{path}");
        assert!(response.header("x-request-id").is_some());
    }
    connection.send(chat("\"n\":9")).await;
    assert_eq!(connection.read(false).await.status, 400);
    connection.send(chat("")).await;
    assert_eq!(connection.read(false).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_ours_unique_and_everywhere() {
    let stack = Stack::start().await;
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let mine = request("/v1/chat/completions", "x-request-id: mine\r\n", body);
    let first = post(stack.address, &mine).await;
    let id = first.header("x-request-id").expect("an id").to_owned();
    assert_eq!(stack.engine.saw_prepare().await.request_id, id);
    assert_eq!(stack.admission.saw_decide().await.request_id, id);
    assert_eq!(stack.engine.saw_generate().await.request_id, id);
    let second = post(stack.address, &mine).await;
    assert_ne!(second.header("x-request-id"), Some(id.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_reaches_the_upstreams() {
    let stack = Stack::start().await;
    let mut admit = admitted();
    admit.evict = vec!["00000000000000000000000000000001".into()];
    stack.admission.will(Verdict::Admit(admit));
    let body = r#"{"model":"org/tiny","messages":[{"role":"developer","content":[{"type":"text","text":"a"},
        {"type":"text","text":"b"}]},{"role":"user","content":"hi"}],"max_completion_tokens":9223372036854775808,
        "temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"seed":-1,"stop":["x","y"],
        "presence_penalty":0.5,"frequency_penalty":-0.5,"repetition_penalty":1.5,"logit_bias":{"7":-100},
        "ignore_eos":true,"logprobs":true,"top_logprobs":3}"#;
    let slo = "x-slo-e2e-ms: 4000\r\nx-slo-ttft-ms: 900\r\nx-slo-patience-ms: 0\r\nx-slo-mode: best-effort\r\n";
    let response = post(stack.address, request("/v1/chat/completions", slo, body)).await;
    assert_eq!(response.status, 200);

    let Some(Input::Chat(chat)) = stack.engine.saw_prepare().await.input else { panic!("no chat") };
    let messages: Vec<_> =
        chat.messages.iter().map(|it| (it.role.as_str(), it.content.as_str())).collect();
    assert_eq!(messages, [("system", "ab"), ("user", "hi")]);

    let decide = stack.admission.saw_decide().await;
    assert_eq!(decide.max_tokens, CONTEXT_TOKENS - 10);
    assert_eq!((decide.prompt_tokens, decide.patience_us), (10, Some(0)));
    assert!(decide.accept_best_effort);
    assert_eq!(decide.candidates.len(), 1);
    assert_eq!(decide.candidates[0].engine_instance, "engine-1");
    assert_eq!(decide.candidates[0].cached_tokens, 3);
    let budget = decide.budget.expect("a budget");
    assert!(budget.e2e_us.is_some_and(|left| (3_000_000..4_000_000).contains(&left)), "{budget:?}");
    assert!(budget.ttft_us.is_some_and(|left| left < 900_000), "{budget:?}");

    let generate = stack.engine.saw_generate().await;
    assert_eq!(generate.prompt, Some(Prompt::Prepared(true)));
    assert_eq!(generate.max_tokens, CONTEXT_TOKENS - 10);
    assert_eq!(generate.stop, ["x", "y"]);
    assert_eq!(generate.evict.len(), 1);
    let admitted_as = generate.admitted_as.expect("admitted");
    assert_eq!((admitted_as.tier(), admitted_as.epoch), (Tier::Promised, 7));
    let sampling = generate.sampling.expect("sampling");
    assert_eq!((sampling.temperature, sampling.top_k, sampling.seed), (0.5, 40, Some(u64::MAX)));
    assert_eq!((sampling.presence_penalty, sampling.frequency_penalty), (0.5, -0.5));
    assert_eq!(sampling.repeat_penalty, Some(1.5));
    assert_eq!(sampling.logit_bias, [LogitBias { token: 7, bias: -100.0 }]);
    assert!(sampling.ignore_eos);
    assert_eq!(generate.top_logprobs, Some(3));
    // The budget in force is admission's, and it has run on since.
    let left = generate.budget.and_then(|budget| budget.e2e_us).expect("a budget");
    assert!((50_000_000..=60_000_000).contains(&left), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn absent_budgets_are_left_to_admission() {
    let stack = Stack::start().await;
    assert_eq!(post(stack.address, chat("")).await.status, 200);
    let decide = stack.admission.saw_decide().await;
    assert_eq!((decide.patience_us, decide.accept_best_effort), (None, false));
    assert_eq!(decide.budget, Some(proto::v1::Budget::default()));
    assert_eq!(decide.max_tokens, CONTEXT_TOKENS - 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tier_is_told_and_a_downgrade_is_not_hidden() {
    let stack = Stack::start().await;
    let promised = post(stack.address, chat("")).await;
    assert_eq!(promised.header("x-slo-tier"), Some("promised"));
    assert_eq!(promised.header("x-slo-bound-ms"), Some("2000"));
    assert_eq!(promised.header("x-slo-confidence"), Some("0.9"));
    let mut steps = answer(&["x"]);
    steps[0] = Step::Accept(Tier::BestEffort);
    stack.engine.will(steps);
    let downgraded = post(stack.address, chat(r#""stream":true"#)).await;
    assert_eq!(downgraded.header("x-slo-tier"), Some("best-effort"));
    assert_eq!(downgraded.header("x-slo-bound-ms"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_model_costs_the_upstreams_nothing() {
    let stack = Stack::start().await;
    let response = post(stack.address, chat(r#""model":"gpt-4""#)).await;
    assert_eq!(response.status, 404);
    let (kind, param, code) = response.error();
    assert_eq!(kind, "invalid_request_error");
    assert_eq!((param.as_deref(), code.as_deref()), (Some("model"), Some("model_not_found")));
    assert!(stack.engine.saw_nothing() && stack.admission.saw_nothing());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_beyond_the_context_is_told_in_known_words() {
    let stack = Stack::start().await;
    stack.engine.prepares(Preparing::Tokens(CONTEXT_TOKENS));
    for members in ["\"max_tokens\":16", "\"max_tokens\":16,\"stream\":true"] {
        let response = post(stack.address, chat(members)).await;
        assert_eq!(response.status, 400);
        assert_eq!(response.error().2.as_deref(), Some("context_length_exceeded"));
        let message = response.json()["error"]["message"].to_string();
        assert!(
            message.contains(
                "maximum context length is 1000 tokens. However, you requested 1016 tokens"
            )
        );
    }
    assert!(stack.admission.saw_nothing());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_s_own_objections_are_passed_on() {
    let stack = Stack::start().await;
    let mut status = Status::invalid_argument("messages[0].content: a NUL at byte 1");
    status.metadata_mut().insert("param", "messages[0].content".parse().expect("text"));
    stack.engine.prepares(Preparing::Fail(status));
    let response = post(stack.address, chat("")).await;
    assert_eq!(response.status, 400);
    assert_eq!(response.error().1.as_deref(), Some("messages[0].content"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_preparation_is_made_again_once() {
    let stack = Stack::start().await;
    let expired = || vec![Step::Fail(Status::not_found("no such prepared request"))];
    stack.engine.will_in_turn(vec![expired(), answer(&["again"])]);
    let response = post(stack.address, chat("")).await;
    assert_eq!(response.json()["choices"][0]["message"]["content"], "again");
    stack.engine.will(expired());
    let response = post(stack.address, chat("")).await;
    assert_eq!(response.status, 500);
    response.error();
}

#[tokio::test(flavor = "multi_thread")]
async fn any_page_may_call() {
    let stack = Stack::start().await;
    let ask = |headers: &str| {
        format!(
            "OPTIONS /v1/chat/completions HTTP/1.1\r\nhost: x\r\norigin: http://page\r\n{headers}\r\n"
        )
    };
    let echo = "access-control-request-method: POST\r\naccess-control-request-headers: authorization, x-mine\r\n";
    let response = post(stack.address, ask(echo)).await;
    assert_eq!(response.status, 204);
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    assert_eq!(response.header("access-control-allow-headers"), Some("authorization, x-mine"));
    assert!(response.header("access-control-allow-methods").is_some_and(|it| it.contains("POST")));
    let listed = post(stack.address, ask("")).await;
    let allowed = listed.header("access-control-allow-headers").expect("a list");
    for header in ["authorization", "content-type", "x-slo-e2e-ms", "x-stainless-os"] {
        assert!(allowed.contains(header), "{header}");
    }
    let good = post(stack.address, chat("")).await;
    assert_eq!(good.header("access-control-allow-origin"), Some("*"));
    let exposed = good.header("access-control-expose-headers").expect("a list");
    for header in ["x-request-id", "retry-after-ms", "x-cadence-gateway"] {
        assert!(exposed.contains(header), "{header}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn version_and_metrics_are_served() {
    let stack = Stack::start().await;
    let version = get(stack.address, "/version").await.json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    post(stack.address, chat("")).await;
    let metrics = get(stack.address, "/metrics").await;
    assert!(metrics.header("content-type").is_some_and(|it| it.starts_with("text/plain")));
    assert!(metrics.text().contains("cadence_gateway_requests_total{"), "{}", metrics.text());
}
