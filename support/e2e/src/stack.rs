//! The three processes, wired to each other.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{Gauges, Link, Process, Spec};

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
    links: Option<Links>,
    http: reqwest::Client,
    _dir: TempDir,
}

/// The connections between the processes.
#[derive(Debug)]
pub struct Links {
    /// From every gateway to the engine.
    pub gateway_engine: Link,
    /// From every gateway to admission.
    pub gateway_admission: Link,
    /// From admission to the engine.
    pub admission_engine: Link,
}

#[derive(Clone, Debug)]
struct Ports {
    engine: u16,
    engine_metrics: u16,
    admission: u16,
    admission_metrics: u16,
    gateways: Vec<u16>,
}

/// Where each process finds the others.
struct Routes {
    gateway_engine: SocketAddr,
    gateway_admission: SocketAddr,
    admission_engine: SocketAddr,
}

impl Ports {
    fn free(gateways: usize) -> Self {
        let mut free = free_ports(4 + gateways).into_iter();
        let mut port = || free.next().expect("enough ports were asked for");
        Self {
            engine: port(),
            engine_metrics: port(),
            admission: port(),
            admission_metrics: port(),
            gateways: (0..gateways).map(|_| port()).collect(),
        }
    }
}

impl Links {
    async fn between(ports: &Ports) -> Self {
        Self {
            gateway_engine: Link::to(local(ports.engine)).await,
            gateway_admission: Link::to(local(ports.admission)).await,
            admission_engine: Link::to(local(ports.engine)).await,
        }
    }
}

impl Routes {
    fn through(links: Option<&Links>, ports: &Ports) -> Self {
        let (engine, admission) = (local(ports.engine), local(ports.admission));
        Self {
            gateway_engine: links.map_or(engine, |it| it.gateway_engine.address()),
            gateway_admission: links.map_or(admission, |it| it.gateway_admission.address()),
            admission_engine: links.map_or(engine, |it| it.admission_engine.address()),
        }
    }
}

impl Stack {
    /// Starts the processes and waits until every gateway is ready.
    ///
    /// # Panics
    /// The stack is not ready within a minute.
    pub async fn start(spec: Spec) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let ports = Ports::free(spec.gateways);
        let links = if spec.linked { Some(Links::between(&ports).await) } else { None };
        let routes = Routes::through(links.as_ref(), &ports);
        let stack = Self {
            engine: start_engine(&spec, &ports, dir.path()),
            admission: start_admission(&spec, &ports, &routes, dir.path()),
            gateways: (0..spec.gateways)
                .map(|number| start_gateway(&spec, number, &ports, &routes, dir.path()))
                .collect(),
            ports,
            links,
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

    /// The connections between the processes.
    ///
    /// # Panics
    /// The stack was not asked for any.
    #[must_use]
    pub fn links(&self) -> &Links {
        self.links.as_ref().expect("the specification says `linked`")
    }

    /// Every gauge of every process. Nothing when one of them does not answer.
    pub async fn gauges(&self) -> Option<Gauges> {
        let mut gauges = Gauges::default();
        gauges.add("engine", &self.exposition(self.ports.engine_metrics).await?);
        gauges.add("admission", &self.exposition(self.ports.admission_metrics).await?);
        for (number, port) in self.ports.gateways.iter().enumerate() {
            gauges.add(&format!("gateway-{number}"), &self.exposition(*port).await?);
        }
        Some(gauges)
    }

    /// The address of a gateway's route.
    #[must_use]
    pub fn url(&self, gateway: usize, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.ports.gateways[gateway])
    }

    /// A gateway's address, for clients that speak bytes.
    #[must_use]
    pub fn address(&self, gateway: usize) -> SocketAddr {
        ([127, 0, 0, 1], self.ports.gateways[gateway]).into()
    }

    /// The engine's gRPC address.
    #[must_use]
    pub fn engine_address(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.engine)
    }

    /// Where the engine's metrics are.
    #[must_use]
    pub fn engine_metrics_url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.ports.engine_metrics)
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

fn start_engine(spec: &Spec, ports: &Ports, dir: &Path) -> Process {
    let own =
        [("--listen", local(ports.engine)), ("--metrics-listen", local(ports.engine_metrics))];
    start(spec, "engine-worker", "engine", &own, &spec.engine, dir)
}

fn start_admission(spec: &Spec, ports: &Ports, routes: &Routes, dir: &Path) -> Process {
    let own = [
        ("--listen", local(ports.admission)),
        ("--metrics-listen", local(ports.admission_metrics)),
        ("--engine", routes.admission_engine),
    ];
    // Decisions go to disk, as under `make run`.
    let mut rest = vec!["--trace-dir".to_owned(), dir.join("traces").display().to_string()];
    rest.extend_from_slice(&spec.admission);
    start(spec, "admission-svc", "admission", &own, &rest, dir)
}

fn start_gateway(
    spec: &Spec,
    number: usize,
    ports: &Ports,
    routes: &Routes,
    dir: &Path,
) -> Process {
    let own = [
        ("--listen", local(ports.gateways[number])),
        ("--engine", routes.gateway_engine),
        ("--admission", routes.gateway_admission),
    ];
    start(spec, "gateway", &format!("gateway-{number}"), &own, &spec.gateway, dir)
}

fn start(
    spec: &Spec,
    name: &str,
    label: &str,
    own: &[(&str, SocketAddr)],
    rest: &[String],
    dir: &Path,
) -> Process {
    let own = own.iter().flat_map(|(flag, address)| [(*flag).to_owned(), address.to_string()]);
    let args: Vec<String> = own.chain(rest.iter().cloned()).collect();
    Process::start_under(spec.conditions.clone(), name, label, &args, dir)
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
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
///
/// # Panics
/// Loopback has none.
#[must_use]
pub fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    listeners.iter().map(|it| it.local_addr().expect("an address").port()).collect()
}
