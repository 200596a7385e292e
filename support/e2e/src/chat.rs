//! A chat client that believes nothing.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::Stack;

/// One chat request.
#[derive(Clone, Debug)]
pub struct Chat {
    /// The body.
    pub body: Value,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
}

/// How it ended.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// HTTP status; 0 when there was no answer at all.
    pub status: u16,
    /// The text.
    pub text: String,
    /// The finish reason, if one was told.
    pub finish: Option<String>,
    /// The error object, from the body or in band.
    pub error: Option<Value>,
    /// Whether the stream ended with `[DONE]`.
    pub done: bool,
    /// Why there was no answer at all.
    pub lost: Option<String>,
    /// The usage, if it was told.
    pub usage: Option<Value>,
    /// The Retry-After header.
    pub retry_after: Option<u64>,
    /// The `x-slo-tier` header.
    pub tier: Option<String>,
    /// The answer's wall-clock time, in Unix seconds.
    pub created: Option<u64>,
    /// The `x-request-id` header.
    pub request_id: Option<String>,
    /// From sending to the first text.
    pub first: Option<Duration>,
    /// From sending to the end.
    pub took: Duration,
}

impl Answer {
    /// Whether it was refused as clients understand it: with a reason and a time to come back.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        let told = self.retry_after.is_some_and(|secs| (1..=59).contains(&secs));
        self.status == 503 && self.error.is_some() && told
    }

    /// Whether it began and then failed as clients understand it: an error in band, and no clean end.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.status == 200 && self.error.is_some() && self.finish.is_none() && !self.done
    }

    /// Whether a whole answer arrived.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.status == 200 && self.error.is_none() && self.finish.is_some()
    }
}

impl Chat {
    /// A user's message, greedy, streamed.
    #[must_use]
    pub fn new(content: &str, max_tokens: u32) -> Self {
        let messages = json!([{"role": "user", "content": content}]);
        let body = json!({
            "messages": messages, "max_tokens": max_tokens, "temperature": 0, "stream": true,
            "stream_options": {"include_usage": true},
        });
        Self { body, headers: Vec::new() }
    }

    /// Not streamed.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.body["stream"] = json!(false);
        self.body.as_object_mut().expect("an object").remove("stream_options");
        self
    }

    /// With a field set.
    #[must_use]
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.body[field] = value;
        self
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    /// Sends it and reads to the end.
    pub async fn ask(&self, stack: &Stack, gateway: usize) -> Answer {
        self.ask_url(stack.http(), &stack.url(gateway, "/v1/chat/completions")).await
    }

    /// Sends it to any server.
    pub async fn ask_url(&self, http: &reqwest::Client, url: &str) -> Answer {
        let sent = Instant::now();
        let mut request = http.post(url).json(&self.body);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let mut answer = Answer::default();
        match request.send().await {
            Ok(response) => answer.read(response, sent).await,
            Err(error) => answer.lost = Some(format!("{error:?}")),
        }
        answer.took = sent.elapsed();
        answer
    }
}

impl Answer {
    async fn read(&mut self, response: reqwest::Response, sent: Instant) {
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        self.status = response.status().as_u16();
        self.retry_after = header("retry-after").and_then(|it| it.parse().ok());
        self.tier = header("x-slo-tier");
        self.request_id = header("x-request-id");
        if header("content-type").is_some_and(|it| it.starts_with("text/event-stream")) {
            self.stream(response, sent).await;
        } else if let Ok(body) = response.json::<Value>().await {
            self.whole(&body);
            self.first = Some(sent.elapsed());
        }
    }

    fn whole(&mut self, body: &Value) {
        self.error = body.get("error").cloned();
        self.usage = body.get("usage").cloned();
        self.created = body["created"].as_u64();
        let choice = &body["choices"][0];
        self.text = choice["message"]["content"].as_str().unwrap_or_default().into();
        self.finish = choice["finish_reason"].as_str().map(Into::into);
    }

    async fn stream(&mut self, response: reqwest::Response, sent: Instant) {
        let mut bytes = response.bytes_stream();
        let mut buffer = Vec::new();
        while let Some(Ok(chunk)) = bytes.next().await {
            buffer.extend_from_slice(&chunk);
            while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
                let record: Vec<u8> = buffer.drain(..end + 2).collect();
                let record = std::str::from_utf8(&record).expect("every record is UTF-8");
                self.record(record.trim_end(), sent);
            }
        }
    }

    fn record(&mut self, record: &str, sent: Instant) {
        let Some(data) = record.strip_prefix("data: ") else {
            assert!(record.starts_with(':'), "neither data nor a comment: {record:?}");
            return;
        };
        assert!(!self.done, "a record after [DONE]: {record:?}");
        if data == "[DONE]" {
            self.done = true;
            return;
        }
        let chunk: Value = serde_json::from_str(data).expect("every record is JSON");
        if let Some(error) = chunk.get("error") {
            self.error = Some(error.clone());
            return;
        }
        self.created = chunk["created"].as_u64();
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(usage.clone());
        }
        let choice = &chunk["choices"][0];
        if let Some(text) = choice["delta"]["content"].as_str().filter(|text| !text.is_empty()) {
            self.first.get_or_insert_with(|| sent.elapsed());
            self.text.push_str(text);
        }
        if let Some(finish) = choice["finish_reason"].as_str() {
            assert!(self.finish.replace(finish.into()).is_none(), "two finish reasons");
        }
    }
}
