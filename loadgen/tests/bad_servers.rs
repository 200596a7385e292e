//! Whatever a server does wrong is counted as what it is, and never as a success.

mod support;

use std::{io::Write as _, thread, time::Duration};

use support::{Bench, GOOD, SSE, Server, read_request};

/// Ten requests against `server` all end as `class`.
fn check(server: &Server, more: &[&str], class: &str) {
    let done = Bench::new().run(&server.url(), more);
    assert_eq!(done.classes().into_iter().collect::<Vec<_>>(), [(class.to_owned(), 10)]);
    assert!(done.has_run(), "a server's failures are a result: {}", done.stderr);
}

#[test]
fn a_good_answer_is_ok() {
    let server = Server::saying(format!("{SSE}{GOOD}"));
    let done = Bench::new().run(&server.url(), &["--slo", "e2e:60000"]);
    assert_eq!(done.classes()["ok"], 10);
    assert_eq!(done.summary["output_tokens"], 30);
    assert_eq!(done.summary["cached_tokens"], 40);
    assert_eq!(done.summary["goodput_share"], 1.0);
}

#[test]
fn nobody_listens() {
    let done = Bench::new().run(&format!("http://{}", ports::free_address()), &[]);
    assert_eq!(done.classes()["connect"], 10);
}

#[test]
fn a_status_is_a_refusal_a_redirect_or_a_failure() {
    let saying = |status: &str| {
        Server::saying(format!(
            "HTTP/1.1 {status}\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 2\r\n\r\n{{}}"
        ))
    };
    check(&saying("503 Service Unavailable"), &[], "shed");
    check(&saying("429 Too Many Requests"), &[], "shed");
    check(&saying("302 Found"), &[], "redirect");
    check(&saying("404 Not Found"), &[], "http_status");
    check(&saying("500 Internal Server Error"), &[], "http_status");
    check(&saying("204 No Content"), &[], "http_status");
}

#[test]
fn an_answer_that_is_no_event_stream() {
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    check(&Server::saying(json), &[], "not_sse");
    let packed = SSE.replace("connection:", "content-encoding: gzip\r\nconnection:");
    check(&Server::saying(packed), &[], "not_sse");
}

#[test]
fn a_stream_that_ends_early() {
    let part = GOOD.split_once("data: [DONE]").unwrap().0;
    check(&Server::saying(format!("{SSE}{part}")), &[], "truncated");
    let chunked = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
        transfer-encoding: chunked\r\n\r\nff\r\ndata: {\"choices\":";
    check(&Server::saying(chunked), &[], "truncated");
    check(&Server::saying(format!("{SSE}data: [DONE]\n\n")), &[], "truncated");
    check(&Server::saying(""), &[], "truncated");
}

#[test]
fn an_error_after_200() {
    let error =
        "data: {\"error\":{\"message\":\"the engine is gone\",\"type\":\"server_error\"}}\n\n";
    check(&Server::saying(format!("{SSE}{error}data: [DONE]\n\n")), &[], "in_band_error");
    let named = format!("{SSE}event: error\ndata: gone\n\n");
    check(&Server::saying(named), &[], "in_band_error");
}

#[test]
fn a_stream_that_never_ends_is_given_up() {
    let server = Server::new(|stream| {
        if read_request(stream) {
            let _ = stream.write_all(SSE.as_bytes());
            let event = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
            while stream.write_all(event).is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        }
    });
    check(&server, &["--timeout", "0.6"], "timeout");
}

#[test]
fn silence_is_given_up() {
    let server = Server::new(|stream| while read_request(stream) {});
    check(&server, &["--timeout", "0.3"], "timeout");
}

#[test]
fn what_is_not_http() {
    check(&Server::saying("SSH-2.0-OpenSSH_9.6\r\n\r\n"), &[], "protocol");
    check(&Server::saying(format!("{SSE}data: {{not json\n\n")), &[], "protocol");
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(4 << 20));
    check(&Server::saying(endless), &[], "protocol");
}

#[test]
fn a_line_without_end_fills_no_memory() {
    let server = Server::new(|stream| {
        if read_request(stream) {
            let _ = stream.write_all(SSE.as_bytes());
            while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
        }
    });
    check(&server, &[], "protocol");
}

#[test]
fn counts_of_tokens_that_cannot_be() {
    let with = |usage: &str| {
        let (start, _) = GOOD.split_once("data: {\"choices\":[],").unwrap();
        let usage = format!("data: {{\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n");
        Server::saying(format!("{SSE}{start}{usage}"))
    };
    check(&with(r#"{"prompt_tokens":9,"completion_tokens":0}"#), &[], "bad_usage");
    check(&with(r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":3}"#), &[], "bad_usage");
    check(&with(r#"{"prompt_tokens":-9,"completion_tokens":3}"#), &[], "bad_usage");
    check(&with(r#"{"prompt_tokens":9,"completion_tokens":513}"#), &[], "bad_usage");
    // Servers that do not count are no failure: events are counted instead.
    check(&with("null"), &[], "ok");
}

#[test]
fn an_idle_connection_that_the_server_closed_is_no_failure() {
    let server = Server::new(|stream| {
        if read_request(stream) {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ";
            let _ = write!(stream, "{head}{}\r\n\r\n{GOOD}", GOOD.len());
            // It does not say that it will close, and it closes when the next request is there.
            let _ = stream.peek(&mut [0]);
        }
    });
    check(&server, &[], "ok");
}

#[test]
fn an_outstanding_request_delays_nobody() {
    let server = Server::new(|stream| while read_request(stream) {});
    let done = Bench::new().run(&server.url(), &["--rate", "200", "--timeout", "2"]);
    assert_eq!(done.classes()["timeout"], 103);
    // All had been sent before the first was given up, each on a connection of its own.
    assert_eq!(server.connections(), 103);
}

#[test]
fn refusals_are_tried_again_as_sdks_do() {
    let refusal =
        "HTTP/1.1 503 Service Unavailable\r\nretry-after-ms: 20\r\ncontent-length: 0\r\n\r\n";
    let server = Server::saying(refusal);
    let done = Bench::new().run(&server.url(), &["--retries", "sdk"]);
    assert_eq!(done.classes()["shed"], 10);
    assert_eq!(done.summary["attempts"], 3.0);
}
