//! Questions about the whole stack, each a section of the output:
//!
//! - `latency`: what do gateway, admission and gRPC add to the engine's own time? The engine is a mock that
//!   sleeps; its own time from submission to first token, and to the end, is read from its records and
//!   taken off what the client saw. Beside it: what of that is `Prepare` and `Decide`; what a round trip
//!   costs that does nothing, of HTTP (the same client asks the same gateway for `/version`) and of gRPC
//!   (a health check of the engine); and the processor time of each process.
//! - `decide`: how long does a decision take over loopback?
//! - `memory`: are gateway and admission small, and flat after 10,000 requests, and after 100,000?
//! - `throughput`: how many tokens a second does the engine decode from the real model while clients
//!   read them through the whole stack, and while they ask the engine itself? The two in turn.
//!
//! `cargo bench --workspace --bench stack [-- latency ...]`, on a machine that does nothing else. Client,
//! gateway, admission and engine share its processors. Under `cargo test` it runs next to nothing.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::{
    collections::BTreeMap,
    env,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use e2e::{Chat, Process, Spec, Stack};
use futures_util::future::join_all;
use proto::v1::{
    self, admission_client::AdmissionClient, engine_client::EngineClient,
    watch_event::Event as Seen,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let measured = env::args().any(|arg| arg == "--bench");
    let named: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |section: &str| named.is_empty() || named.iter().any(|name| name == section);
    let scale = Scale(if measured { 1 } else { 500 });
    if wanted("latency") {
        latency(scale).await;
    }
    if wanted("decide") {
        decide(scale).await;
    }
    if wanted("memory") {
        memory(scale).await;
    }
    if wanted("throughput") {
        throughput(scale).await;
    }
}

/// Divides the work, so that a test run is short.
#[derive(Clone, Copy)]
struct Scale(usize);

impl Scale {
    fn of(self, count: usize) -> usize {
        count.div_ceil(self.0)
    }
}

/// Median, 99th percentile and maximum, in milliseconds.
fn quantiles(mut values: Vec<Duration>) -> String {
    values.sort();
    let at = |share: usize| values[(values.len() * share / 100).min(values.len() - 1)];
    let millis = |it: Duration| it.as_secs_f64() * 1e3;
    format!("{:.2} | {:.2} | {:.2}", millis(at(50)), millis(at(99)), millis(at(100)))
}

fn median_millis(mut values: Vec<Duration>) -> f64 {
    values.sort();
    values[values.len() / 2].as_secs_f64() * 1e3
}

/// What the engine's records say.
#[derive(Default)]
struct Seeing {
    lives: BTreeMap<String, Life>,
    /// When each step was committed, and how many sequences decoded in it.
    steps: Vec<(u64, u32)>,
}

/// The engine's own times: from the arrival of `Generate` to the first token, and to the end.
struct Life {
    first: Duration,
    finished: Duration,
}

/// Follows an engine's records until it is dropped.
struct Observer {
    seeing: Arc<Mutex<Seeing>>,
    following: tokio::task::JoinHandle<()>,
}

impl Observer {
    async fn start(stack: &Stack) -> Self {
        let (say, said) = mpsc::channel(4);
        let role = v1::hello::Role::Observer.into();
        let hello = v1::Hello { instance: "bench".into(), role, ..v1::Hello::default() };
        say.send(request(v1::watch_request::Message::Hello(hello))).await.expect("room");
        let mut engine = EngineClient::connect(stack.engine_address()).await.expect("an engine");
        let mut seen = engine.watch(ReceiverStream::new(said)).await.expect("a watch").into_inner();
        let seeing = Arc::new(Mutex::new(Seeing::default()));
        let noted = seeing.clone();
        let following = tokio::spawn(async move {
            let mut pings = tokio::time::interval(Duration::from_secs(1));
            loop {
                tokio::select! {
                    event = seen.message() => match event {
                        Ok(Some(v1::WatchEvent { event: Some(Seen::Record(record)) })) => {
                            noted.lock().expect("no panic").note(&record);
                        }
                        Ok(Some(_)) => {}
                        Ok(None) | Err(_) => return,
                    },
                    _ = pings.tick() => {
                        let ping = request(v1::watch_request::Message::Ping(v1::Ping {}));
                        let _ = say.send(ping).await;
                    }
                }
            }
        });
        Self { seeing, following }
    }

    /// What was seen, once the last records are in.
    async fn seen(&self) -> MutexGuard<'_, Seeing> {
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.seeing.lock().expect("no panic")
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.following.abort();
    }
}

fn request(message: v1::watch_request::Message) -> v1::WatchRequest {
    v1::WatchRequest { message: Some(message) }
}

