//! The three processes: what each is started with, where it listens, how long it may take to stop.

use std::{
    ffi::{OsStr, OsString},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::options::Options;

/// How to run one process.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    /// The program's name, and that of its log and pid file.
    pub(crate) name: &'static str,
    /// Its section of the configuration.
    pub(crate) section: &'static str,
    pub(crate) program: PathBuf,
    pub(crate) flags: Vec<Flag>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where it is scraped, unless that is `address` too.
    pub(crate) metrics: Option<SocketAddr>,
    /// From SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
}

/// A flag of a program, and its value.
pub(crate) type Flag = (&'static str, OsString);

impl Spec {
    /// Everything that it binds.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        [Some(self.address), self.metrics].into_iter().flatten()
    }

    /// The flags as the program is given them.
    pub(crate) fn args(&self) -> impl Iterator<Item = &OsStr> {
        self.flags.iter().flat_map(|(flag, value)| [OsStr::new(flag), value.as_os_str()])
    }
}

/// The processes in the order they start; they stop in the reverse order, so that no one loses what it
/// depends on.
pub(crate) fn specs(options: &Options, bin_dir: &Path) -> [Spec; 3] {
    let ports = options.ports();
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let [engine, admission, gateway] = [ports.engine, ports.admission, ports.gateway].map(local);
    let [engine_metrics, admission_metrics] =
        [ports.engine_metrics, ports.admission_metrics].map(local);
    let spec = |name, section, address, metrics, grace_ms, own: Vec<Flag>| Spec {
        name,
        section,
        program: bin_dir.join(name),
        flags: flags(options, address, metrics, own),
        address,
        metrics,
        grace: Duration::from_millis(grace_ms),
    };
    let to_engine = || ("--engine", text(engine));
    [
        spec(
            "engine-worker",
            "engine",
            engine,
            Some(engine_metrics),
            options.grace_ms,
            engine_flags(options),
        ),
        spec(
            "admission-svc",
            "admission",
            admission,
            Some(admission_metrics),
            options.grace_ms,
            vec![to_engine(), ("--trace-dir", options.run_dir().join("traces").into())],
        ),
        spec(
            "gateway",
            "gateway",
            gateway,
            None,
            options.gateway_grace_ms,
            vec![to_engine(), ("--admission", text(admission))],
        ),
    ]
}

fn text(address: SocketAddr) -> OsString {
    address.to_string().into()
}

fn engine_flags(options: &Options) -> Vec<Flag> {
    let model = options.model.iter().map(|path| ("--model", path.clone().into_os_string()));
    let backend = options.backend.iter().map(|backend| ("--backend", backend.name().into()));
    model.chain(backend).collect()
}

fn flags(
    options: &Options,
    address: SocketAddr,
    metrics: Option<SocketAddr>,
    own: Vec<Flag>,
) -> Vec<Flag> {
    let mut flags = vec![("--listen", text(address))];
    flags.extend(metrics.map(|address| ("--metrics-listen", text(address))));
    flags.extend(options.config.iter().map(|path| ("--config", path.clone().into_os_string())));
    flags.extend(own);
    flags
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn lines(args: &[&str]) -> Vec<String> {
        let options = Options::parse_from(["up"].iter().chain(args));
        let line = |spec: &Spec| {
            let args: Vec<_> = spec.args().map(OsStr::to_string_lossy).collect();
            format!("{} {}", spec.program.display(), args.join(" "))
        };
        specs(&options, Path::new("bin")).iter().map(line).collect()
    }

    #[test]
    fn every_process_is_told_where_the_others_are() {
        assert_eq!(
            lines(&["--model", "a b.gguf"]),
            [
                "bin/engine-worker --listen 127.0.0.1:50051 --metrics-listen 127.0.0.1:9051 --model a b.gguf",
                "bin/admission-svc --listen 127.0.0.1:50052 --metrics-listen 127.0.0.1:9052 --engine 127.0.0.1:50051 --trace-dir .run/traces",
                "bin/gateway --listen 127.0.0.1:8000 --engine 127.0.0.1:50051 --admission 127.0.0.1:50052",
            ]
        );
    }

    #[test]
    fn flags_reach_whom_they_concern() {
        let lines = lines(&["--backend", "mock", "--config", "c.toml", "--port", "81"]);
        assert!(lines[0].ends_with("--config c.toml --backend mock"), "{}", lines[0]);
        assert!(lines[1].contains("--config c.toml") && !lines[1].contains("mock"), "{}", lines[1]);
        assert!(lines[2].contains("--listen 127.0.0.1:81 --config c.toml"), "{}", lines[2]);
    }
}
