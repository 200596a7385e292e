//! The real binary, and a client of it.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use proto::v1::{self, admission_client::AdmissionClient, decide_response::Verdict};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};
use tonic::transport::Channel;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_admission-svc");

/// Nothing here takes longer unless it is broken; the machine may be busy.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) struct Service {
    child: Child,
    log: PathBuf,
    address: String,
    metrics: String,
    pub(crate) client: AdmissionClient<Channel>,
}

impl Service {
    /// Starts it over a trace folder, and returns when it answers.
    pub(crate) async fn start(traces: &Path, flags: &[&str]) -> Self {
        let [address, metrics] = [(); 2].map(|()| ports::free_address().to_string());
        let log = traces.with_extension("log");
        let file = std::fs::File::options().create(true).append(true).open(&log).expect("a log");
        let child = Command::new(BINARY)
            .args(["--engine", "", "--listen", &address, "--metrics-listen", &metrics])
            .arg("--trace-dir")
            .arg(traces)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("the binary is built with its tests");
        let channel = service::grpc::connect_lazily(&address).expect("an address");
        let client = AdmissionClient::new(channel);
        let mut service = Self { child, log, address, metrics, client };
        service
            .until("it answers", async |it| it.client.policy(v1::PolicyRequest {}).await.is_ok())
            .await;
        service
    }

    /// Waits for something to become true, and for the process to stay alive meanwhile.
    pub(crate) async fn until(&mut self, what: &str, holds: impl AsyncFn(&mut Self) -> bool) {
        let deadline = Instant::now() + SOON;
        while !holds(self).await {
            let ended = self.child.try_wait().expect("a child can be asked");
            assert!(ended.is_none(), "it ended with {ended:?}:\n{}", self.log());
            assert!(Instant::now() < deadline, "not soon: {what}\n{}", self.log());
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// A request about a snapshot that it brings; it is answered, whatever the disk does. The outcome of
    /// an admitted one is told.
    pub(crate) async fn decide(&mut self, number: u128) {
        let wire = ask(number);
        let answer = self.client.decide(wire.clone()).await;
        let answer = answer.unwrap_or_else(|error| panic!("{error}\n{}", self.log()));
        if let Some(Verdict::Admitted(_)) = answer.into_inner().verdict {
            let seen = v1::ObserveRequest {
                request_id: wire.request_id,
                completed: true,
                e2e_us: 1_234,
                ttft_us: Some(200),
                completion_tokens: 9,
                ..Default::default()
            };
            assert!(self.client.observe(seen).await.expect("observed").into_inner().known);
        }
    }

    pub(crate) async fn decide_all(&mut self, numbers: std::ops::Range<u128>) {
        for number in numbers {
            self.decide(number).await;
        }
    }

    /// All rows above a number.
    pub(crate) async fn rows(&mut self, after: u64) -> Result<Vec<v1::TraceRow>, tonic::Status> {
        let request = v1::ExportTracesRequest { after };
        let mut stream = self.client.export_traces(request).await?.into_inner();
        let mut rows = Vec::new();
        while let Some(row) = stream.message().await? {
            rows.push(row);
        }
        Ok(rows)
    }

    /// The sum of a metric's series, whole numbers all.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let text = self.scrape().await.unwrap_or_default();
        let series = text.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        series.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// A request that is let in and whose outcome nobody tells.
    pub(crate) async fn let_in(&mut self, number: u128) {
        let answer = self.client.decide(ask(number)).await.expect("an answer").into_inner();
        assert!(matches!(answer.verdict, Some(Verdict::Admitted(_))), "{answer:?}");
    }

    async fn scrape(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.metrics).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    pub(crate) async fn is_on_disk(&self) -> bool {
        self.metric("cadence_admission_trace_on_disk").await == 1
    }

    /// Waits until everything that was stored is flushed, and says up to which number.
    pub(crate) async fn flushed(&mut self, at_least: u64) -> u64 {
        let name = "cadence_admission_trace_flushed";
        self.until("rows are flushed", async |it| it.metric(name).await >= at_least).await;
        self.metric(name).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// SIGTERM, and a clean end.
    pub(crate) async fn stop(mut self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).expect("small"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be asked") {
                assert!(status.success(), "{status}\n{}", self.log());
                return;
            }
            assert!(Instant::now() < deadline, "it still runs:\n{}", self.log());
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It has ended if the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command of the binary to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).output().expect("the binary is built with its tests")
}

/// Every second request finds no room and is refused.
fn ask(number: u128) -> v1::DecideRequest {
    let limits = v1::EngineLimits {
        slots: 4,
        context_tokens: 1_000,
        kv_blocks: 256,
        kv_block_tokens: 16,
        ..Default::default()
    };
    let max_tokens = if number.is_multiple_of(2) { 50 } else { 5_000 };
    let snapshot = v1::EngineSnapshot {
        engine_instance: "other".into(),
        limits: Some(limits),
        kv: Some(v1::KvUsage { total: 256, free: 256, ..Default::default() }),
        cost: Some(v1::StepCost { base_us: 4_000.5, gain: f64::NAN, ..Default::default() }),
        step: u64::MAX,
        ..Default::default()
    };
    v1::DecideRequest {
        request_id: format!("{number:032x}"),
        candidates: vec![v1::Candidate { snapshot: Some(snapshot), ..Default::default() }],
        prompt_tokens: 100,
        max_tokens,
        patience_us: Some(0),
        tenant: "somebody".into(),
        ..Default::default()
    }
}
