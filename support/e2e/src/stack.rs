//! The three processes, wired to each other.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    Gauges, Links, Process, Spec,
    wiring::{Doors, Wiring},
};

/// A running stack.
#[derive(Debug)]
pub struct Stack {
    /// The engine worker that serves while it can.
    pub engine: Process,
    /// Further engine workers.
    pub spares: Vec<Process>,
    /// The admission service.
    pub admission: Process,
    /// The gateways.
    pub gateways: Vec<Process>,
    wiring: Wiring,
    http: reqwest::Client,
    _dir: TempDir,
}

/// Gauges that are 0 when nothing runs or waits.
const ENGINE_HOLDS: [&str; 3] = [
    "cadence_engine_running",
    "cadence_engine_waiting",
    "cadence_engine_kv_blocks{state=\"held\"}",
];
const ADMISSION_HOLDS: [&str; 3] =
    ["cadence_admission_leases", "cadence_admission_held", "cadence_admission_in_system_requests"];

impl Stack {
    /// Starts the processes and waits until admission watches every engine and every gateway is ready.
    ///
    /// # Panics
    /// The stack is not ready within a minute.
    pub async fn start(spec: Spec) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let wiring = Wiring::of(&spec).await;
        let spares = 1..wiring.engines.len();
        let stack = Self {
            engine: start_engine(&spec, 0, &wiring, dir.path()),
            spares: spares.map(|number| start_engine(&spec, number, &wiring, dir.path())).collect(),
            admission: start_admission(&spec, &wiring, dir.path()),
            gateways: (0..spec.gateways)
                .map(|number| start_gateway(&spec, number, &wiring, dir.path()))
                .collect(),
            wiring,
            http: reqwest::Client::new(),
            _dir: dir,
        };
        let engines = stack.wiring.engines.len();
        let watched = eventually(Duration::from_secs(60), async || stack.watches(engines).await);
        assert!(watched.await, "admission does not watch all of {engines} engines");
        for gateway in 0..spec.gateways {
            let ready =
                eventually(Duration::from_secs(60), async || stack.is_healthy(gateway).await);
            assert!(ready.await, "gateway {gateway} is not ready");
        }
        stack
    }

    /// The connections between the processes.
    ///
    /// # Panics
    /// The stack was not asked for any.
    #[must_use]
    pub fn links(&self) -> &Links {
        self.wiring.links.as_ref().expect("the specification says `linked`")
    }

    /// Every gauge of every process. Nothing when one of them does not answer.
    pub async fn gauges(&self) -> Option<Gauges> {
        let mut gauges = Gauges::default();
        gauges.add("engine", &self.exposition(self.serving().metrics).await?);
        for (number, spare) in self.wiring.engines[1..].iter().enumerate() {
            gauges.add(&format!("spare-{number}"), &self.exposition(spare.metrics).await?);
        }
        gauges.add("admission", &self.exposition(self.wiring.admission.metrics).await?);
        for (number, port) in self.wiring.gateways.iter().enumerate() {
            gauges.add(&format!("gateway-{number}"), &self.exposition(*port).await?);
        }
        Some(gauges)
    }

    /// The address of a gateway's route.
    #[must_use]
    pub fn url(&self, gateway: usize, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.wiring.gateways[gateway])
    }

    /// A gateway's address, for clients that speak bytes.
    #[must_use]
    pub fn address(&self, gateway: usize) -> SocketAddr {
        ([127, 0, 0, 1], self.wiring.gateways[gateway]).into()
    }

    /// The engine's gRPC address.
    #[must_use]
    pub fn engine_address(&self) -> String {
        format!("http://127.0.0.1:{}", self.serving().grpc)
    }

    /// Where the engine's metrics are.
    #[must_use]
    pub fn engine_metrics_url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.serving().metrics)
    }

    /// The admission service's gRPC address.
    #[must_use]
    pub fn admission_address(&self) -> String {
        format!("http://127.0.0.1:{}", self.wiring.admission.grpc)
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

    /// Whether admission watches so many engines.
    pub async fn watches(&self, engines: usize) -> bool {
        let watched = self.admission_metric("cadence_admission_watch_connected").await;
        watched == engines as f64
    }

    /// The sum of a metric's series on the engine; 0 when there are none.
    pub async fn engine_metric(&self, name: &str) -> f64 {
        self.metric(self.serving().metrics, name).await
    }

    /// The sum of a metric's series on a further engine.
    pub async fn spare_metric(&self, spare: usize, name: &str) -> f64 {
        self.metric(self.wiring.engines[1 + spare].metrics, name).await
    }

    /// The sum of a metric's series on the admission service.
    pub async fn admission_metric(&self, name: &str) -> f64 {
        self.metric(self.wiring.admission.metrics, name).await
    }

    /// The sum of a metric's series on a gateway.
    pub async fn gateway_metric(&self, gateway: usize, name: &str) -> f64 {
        self.metric(self.wiring.gateways[gateway], name).await
    }

    fn serving(&self) -> Doors {
        self.wiring.engines[0]
    }

    async fn exposition(&self, port: u16) -> Option<String> {
        let url = format!("http://127.0.0.1:{port}/metrics");
        let request = self.http.get(url).timeout(Duration::from_secs(2));
        request.send().await.ok()?.text().await.ok()
    }

    async fn metric(&self, port: u16, name: &str) -> f64 {
        let Some(text) = self.exposition(port).await else { return f64::NAN };
        let series = text.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Whether nothing runs, waits, is leased or in flight anywhere.
    pub async fn is_idle(&self) -> bool {
        let mut idle = true;
        for engine in &self.wiring.engines {
            for gauge in ENGINE_HOLDS {
                idle &= self.metric(engine.metrics, gauge).await == 0.0;
            }
        }
        for gauge in ADMISSION_HOLDS {
            idle &= self.admission_metric(gauge).await == 0.0;
        }
        for gateway in 0..self.gateways.len() {
            idle &= self.gateway_metric(gateway, "cadence_gateway_in_flight{route=\"chat\"}").await
                == 0.0;
        }
        idle
    }
}

fn start_engine(spec: &Spec, number: usize, wiring: &Wiring, dir: &Path) -> Process {
    let label = if number == 0 { "engine".into() } else { format!("spare-{}", number - 1) };
    start(spec, "engine-worker", &label, [wiring.engine_flags(number), spec.engine.clone()], dir)
}

fn start_admission(spec: &Spec, wiring: &Wiring, dir: &Path) -> Process {
    // Decisions go to disk, as under `make run`.
    let traces = vec!["--trace-dir".into(), dir.join("traces").display().to_string()];
    let flags = [wiring.admission_flags(), traces, spec.admission.clone()];
    start(spec, "admission-svc", "admission", flags, dir)
}

fn start_gateway(spec: &Spec, number: usize, wiring: &Wiring, dir: &Path) -> Process {
    let flags = [wiring.gateway_flags(number), spec.gateway.clone()];
    start(spec, "gateway", &format!("gateway-{number}"), flags, dir)
}

fn start<const N: usize>(
    spec: &Spec,
    name: &str,
    label: &str,
    flags: [Vec<String>; N],
    dir: &Path,
) -> Process {
    Process::start_under(spec.conditions.clone(), name, label, &flags.concat(), dir)
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
