//! Ten times as many requests at one moment as the stack has room for.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use e2e::{Answer, Chat, Gauges, Spec, Stack, allow_open_files};
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

const CLIENTS: usize = 2_000;
/// Requests that admission lets into the system: a tenth.
const ROOM: &str = "200";
/// `/health` answers within this, on a new connection, whatever else there is to do.
const HEALTH_MAX: Duration = Duration::from_secs(1);
/// Nobody waits longer for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// What gateway and admission may reserve, in bytes of address space.
const MEMORY_MAX: u64 = 2 << 30;
/// What a burst may add to the memory of a process that has been through two before, in bytes. The first two
/// find out how much is needed at once.
const GROWTH_MAX: u64 = 24 << 20;
/// How often the SDKs try again by themselves.
const RETRIES: usize = 2;

fn spec() -> Spec {
    let room = ["--limit-requests", ROOM, "--limit-tokens", "1000000"];
    Spec::mock(2_000, 20)
        .engine(&["--slots", "64", "--context-tokens", "512", "--prepared-ms", "2000"])
        .admission(&room)
        .admission(&["--limit-kv-blocks", "1000000"])
}

/// One client, streaming or not, that tries again as often as it may.
async fn client(http: reqwest::Client, url: String, number: usize, retries: usize) -> Answer {
    let chat = Chat::new(&format!("client {number} of many"), 16);
    let chat = if number.is_multiple_of(2) { chat } else { chat.whole() };
    let mut answer = Answer::default();
    for _ in 0..=retries {
        let asked = timeout(ANSWER_MAX, chat.ask_url(&http, &url)).await;
        answer = asked.unwrap_or_else(|_| panic!("client {number}: silence for {ANSWER_MAX:?}"));
        match answer.retry_after {
            Some(secs) if answer.is_refused() => sleep(Duration::from_secs(secs)).await,
            Some(_) | None => break,
        }
    }
    answer
}

/// Everybody at once. Returns how many had an answer; all others were refused as they should be.
async fn burst(stack: &Stack, retries: usize) -> usize {
    let url = stack.url(0, "/v1/chat/completions");
    // A fresh client: nobody has a connection yet.
    let http = reqwest::Client::new();
    let clients =
        (0..CLIENTS).map(|number| tokio::spawn(client(http.clone(), url.clone(), number, retries)));
    let mut complete = 0;
    for answer in join_all(clients.collect::<Vec<_>>()).await {
        let answer = answer.expect("no client hangs");
        assert!(answer.is_complete() || answer.is_refused(), "{answer:?}");
        complete += usize::from(answer.is_complete());
    }
    complete
}

/// Asks for `/health` on a thread of its own, so that it waits for the gateway and not for our clients.
struct HealthCheck {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Duration>,
}

impl HealthCheck {
    fn begin(stack: &Stack) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, address) = (stop.clone(), stack.address(0));
        let thread = thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                longest = longest.max(health(address));
                thread::sleep(Duration::from_millis(20));
            }
            longest
        });
        Self { stop, thread }
    }

    /// The longest that an answer took.
    fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("every check is answered")
    }
}

/// How long one check takes from connecting to the end of the answer.
fn health(address: SocketAddr) -> Duration {
    let asked_at = Instant::now();
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(ANSWER_MAX)).expect("a limit");
    let request = format!("GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    asked_at.elapsed()
}

async fn rest(stack: &Stack, idle: &Gauges) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let left = stack.gauges().await.expect("every process answers").left_over(idle);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "left over:\n{left}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Resident bytes of gateway and admission.
fn memory(stack: &Stack) -> [u64; 2] {
    [stack.gateways[0].resident_bytes(), stack.admission.resident_bytes()]
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_requests_at_once_are_all_answered() {
    allow_open_files(3 * CLIENTS as u64);
    let stack = Stack::start(spec()).await;
    stack.gateways[0].limit_memory(MEMORY_MAX);
    stack.admission.limit_memory(MEMORY_MAX);
    let warm = Chat::new("warm up", 4).ask(&stack, 0).await;
    assert!(warm.is_complete(), "{warm:?}");
    sleep(Duration::from_millis(1_500)).await;
    let idle = stack.gauges().await.expect("every process answers");
    let mut before = memory(&stack);
    let bursts =
        [("first", 0), ("second", 0), ("third", 0), ("with the retries of the SDKs", RETRIES)];
    for (number, (name, retries)) in bursts.into_iter().enumerate() {
        let (check, begun) = (HealthCheck::begin(&stack), Instant::now());
        let complete = burst(&stack, retries).await;
        let (longest, took) = (check.end(), begun.elapsed());
        rest(&stack, &idle).await;
        let after = memory(&stack);
        eprintln!(
            "{name}: {complete} of {CLIENTS} complete after {took:.1?}; /health took up to \
             {longest:?}; MiB of gateway and admission: {:?} to {:?}",
            before.map(|bytes| bytes >> 20),
            after.map(|bytes| bytes >> 20)
        );
        assert!(complete >= 100, "{name}: only {complete} got in");
        assert!(longest < HEALTH_MAX, "{name}: /health took {longest:?}");
        if number >= 2 {
            for (before, after) in before.iter().zip(after) {
                assert!(after < before + GROWTH_MAX, "{name}: {before} bytes became {after}");
            }
        }
        before = after;
    }
    let alive = Chat::new("alive?", 4).ask(&stack, 0).await;
    assert!(alive.is_complete(), "{alive:?}");
}
