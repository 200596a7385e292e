//! `loadgen stub`: a server without a model whose behaviour is known exactly.
//!
//! First come, first served by a fixed number of places, each request in a fixed time. When a request will
//! be done is computed when it arrives, so a late timer delays one answer and not all that follow.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::BoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Frame, Incoming},
    header::{CONTENT_TYPE, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Deserialize;
use tokio::{
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
};

use crate::{console, exit::Exit};

/// Bytes of a request's body that are read.
const BODY_BYTES_MAX: usize = 64 << 20;
/// After a failure to accept, such as no open file left.
const PAUSE: Duration = Duration::from_millis(20);
/// Between the last event of a stream and the end of the process.
const LINGER: Duration = Duration::from_millis(100);

/// Serve fixed answers in fixed time, to check a load generator with.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Which port; 0 for any that is free
    #[arg(long, default_value_t = 9000)]
    port: u16,
    /// How long a request takes once it has a place
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    service_ms: u64,
    /// How many are served at once; 0 for no limit. The capacity is places / service time
    #[arg(long, value_name = "PLACES", default_value_t = 1)]
    concurrency: u32,
    /// Tokens of an answer, spread evenly over its service time; fewer where max_tokens says so
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tokens: u32,
    /// What SIGTERM does
    #[arg(long, value_enum, default_value = "drain")]
    on_term: OnTerm,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnTerm {
    /// Streams finish, late requests hear 503, `/ready` too
    Drain,
    /// It is gone at once: what `drain-check` has to notice
    Die,
}

/// Serves until the process is ended.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn run(options: &Options) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let address = SocketAddr::new(options.host, options.port);
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
        console::say(&format!("stub: listening on http://{}", listener.local_addr()?));
        let stub = Arc::new(Stub::new(options));
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::spawn(accept(listener, Arc::clone(&stub)));
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        if options.on_term == OnTerm::Drain {
            stub.drain().await;
        }
        Ok(Exit::Done)
    })
}

async fn accept(listener: TcpListener, stub: Arc<Stub>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, Arc::clone(&stub)));
            }
            Err(error) => {
                console::note(&format!("stub: cannot accept: {error}"));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, stub: Arc<Stub>) {
    // A stream of tiny writes.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let stub = Arc::clone(&stub);
        async move { Ok::<_, Infallible>(stub.answer(request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).max_buf_size(64 * 1024);
    // Clients come and go.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// What of a request matters here.
#[derive(Default, Deserialize)]
struct Asked {
    max_tokens: Option<u32>,
}

/// The places, and when each is free again.
struct Stub {
    service: Duration,
    tokens: u32,
    /// Absent without a limit.
    free_at: Option<Mutex<BinaryHeap<Reverse<Instant>>>>,
    is_draining: AtomicBool,
    /// Who holds one streams.
    streams: Arc<()>,
}

type Body = BoxBody<Bytes, Infallible>;

impl Stub {
    fn new(options: &Options) -> Self {
        let now = Instant::now();
        let places = || (0..options.concurrency).map(|_| Reverse(now)).collect();
        Self {
            service: Duration::from_millis(options.service_ms),
            tokens: options.tokens,
            free_at: (options.concurrency > 0).then(|| Mutex::new(places())),
            is_draining: AtomicBool::new(false),
            streams: Arc::default(),
        }
    }

    /// Waits until the last stream has ended.
    async fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
        while Arc::strong_count(&self.streams) > 1 {
            tokio::time::sleep(PAUSE).await;
        }
        // The last event is with the system, but perhaps not yet with the client.
        tokio::time::sleep(LINGER).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let arrived = Instant::now();
        let path = request.uri().path().to_owned();
        if self.is_draining.load(Ordering::Relaxed) && path != "/health" {
            return draining();
        }
        match (request.method(), path.as_str()) {
            (&Method::GET, "/v1/models") => {
                json(StatusCode::OK, r#"{"object":"list","data":[{"id":"stub","object":"model"}]}"#)
            }
            (&Method::GET, "/health" | "/ready") => json(StatusCode::OK, "{}"),
            (&Method::POST, "/v1/chat/completions" | "/v1/completions") => {
                let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
                let Ok(body) = body else {
                    return json(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        r#"{"error":{"message":"too long"}}"#,
                    );
                };
                let asked: Asked = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
                let tokens = asked.max_tokens.unwrap_or(u32::MAX).clamp(1, self.tokens);
                let is_chat = path.ends_with("/chat/completions");
                self.stream(self.begin(arrived), is_chat, tokens)
            }
            _ => json(StatusCode::NOT_FOUND, r#"{"error":{"message":"no such path"}}"#),
        }
    }

    /// When a request that arrived just now has a place.
    fn begin(&self, arrived: Instant) -> Instant {
        let Some(free_at) = &self.free_at else { return arrived };
        let mut free_at = free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let Reverse(free) = free_at.pop().expect("there is at least one place");
        let begin = free.max(arrived);
        free_at.push(Reverse(begin + self.service));
        begin
    }

    fn stream(&self, begin: Instant, is_chat: bool, tokens: u32) -> Response<Body> {
        let service = self.service;
        let held = Arc::clone(&self.streams);
        let events = stream::iter(1..=tokens + 1).then(move |number| {
            let held = Arc::clone(&held);
            async move {
                let _held = held;
                if number <= tokens {
                    tokio::time::sleep_until((begin + service * number / tokens).into()).await;
                }
                let event = if number <= tokens { token(is_chat) } else { last(is_chat, tokens) };
                Ok(Frame::data(Bytes::from(event)))
            }
        });
        let mut response = Response::new(BodyExt::boxed(StreamBody::new(events)));
        let kind = hyper::header::HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}

fn draining() -> Response<Body> {
    let mut response = json(StatusCode::SERVICE_UNAVAILABLE, r#"{"error":{"message":"draining"}}"#);
    response.headers_mut().insert(RETRY_AFTER, hyper::header::HeaderValue::from_static("1"));
    response
}

fn token(is_chat: bool) -> String {
    let said = if is_chat { r#""delta":{"content":"la "}"# } else { r#""text":"la ""# };
    format!("data: {{\"choices\":[{{\"index\":0,{said},\"finish_reason\":null}}]}}\n\n")
}

fn last(is_chat: bool, tokens: u32) -> String {
    let said = if is_chat { r#""delta":{}"# } else { r#""text":"""# };
    format!(
        "data: {{\"choices\":[{{\"index\":0,{said},\"finish_reason\":\"length\"}}]}}\n\n\
         data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":1,\"completion_tokens\":{tokens},\
         \"total_tokens\":{}}}}}\n\ndata: [DONE]\n\n",
        u64::from(tokens) + 1
    )
}

fn json(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
