//! The three processes, wired to each other.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::Process;

/// What to start.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Further arguments of the engine.
    pub engine: Vec<String>,
    /// Further arguments of admission.
    pub admission: Vec<String>,
    /// Further arguments of every gateway.
    pub gateway: Vec<String>,
    /// How many gateways.
    pub gateways: usize,
}

impl Spec {
    /// One gateway over a mock whose steps take `base_us` and `decode_us` for each sequence, and
    /// whose prompts are free.
    #[must_use]
    pub fn mock(base_us: u32, decode_us: u32) -> Self {
        let engine = ["--backend", "mock", "--mock-prefill-us", "1", "--mock-base-us"];
        let mut engine: Vec<String> = engine.map(String::from).into();
        engine.extend([base_us.to_string(), "--mock-decode-us".into(), decode_us.to_string()]);
        Self { engine, admission: Vec::new(), gateway: Vec::new(), gateways: 1 }
    }

    /// One gateway over the real default model.
    #[must_use]
    pub fn model() -> Self {
        let root = env!("CARGO_MANIFEST_DIR");
        let fetched = format!("{root}/../../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
        let path = std::env::var("CADENCE_TEST_MODEL").unwrap_or(fetched);
        assert!(std::path::Path::new(&path).exists(), "{path} is not there; run `make model`");
        let engine =
            ["--model", &path, "--slots", "8", "--context-tokens", "1024", "--threads", "1"];
        let engine = engine.map(String::from).into();
        Self { engine, admission: Vec::new(), gateway: Vec::new(), gateways: 1 }
    }

    /// Adds arguments of the engine.
    #[must_use]
    pub fn engine(mut self, args: &[&str]) -> Self {
        self.engine.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Adds arguments of admission.
    #[must_use]
    pub fn admission(mut self, args: &[&str]) -> Self {
        self.admission.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Adds arguments of every gateway.
    #[must_use]
    pub fn gateway(mut self, args: &[&str]) -> Self {
        self.gateway.extend(args.iter().map(ToString::to_string));
        self
    }
}

/// A running stack.
#[derive(Debug)]
pub struct Stack {
    /// The engine worker.
    pub engine: Process,
    /// The admission service.
    pub admission: Process,
    /// The gateways.
    pub gateways: Vec<Process>,
    ports: Ports,
    http: reqwest::Client,
    _dir: TempDir,
}

#[derive(Clone, Debug)]
struct Ports {
    engine: u16,
    engine_metrics: u16,
    admission: u16,
    admission_metrics: u16,
    gateways: Vec<u16>,
}

impl Stack {
    /// Starts the processes and waits until every gateway is ready.
    ///
    /// # Panics
    /// The stack is not ready within a minute.
    pub async fn start(spec: Spec) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut free = free_ports(4 + spec.gateways).into_iter();
        let mut port = || free.next().expect("enough ports were asked for");
        let ports = Ports {
            engine: port(),
            engine_metrics: port(),
            admission: port(),
            admission_metrics: port(),
            gateways: (0..spec.gateways).map(|_| port()).collect(),
        };
        let local = |port: u16| format!("127.0.0.1:{port}");
        let args = |first: &[(&str, String)], rest: &[String]| {
            let pairs = first.iter().flat_map(|(key, value)| [(*key).to_owned(), value.clone()]);
            pairs.chain(rest.iter().cloned()).collect::<Vec<String>>()
        };
        let engine_args = args(
            &[("--listen", local(ports.engine)), ("--metrics-listen", local(ports.engine_metrics))],
            &spec.engine,
        );
        let admission_args = args(
            &[
                ("--listen", local(ports.admission)),
                ("--metrics-listen", local(ports.admission_metrics)),
                ("--engine", local(ports.engine)),
            ],
            &spec.admission,
        );
        let gateway = |(number, listen): (usize, &u16)| {
            let args = args(
                &[
                    ("--listen", local(*listen)),
                    ("--engine", local(ports.engine)),
                    ("--admission", local(ports.admission)),
                ],
                &spec.gateway,
            );
            Process::start("gateway", &format!("gateway-{number}"), &args, dir.path())
        };
        let stack = Self {
            engine: Process::start("engine-worker", "engine", &engine_args, dir.path()),
            admission: Process::start("admission-svc", "admission", &admission_args, dir.path()),
            gateways: ports.gateways.iter().enumerate().map(gateway).collect(),
            ports: ports.clone(),
            http: reqwest::Client::new(),
            _dir: dir,
        };
        for gateway in 0..spec.gateways {
            let ready =
                eventually(Duration::from_secs(60), async || stack.is_healthy(gateway).await);
            assert!(ready.await, "gateway {gateway} is not ready");
        }
        stack
    }

    /// The address of a gateway's route.
    #[must_use]
    pub fn url(&self, gateway: usize, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.ports.gateways[gateway])
    }

    /// The engine's gRPC address.
    #[must_use]
    pub fn engine_address(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.engine)
    }

    /// The admission service's gRPC address.
    #[must_use]
    pub fn admission_address(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.admission)
    }

    /// The HTTP client.
    #[must_use]
    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Status and body of `/ready`; `None` when nobody answers.
    pub async fn ready(&self, gateway: usize) -> Option<(u16, serde_json::Value)> {
        let request = self.http.get(self.url(gateway, "/ready")).timeout(Duration::from_secs(2));
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        Some((status, response.json().await.ok()?))
    }

    /// Whether a gateway says that everything is well.
    pub async fn is_healthy(&self, gateway: usize) -> bool {
        let ready = self.ready(gateway).await;
        ready.is_some_and(|(status, body)| status == 200 && body["admission"]["state"] == "ok")
    }

    /// The sum of a metric's series on the engine; 0 when there are none.
    pub async fn engine_metric(&self, name: &str) -> f64 {
        self.metric(self.ports.engine_metrics, name).await
    }

    /// The sum of a metric's series on the admission service.
    pub async fn admission_metric(&self, name: &str) -> f64 {
        self.metric(self.ports.admission_metrics, name).await
    }

    /// The sum of a metric's series on a gateway.
    pub async fn gateway_metric(&self, gateway: usize, name: &str) -> f64 {
        self.metric(self.ports.gateways[gateway], name).await
    }

    async fn metric(&self, port: u16, name: &str) -> f64 {
        let url = format!("http://127.0.0.1:{port}/metrics");
        let Ok(response) = self.http.get(url).send().await else { return f64::NAN };
        let text = response.text().await.unwrap_or_default();
        let series = text.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Whether nothing runs, waits, is leased or in flight anywhere.
    pub async fn is_idle(&self) -> bool {
        let gauges = [
            self.engine_metric("cadence_engine_running").await,
            self.engine_metric("cadence_engine_waiting").await,
            self.engine_metric("cadence_engine_kv_blocks{state=\"held\"}").await,
            self.admission_metric("cadence_admission_leases").await,
            self.admission_metric("cadence_admission_held").await,
            self.admission_metric("cadence_admission_in_system_requests").await,
        ];
        let mut idle = gauges.iter().all(|gauge| *gauge == 0.0);
        for gateway in 0..self.gateways.len() {
            idle &= self.gateway_metric(gateway, "cadence_gateway_in_flight{route=\"chat\"}").await
                == 0.0;
        }
        idle
    }
}

/// Tries until `condition` holds. Says whether it did within `patience`.
pub async fn eventually(patience: Duration, condition: impl AsyncFn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !condition().await {
        if Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}

/// Ports that were free a moment ago. All are held until all are known, so that none comes twice.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    listeners.iter().map(|it| it.local_addr().expect("an address").port()).collect()
}