impl Seeing {
    fn note(&mut self, record: &v1::Record) {
        match &record.event {
            Some(v1::record::Event::Step(step)) => self.steps.push((record.at_us, step.decodes)),
            Some(v1::record::Event::Lifecycle(life)) => {
                if let Some(v1::lifecycle::Event::Finished(finished)) = &life.event {
                    let timings = finished.timings.unwrap_or_default();
                    let first = Duration::from_micros(timings.first_token_us.unwrap_or_default());
                    let finished = Duration::from_micros(timings.finished_us);
                    self.lives.insert(life.request_id.clone(), Life { first, finished });
                }
            }
            None => {}
        }
    }

    /// What clients waited for beyond the engine's own time: to the first token, and to the end.
    fn added(&self, answers: &[e2e::Answer]) -> (Vec<Duration>, Vec<Duration>) {
        let added = answers.iter().map(|answer| {
            assert!(answer.is_complete(), "{answer:?}");
            let own = &self.lives[answer.request_id.as_ref().expect("every answer has an id")];
            let first = answer.first.expect("text").saturating_sub(own.first);
            (first, answer.took.saturating_sub(own.finished))
        });
        added.unzip()
    }

    /// Tokens per second over the steps in which all `streams` decoded.
    fn rate(&self, streams: u32) -> f64 {
        let full = || self.steps.iter().filter(|(_, decodes)| *decodes == streams);
        let (Some((begun, _)), Some((ended, _))) = (full().next(), full().next_back()) else {
            return f64::NAN;
        };
        let tokens = f64::from(streams) * (full().count() - 1) as f64;
        tokens / Duration::from_micros(ended - begun).as_secs_f64().max(1e-9)
    }
}

async fn latency(scale: Scale) {
    println!("\n## latency: milliseconds added to the engine's own time\n");
    println!(
        "| streams | requests | first token p50 | p99 | max | whole answer p50 | p99 | max \
         | HTTP | gRPC | Prepare | Decide | client | gateway | admission | engine |"
    );
    println!("|{}", "---|".repeat(16));
    for (streams, each) in [(1, 400), (32, 40), (256, 8)] {
        let spec = Spec::mock(20_000, 0).engine(&["--slots", "256", "--context-tokens", "512"]);
        let spec = spec.admission(&["--limit-requests", "512", "--limit-tokens", "1000000"]);
        let stack = Stack::start(spec).await;
        let observer = Observer::start(&stack).await;
        let used = Used::of(&stack);
        let clients = (0..streams).map(|number| client(&stack, number, scale.of(each)));
        let answers = join_all(clients).await.concat();
        let used = Used::of(&stack).since(used, answers.len());
        let (first, whole) = observer.seen().await.added(&answers);
        let requests = answers.len();
        let http = (0..streams).map(|number| plain(&stack, number, scale.of(each)));
        let http = median_millis(join_all(http).await.concat());
        let calls = (0..streams).map(|number| checks(&stack, number, scale.of(each)));
        let grpc = median_millis(join_all(calls).await.concat());
        let calls = mean_millis(&stack, &["prepare", "decide"]).await;
        println!(
            "| {streams} | {requests} | {} | {} | {http:.2} | {grpc:.2} | {calls} | {used} |",
            quantiles(first),
            quantiles(whole)
        );
    }
}

/// Means of the gateway's own histograms, in milliseconds.
async fn mean_millis(stack: &Stack, names: &[&str]) -> String {
    let mut means = Vec::new();
    for name in names {
        let part = |part| format!("cadence_gateway_{name}_seconds_{part}");
        let sum = stack.gateway_metric(0, &part("sum")).await;
        let count = stack.gateway_metric(0, &part("count")).await;
        means.push(format!("{:.2}", sum / count * 1e3));
    }
    means.join(" | ")
}

/// Processor time by process: client, gateway, admission, engine.
#[derive(Clone, Copy)]
struct Used([Duration; 4]);

impl Used {
    fn of(stack: &Stack) -> Self {
        let [gateway, ..] = &stack.gateways[..] else { unreachable!("a stack has a gateway") };
        let served = [gateway, &stack.admission, &stack.engine].map(Process::processor_time);
        let [gateway, admission, engine] = served;
        Self([e2e::processor_time(std::process::id()), gateway, admission, engine])
    }

    /// Milliseconds a request since `earlier`.
    fn since(self, earlier: Self, requests: usize) -> String {
        let each = |(now, then): (Duration, Duration)| (now - then).as_secs_f64() * 1e3;
        let shares = self.0.into_iter().zip(earlier.0).map(each);
        let shares: Vec<String> =
            shares.map(|millis| format!("{:.2}", millis / requests as f64)).collect();
        shares.join(" | ")
    }
}

