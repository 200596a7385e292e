//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum, value_parser};

/// The gateway's port where nobody asks for another one.
const USUAL_PORT: u16 = 8000;
/// The other ports that belong to it, in the order of [`Ports`].
const USUAL_OTHERS: [u16; 4] = [50051, 50052, 9051, 9052];

/// Start engine, admission and gateway, keep them running, and stop them in order.
#[derive(Debug, Clone, Parser)]
#[command(name = "up", version, args_override_self = true)]
pub(crate) struct Options {
    /// The model that the engine serves, a GGUF file
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// A re-quantised copy of the model, made if it is not there, and served if it is as good and faster
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(crate) optimized_model: Option<PathBuf>,
    /// The engine's backend
    #[arg(long, value_enum)]
    pub(crate) backend: Option<Backend>,
    /// The TOML file that all three read
    #[arg(long, value_name = "FILE", env = "CADENCE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The gateway's port on 127.0.0.1
    #[arg(long, default_value_t = USUAL_PORT, value_parser = value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// The engine's gRPC port on 127.0.0.1 [default: 50051 beside port 8000, else moved with it]
    #[arg(long, value_parser = value_parser!(u16).range(1..))]
    pub(crate) engine_port: Option<u16>,
    /// The admission service's gRPC port on 127.0.0.1 [default: 50052, or moved]
    #[arg(long, value_parser = value_parser!(u16).range(1..))]
    pub(crate) admission_port: Option<u16>,
    /// The port of the engine's metrics on 127.0.0.1 [default: 9051, or moved]
    #[arg(long, value_parser = value_parser!(u16).range(1..))]
    pub(crate) engine_metrics_port: Option<u16>,
    /// The port of the admission service's metrics on 127.0.0.1 [default: 9052, or moved]
    #[arg(long, value_parser = value_parser!(u16).range(1..))]
    pub(crate) admission_metrics_port: Option<u16>,
    /// How long the gateway may take to finish its streams before it is killed
    #[arg(long, default_value_t = 15_000, value_name = "MS")]
    pub(crate) gateway_grace_ms: u64,
    /// How long each other process may take to stop before it is killed
    #[arg(long, default_value_t = 12_000, value_name = "MS")]
    pub(crate) grace_ms: u64,
    /// Where process ids, logs and traces go [default: .run beside port 8000, else .run-PORT]
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Where the three programs are [default: beside this one]
    #[arg(long, value_name = "DIR")]
    pub(crate) bin_dir: Option<PathBuf>,
}

/// What runs the steps.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Backend {
    /// A GGUF model through llama.cpp
    Llama,
    /// A cost model that sleeps and answers nonsense
    Mock,
}

impl Backend {
    /// As the engine's own flag calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Mock => "mock",
        }
    }
}

/// Every port that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) gateway: u16,
    pub(crate) engine: u16,
    pub(crate) admission: u16,
    pub(crate) engine_metrics: u16,
    pub(crate) admission_metrics: u16,
}

impl Options {
    /// Where process ids and logs go. Stacks that may run at once have a folder each.
    pub(crate) fn run_dir(&self) -> PathBuf {
        let usual = || match self.port {
            USUAL_PORT => ".run".into(),
            port => format!(".run-{port}").into(),
        };
        self.run_dir.clone().unwrap_or_else(usual)
    }

    /// The ports. Those that nobody chose move with the gateway's by twice its last three digits, so that
    /// stacks beside port 8000, 8001, 8002 and so on keep out of each other's way.
    pub(crate) fn ports(&self) -> Ports {
        let shift = self.port % 1000 * 2;
        let [engine, admission, engine_metrics, admission_metrics] =
            USUAL_OTHERS.map(|port| port + shift);
        Ports {
            gateway: self.port,
            engine: self.engine_port.unwrap_or(engine),
            admission: self.admission_port.unwrap_or(admission),
            engine_metrics: self.engine_metrics_port.unwrap_or(engine_metrics),
            admission_metrics: self.admission_metrics_port.unwrap_or(admission_metrics),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn ports(args: &[&str]) -> [u16; 5] {
        let ports = Options::parse_from(["up"].iter().chain(args)).ports();
        [
            ports.gateway,
            ports.engine,
            ports.admission,
            ports.engine_metrics,
            ports.admission_metrics,
        ]
    }

    #[test]
    fn the_usual_ports_are_those_of_the_documentation() {
        assert_eq!(ports(&[]), [8000, 50051, 50052, 9051, 9052]);
    }

    #[test]
    fn neighbours_share_no_port() {
        let (mut taken, mut dirs) = (BTreeSet::new(), BTreeSet::new());
        for port in 8000..8020 {
            let options = Options { port, ..Options::parse_from(["up"]) };
            assert!(dirs.insert(options.run_dir()), "the folder of {port} is shared");
            for port in ports(&["--port", &port.to_string()]) {
                assert!(taken.insert(port), "{port} is taken twice");
            }
        }
    }

    #[test]
    fn every_port_has_companions() {
        for port in 1..=u16::MAX {
            let options = Options { port, ..Options::parse_from(["up"]) };
            assert!(options.ports().engine > 50_000);
        }
    }

    #[test]
    fn who_names_a_port_gets_it() {
        let flags = ["--port", "8001", "--engine-port", "5", "--admission-metrics-port", "6"];
        assert_eq!(ports(&flags), [8001, 5, 50054, 9053, 6]);
    }

    #[test]
    fn a_bad_backend_is_told_the_good_ones() {
        let error = Options::try_parse_from(["up", "--backend", "cuda"]).expect_err("a mistake");
        let text = error.to_string();
        assert!(
            text.contains("'cuda'") && text.contains("[possible values: llama, mock]"),
            "{text}"
        );
    }
}
