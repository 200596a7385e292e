//! The three processes: what each is started with, where it listens, how long it may take to stop.

use std::{
    ffi::OsString,
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
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// From SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
}

/// The processes in the order they start; they stop in the reverse order, so that no one loses what it
/// depends on.
pub(crate) fn specs(options: &Options, bin_dir: &Path) -> [Spec; 3] {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let [engine, admission, gateway] =
        [options.engine_port, options.admission_port, options.port].map(local);
    let spec = |name, address: SocketAddr, grace_ms, flags: &[(&str, OsString)]| Spec {
        name,
        program: bin_dir.join(name),
        args: arguments(options, address, flags),
        address,
        grace: Duration::from_millis(grace_ms),
    };
    let text = |address: SocketAddr| OsString::from(address.to_string());
    [
        spec("engine-worker", engine, options.grace_ms, &engine_flags(options)),
        spec("admission-svc", admission, options.grace_ms, &[("--engine", text(engine))]),
        spec(
            "gateway",
            gateway,
            options.gateway_grace_ms,
            &[("--engine", text(engine)), ("--admission", text(admission))],
        ),
    ]
}

fn engine_flags(options: &Options) -> Vec<(&'static str, OsString)> {
    let model = options.model.iter().map(|path| ("--model", path.clone().into_os_string()));
    let backend = options.backend.iter().map(|backend| ("--backend", backend.into()));
    model.chain(backend).collect()
}

fn arguments(options: &Options, address: SocketAddr, flags: &[(&str, OsString)]) -> Vec<OsString> {
    let mut args = vec!["--listen".into(), address.to_string().into()];
    if let Some(config) = &options.config {
        args.extend(["--config".into(), config.into()]);
    }
    args.extend(flags.iter().flat_map(|(flag, value)| [flag.into(), value.clone()]));
    args
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn lines(args: &[&str]) -> Vec<String> {
        let options = Options::parse_from(["up"].iter().chain(args));
        let line = |spec: &Spec| {
            let args: Vec<_> = spec.args.iter().map(|arg| arg.to_string_lossy()).collect();
            format!("{} {}", spec.program.display(), args.join(" "))
        };
        specs(&options, Path::new("bin")).iter().map(line).collect()
    }

    #[test]
    fn every_process_is_told_where_the_others_are() {
        assert_eq!(
            lines(&["--model", "a b.gguf"]),
            [
                "bin/engine-worker --listen 127.0.0.1:50051 --model a b.gguf",
                "bin/admission-svc --listen 127.0.0.1:50052 --engine 127.0.0.1:50051",
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