/// One request after the other. Answers end with the mock's steps, many at once; a scattered pause of up to
/// a step keeps the next requests from arriving all at once too.
async fn client(stack: &Stack, number: u64, requests: usize) -> Vec<e2e::Answer> {
    let mut answers = Vec::new();
    for round in 0..requests as u64 {
        scatter(number, round).await;
        answers.push(Chat::new("a short question", 16).ask(stack, 0).await);
    }
    answers
}

async fn scatter(number: u64, round: u64) {
    let micros = (number * 7_919 + round * 104_729) % 20_000;
    tokio::time::sleep(Duration::from_micros(micros)).await;
}

/// Round trips of plain HTTP by clients that pause like [`client`].
async fn plain(stack: &Stack, number: u64, requests: usize) -> Vec<Duration> {
    let mut took = Vec::new();
    for round in 0..requests as u64 {
        scatter(number, round).await;
        let sent = Instant::now();
        let response = stack.http().get(stack.url(0, "/version")).send().await;
        response.expect("a gateway").bytes().await.expect("a body");
        took.push(sent.elapsed());
    }
    took
}

/// Round trips of gRPC, likewise.
async fn checks(stack: &Stack, number: u64, requests: usize) -> Vec<Duration> {
    let channel = Endpoint::from_shared(stack.engine_address()).expect("an address");
    let mut client = HealthClient::new(channel.tcp_nodelay(true).connect_lazy());
    let mut took = Vec::new();
    for round in 0..requests as u64 {
        scatter(number, round).await;
        let sent = Instant::now();
        client.check(HealthCheckRequest::default()).await.expect("an engine");
        took.push(sent.elapsed());
    }
    took
}

async fn decide(scale: Scale) {
    println!("\n## decide: milliseconds over loopback, one caller at a time and eight\n");
    println!("| callers | decisions | p50 | p99 | max |");
    println!("|---|---|---|---|---|");
    let spec = Spec::mock(20_000, 0).admission(&["--lease-ms", "1"]);
    let stack = Stack::start(spec).await;
    let mut asker = Asker::of(&stack).await;
    for callers in [1, 8] {
        let took = asker.ask(callers, scale.of(20_000 / callers)).await;
        println!("| {callers} | {} | {} |", took.len(), quantiles(took));
    }
}

/// Asks admission alone.
struct Asker {
    client: AdmissionClient<Channel>,
    instance: String,
    /// Questions so far: each has an id of its own.
    asked: usize,
}

impl Asker {
    async fn of(stack: &Stack) -> Self {
        let mut engine = EngineClient::connect(stack.engine_address()).await.expect("an engine");
        let info = engine.info(v1::InfoRequest {}).await.expect("info").into_inner();
        let client = AdmissionClient::connect(stack.admission_address()).await.expect("admission");
        Self { client, instance: info.engine_instance, asked: 0 }
    }

    /// How long each decision took when so many callers at once had `each` one after the other.
    async fn ask(&mut self, callers: usize, each: usize) -> Vec<Duration> {
        let calls = (0..callers).map(|caller| {
            let (mut client, instance) = (self.client.clone(), &self.instance);
            let first = self.asked + caller * each;
            async move {
                let mut took = Vec::new();
                for number in first..first + each {
                    let question = question(number, instance);
                    let begun = Instant::now();
                    client.decide(question).await.expect("a verdict");
                    took.push(begun.elapsed());
                }
                took
            }
        });
        let took = join_all(calls).await.concat();
        self.asked += callers * each;
        took
    }
}

fn question(number: usize, instance: &str) -> v1::DecideRequest {
    let candidate = v1::Candidate { engine_instance: instance.into(), ..v1::Candidate::default() };
    v1::DecideRequest {
        request_id: format!("{number:032x}"),
        candidates: vec![candidate],
        prompt_tokens: 100,
        max_tokens: 100,
        patience_us: Some(0),
        ..v1::DecideRequest::default()
    }
}

/// Requests first. Then decisions alone: each is a row like a request's, and they are fast enough to
/// fill the trace folder until it lets the oldest rows go.
async fn memory(scale: Scale) {
    println!("\n## memory: MiB resident after so many requests, and decisions beyond theirs\n");
    println!("| requests | decisions | gateway | admission | rows stored |");
    println!("|---|---|---|---|---|");
    let stack = Stack::start(Spec::mock(0, 0).admission(&["--limit-requests", "64"])).await;
    let mut asker = Asker::of(&stack).await;
    let mut done = 0;
    for more in [0, 1_000, 9_000, 10_000, 10_000, 20_000, 20_000, 30_000] {
        let each = scale.of(more / 16);
        let clients = (0..16).map(|_| hurried(&stack, each));
        join_all(clients).await;
        done += each * 16;
        show_memory(&stack, done, asker.asked).await;
    }
    for _ in 0..6 {
        asker.ask(16, scale.of(50_000 / 16)).await;
        show_memory(&stack, done, asker.asked).await;
    }
}

