//! Asks the gateway whether all is ready, over plain HTTP.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use crate::{console::Console, stack::Spec};

const POLL_EVERY: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(2);
/// No answer that we ask for is longer, in bytes.
const ANSWER_MAX: u64 = 64 << 10;
/// What the example names when the gateway does not tell its model.
const ANY_MODEL: &str = "default";

/// Returns when the gateway, the last of `specs`, says ready. Until then it shows what is missing.
pub(crate) async fn wait(specs: &[Spec; 3], console: &Console) {
    let began = Instant::now();
    let addresses = specs.each_ref().map(|spec| (spec.name, spec.address));
    loop {
        let missing = spawn_blocking(move || missing(&addresses)).await;
        match missing.expect("a probe returns its errors") {
            None => return,
            Some(what) => console.progress(&what, began.elapsed()),
        }
        sleep(POLL_EVERY).await;
    }
}

/// The name of the model that `gateway` serves.
pub(crate) async fn model(gateway: SocketAddr) -> String {
    let answer = spawn_blocking(move || get(gateway, "/v1/models")).await;
    let body = answer.expect("a probe returns its errors").map(|(_, body)| body);
    body.ok().and_then(|body| first_model(&body)).unwrap_or_else(|| ANY_MODEL.into())
}

fn missing(addresses: &[(&'static str, SocketAddr); 3]) -> Option<String> {
    let silent =
        |(_, address): &&(_, SocketAddr)| TcpStream::connect_timeout(address, TIMEOUT).is_err();
    let names: Vec<_> = addresses.iter().filter(silent).map(|(name, _)| *name).collect();
    if !names.is_empty() {
        return Some(format!("{} to listen", names.join(", ")));
    }
    let [.., (_, gateway)] = addresses;
    match get(*gateway, "/ready") {
        // Without admission a gateway serves too, by itself: not what was started here.
        Ok((200, body)) => match admission(&body) {
            Some(state) if state != "ok" => Some(format!("admission (/ready says {state})")),
            Some(_) | None => None,
        },
        Ok((status, _)) => Some(format!("the model to load (/ready says {status})")),
        Err(error) => Some(format!("the gateway to answer ({error})")),
    }
}

/// The status and body of one answer.
fn get(address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    parse(&String::from_utf8_lossy(&answer))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not HTTP"))
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.lines().next()?;
    Some((status.parse().ok()?, body.to_owned()))
}

fn first_model(body: &str) -> Option<String> {
    json(body)?["data"][0]["id"].as_str().map(str::to_owned)
}

/// How the gateway sees admission.
fn admission(body: &str) -> Option<String> {
    json(body)?["admission"]["state"].as_str().map(str::to_owned)
}

fn json(body: &str) -> Option<serde_json::Value> {
    // From brace to brace: the body may be one chunk, with its length before it.
    serde_json::from_str(body.get(body.find('{')?..=body.rfind('}')?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        let parsed = parse("HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\n{\"x\":1}");
        assert_eq!(parsed, Some((503, "{\"x\":1}".into())));
        assert_eq!(parse("HTTP/1.1 200\r\n\r\n"), Some((200, String::new())));
        for text in ["", "HTTP/1.1 200 OK\r\n", "SSH-2.0\r\n\r\n", "HTTP/1.1 x\r\n\r\n"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn admission_is_asked_after_too() {
        let ready = r#"{"status":"ready","admission":{"state":"degraded"}}"#;
        assert_eq!(admission(ready).as_deref(), Some("degraded"));
        assert_eq!(admission("{}"), None);
    }

    #[test]
    fn the_model_is_found_in_plain_and_chunked_bodies() {
        let body = r#"{"object":"list","data":[{"id":"SmolLM2"},{"id":"other"}]}"#;
        assert_eq!(first_model(body).as_deref(), Some("SmolLM2"));
        assert_eq!(first_model(&format!("3c\r\n{body}\r\n0\r\n\r\n")).as_deref(), Some("SmolLM2"));
        for text in ["", "}{", "{}", r#"{"data":[]}"#, r#"{"data":[{"id":3}]}"#] {
            assert_eq!(first_model(text), None, "{text:?}");
        }
    }
}
