//! A gateway, its scripted upstreams, and a client.

mod admission;
mod engine;
mod http;
mod server;

use std::{collections::BTreeMap, ffi::OsString, net::SocketAddr, sync::OnceLock, time::Duration};

use gateway::{App, Settings};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use service::settings::{Request, read};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

pub(crate) use admission::{AdmissionSaw, FakeAdmission, Verdict, admitted};
pub(crate) use engine::{CONTEXT_TOKENS, EngineSaw, FakeEngine, MODEL, Preparing, Step, answer};
pub(crate) use http::{Connection, Response, chat, completion, get, post, request};

/// Nothing in these tests takes this long unless it hangs.
pub(crate) const LONG: Duration = Duration::from_secs(10);

/// A running gateway and what is behind it.
pub(crate) struct Stack {
    pub(crate) address: SocketAddr,
    pub(crate) engine: FakeEngine,
    pub(crate) admission: FakeAdmission,
    stop: Option<oneshot::Sender<()>>,
    hurry: Option<oneshot::Sender<()>>,
    running: JoinHandle<anyhow::Result<()>>,
}

impl Stack {
    /// Starts everything with the default settings.
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts everything with `flags`, and waits until the gateway knows its upstreams.
    pub(crate) async fn with(flags: &[&str]) -> Self {
        let stack = Self::with_upstreams(flags, FakeEngine::start(), FakeAdmission::start());
        stack
            .wait_until(|body| {
                body.contains(r#""status":"ready""#)
                    && body.contains(r#""admission":{"state":"ok"}"#)
            })
            .await;
        stack
    }

    /// Starts a gateway before these upstreams, and waits for nothing.
    pub(crate) fn with_upstreams(
        flags: &[&str],
        engine: FakeEngine,
        admission: FakeAdmission,
    ) -> Self {
        let (engine_at, admission_at) =
            (engine.address().to_string(), admission.address().to_string());
        let mut args = vec!["gateway", "--workers", "1", "--engine", &engine_at];
        args.extend(["--admission", &admission_at, "--drain-grace-ms", "0"]);
        args.extend(flags);
        let settings = match read::<Settings>(args.iter().map(OsString::from), &BTreeMap::new()) {
            Ok(Request::Run(settings)) => settings,
            other => panic!("{other:?}"),
        };
        let listener = service::net::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let app = App::build(settings, listener, metrics()).expect("an app");
        let address = app.address();
        let (stop, stopped) = oneshot::channel();
        let (hurry, hurried) = oneshot::channel();
        let asked = |signal: oneshot::Receiver<()>| async {
            let _ = signal.await;
        };
        let running = tokio::spawn(app.run(asked(stopped), asked(hurried)));
        Self { address, engine, admission, stop: Some(stop), hurry: Some(hurry), running }
    }

    /// Waits until the body of `/ready` is as wanted.
    pub(crate) async fn wait_until(&self, wanted: impl Fn(&str) -> bool) {
        let poll = async {
            while !wanted(&get(self.address, "/ready").await.text()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LONG, poll).await.expect("/ready never said so");
    }

    /// Asks the gateway to stop.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().expect("stopped once").send(());
    }

    /// Asks it a second time.
    pub(crate) fn hurry(&mut self) {
        let _ = self.hurry.take().expect("hurried once").send(());
    }

    /// Waits for the gateway to end, as its `main` would.
    pub(crate) async fn ended(self) -> anyhow::Result<()> {
        timeout(LONG, self.running).await.expect("it never ends").expect("no panic")
    }
}

/// The recorder of this process.
pub(crate) fn metrics() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    let install = || PrometheusBuilder::new().install_recorder().expect("the only recorder");
    HANDLE.get_or_init(install).clone()
}