/// Short answers one after the other, without a pause.
async fn hurried(stack: &Stack, requests: usize) {
    for _ in 0..requests {
        let answer = Chat::new("a short question", 2).ask(stack, 0).await;
        assert!(answer.is_complete(), "{answer:?}");
    }
}

async fn show_memory(stack: &Stack, requests: usize, decisions: usize) {
    // The trace thread may be behind.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let gateway = mib(stack.gateways[0].resident_bytes());
    let admission = mib(stack.admission.resident_bytes());
    let rows = stack.admission_metric("cadence_admission_trace_rows_total").await;
    println!("| {requests} | {decisions} | {gateway:.1} | {admission:.1} | {rows} |");
}

async fn throughput(scale: Scale) {
    println!("\n## throughput: tokens per second from the real model, while clients read them\n");
    println!("| streams | stack | engine alone | stack / engine alone (min to max) |");
    println!("|---|---|---|---|");
    let stack = Stack::start(Spec::model().engine(&["--threads", "0"])).await;
    let tokens = u32::try_from(scale.of(64)).expect("small") + 2;
    for streams in [1, 4, 8] {
        let mut rounds = Vec::new();
        for round in 0..scale.of(11) as u64 {
            let mut turns = [Way::Stack, Way::Engine];
            turns.rotate_left(usize::from(!round.is_multiple_of(2)));
            let mut rates = BTreeMap::new();
            for way in turns {
                rates.insert(way, rate(&stack, way, streams, round, tokens).await);
            }
            rounds.push((rates[&Way::Stack], rates[&Way::Engine]));
        }
        let middle = |values: &mut dyn Iterator<Item = f64>| {
            let mut values: Vec<f64> = values.collect();
            values.sort_by(f64::total_cmp);
            (values[values.len() / 2], values[0], values[values.len() - 1])
        };
        let (through, ..) = middle(&mut rounds.iter().map(|(stack, _)| *stack));
        let (alone, ..) = middle(&mut rounds.iter().map(|(_, engine)| *engine));
        let (ratio, least, most) = middle(&mut rounds.iter().map(|(stack, engine)| stack / engine));
        println!(
            "| {streams} | {through:.0} | {alone:.0} | {ratio:.3} ({least:.3} to {most:.3}) |"
        );
    }
}

/// How clients reach the engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// Over HTTP, the gateway and admission.
    Stack,
    /// Over its own gRPC: no other process has anything to do.
    Engine,
}

/// Tokens per second of so many answers at once.
async fn rate(stack: &Stack, way: Way, streams: u32, round: u64, tokens: u32) -> f64 {
    let observer = Observer::start(stack).await;
    let asks = (0..streams).map(|number| async move {
        let story = format!("Tell me a very long story, number {number} of {round}.");
        let id = 10_000 * u64::from(streams) + 100 * round + u64::from(number);
        match way {
            Way::Stack => drop(Chat::new(&story, tokens).ask(stack, 0).await),
            Way::Engine => ask_engine(stack, id, story, tokens).await,
        }
    });
    join_all(asks).await;
    observer.seen().await.rate(streams)
}

/// What the gateway asks of the engine for [`Chat::new`].
async fn ask_engine(stack: &Stack, id: u64, content: String, max_tokens: u32) {
    let mut engine = EngineClient::connect(stack.engine_address()).await.expect("an engine");
    let request_id = format!("{id:032x}");
    let message = v1::ChatMessage { role: "user".into(), content };
    let input = v1::prepare_request::Input::Chat(v1::ChatInput { messages: vec![message] });
    let prepare = v1::PrepareRequest {
        request_id: request_id.clone(),
        input: Some(input),
        ..v1::PrepareRequest::default()
    };
    engine.prepare(prepare).await.expect("room");
    let generate = v1::GenerateRequest {
        request_id,
        prompt: Some(v1::generate_request::Prompt::Prepared(true)),
        sampling: Some(v1::Sampling { top_p: 1.0, ..v1::Sampling::default() }),
        max_tokens,
        ..v1::GenerateRequest::default()
    };
    let mut answer = engine.generate(generate).await.expect("room").into_inner();
    while answer.message().await.expect("an answer").is_some() {}
}
