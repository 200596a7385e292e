//! A client that speaks bytes.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::timeout,
};

use super::LONG;

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// Without the framing.
    pub(crate) body: Vec<u8>,
    /// Whether the body ended as it should.
    pub(crate) complete: bool,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(key, _)| key == name);
        header.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error envelope, checked, as (type, param, code).
    #[track_caller]
    pub(crate) fn error(&self) -> (String, Option<String>, Option<String>) {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        assert!(self.header("x-request-id").is_some_and(|id| id.len() == 32), "{self:?}");
        assert_eq!(self.header("access-control-allow-origin"), Some("*"), "{self:?}");
        let json = self.json();
        assert_eq!(json.as_object().map(|envelope| envelope.len()), Some(1), "{self:?}");
        let error = json["error"].as_object().expect("an error object");
        for member in ["message", "type", "param", "code"] {
            assert!(error.contains_key(member), "{member} is missing: {self:?}");
        }
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
        let text = |member: &str| error[member].as_str().map(str::to_owned);
        (text("type").expect("a type"), text("param"), text("code"))
    }
}

/// A connection to the gateway.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self { stream: BufReader::new(TcpStream::connect(address).await.expect("a connection")) }
    }

    /// Sends bytes; the other side may already have enough of them.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.get_mut().write_all(bytes.as_ref()).await;
    }

    /// Reads one response. `bodiless` is for answers to HEAD.
    pub(crate) async fn read(&mut self, bodiless: bool) -> Response {
        let response = async {
            let (status, headers) = self.head().await;
            let mut response = Response { status, headers, body: Vec::new(), complete: true };
            if !bodiless && status != 204 {
                self.body(&mut response).await;
            }
            response
        };
        timeout(LONG, response).await.expect("no answer")
    }

    /// Reads status and headers.
    pub(crate) async fn head(&mut self) -> (u16, Vec<(String, String)>) {
        let status = self.line().await.expect("a status line");
        let status = status.split(' ').nth(1).expect("a status").parse().expect("a number");
        let mut headers = Vec::new();
        loop {
            let line = self.line().await.expect("a header line");
            let Some((key, value)) = line.split_once(": ") else { return (status, headers) };
            headers.push((key.to_lowercase(), value.to_owned()));
        }
    }

    /// Reads one piece of a chunked body; nothing at its end.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = timeout(LONG, self.line()).await.expect("no chunk")?;
        let size = usize::from_str_radix(&size, 16).expect("a chunk size");
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk).await.ok()?;
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    /// Whether the other side has closed.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let read = timeout(LONG, self.stream.read(&mut [0])).await.expect("still open");
        matches!(read, Ok(0) | Err(_))
    }

    async fn body(&mut self, response: &mut Response) {
        let header = |name| response.header(name).map(str::to_owned);
        if header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().await {
                response.body.extend(chunk);
            }
        } else if let Some(length) = header("content-length") {
            response.body = vec![0; length.parse().expect("a length")];
            response.complete = self.stream.read_exact(&mut response.body).await.is_ok();
        } else {
            response.complete = self.stream.read_to_end(&mut response.body).await.is_ok();
        }
    }

    async fn line(&mut self) -> Option<String> {
        use tokio::io::AsyncBufReadExt as _;
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await.ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }
}

/// The bytes of a request with a JSON body.
pub(crate) fn request(path: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{headers}content-length: \
         {}\r\n\r\n{body}",
        body.len()
    )
}

/// A chat request with `members` beside its message.
pub(crate) fn chat(members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    let body = format!(r#"{{"messages":[{{"role":"user","content":"hi"}}]{comma}{members}}}"#);
    request("/v1/chat/completions", "", &body)
}

/// A completion request with `members` beside its prompt.
pub(crate) fn completion(members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    request("/v1/completions", "", &format!("{{\"prompt\":\"Say\"{comma}{members}}}"))
}

/// Sends a request on a connection of its own.
pub(crate) async fn post(address: SocketAddr, request: impl AsRef<[u8]>) -> Response {
    let mut connection = Connection::open(address).await;
    connection.send(request).await;
    connection.read(false).await
}

/// Gets a path on a connection of its own.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Response {
    post(address, format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await
}
