//! The command line.

use clap::{CommandFactory as _, Parser, Subcommand, error::ErrorKind};

use crate::{calibrate, drain, gate, keep, ladder, recover, report, run, simulate, stub, validate};

/// Measures OpenAI-compatible servers with an open loop.
///
/// Requests are sent at times that were fixed before the run, whatever the server does, and every
/// latency counts from the time at which its request had to arrive. So a server that falls behind looks
/// as bad as its users would find it: a closed loop would wait for it instead.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line, or ends the process with what is wrong with it and status 2.
    pub(crate) fn read() -> Self {
        let cli = Self::parse();
        if let Err(why) = cli.command.check() {
            Self::command().error(ErrorKind::ArgumentConflict, why).exit();
        }
        cli
    }
}

impl Command {
    /// What the parser cannot know.
    fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Run(options) => options.check(),
            Self::Calibrate(options) => options.check(),
            Self::Simulate(options) => options.check(),
            Self::Gate(_)
            | Self::Report(_)
            | Self::Ladder(_)
            | Self::Validate(_)
            | Self::Stub(_)
            | Self::DrainCheck(_)
            | Self::Recover(_)
            | Self::Keep(_) => Ok(()),
        }
    }
}

const EXAMPLES: &str = "\
A first measurement of a server on port 8000:
  loadgen calibrate --url http://127.0.0.1:8000             what it can do, which rates to try
  loadgen run --url http://127.0.0.1:8000 --rate 1 --duration 60 --slo e2e:4000 --out one.parquet
  loadgen report one.parquet --out report                   tables and figures

Does the generator itself hold what it says?
  loadgen validate                                          are its arrivals what theory expects
  loadgen stub --port 9000 --service-ms 100 &               a server that can do 10 requests a second
  loadgen run --url http://127.0.0.1:9000 --rate 20 --duration 60     must fall behind without bound

Exit status: 0 done; 1 something failed; 2 wrong command line, or a run whose requests were not sent
on time and which is therefore invalid; 130 interrupted, with what was measured until then on disk.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send requests on schedule and write down what comes back
    Run(Box<run::Options>),
    /// Measure every configuration of a plan at every load of it
    Ladder(ladder::Options),
    /// Run the whole service in virtual time
    Simulate(simulate::Options),
    /// Check that the service still does what it did
    Gate(gate::Options),
    /// Show runs, or a ladder, as tables and figures
    Report(report::Options),
    /// Measure what a server can do, and propose rates and targets
    Calibrate(calibrate::Options),
    /// Check that arrivals are distributed as they should be
    Validate(validate::Options),
    /// Serve fixed answers in fixed time: a server whose behaviour is known
    Stub(stub::Options),
    /// Check that a server ends its streams well when it is told to stop
    DrainCheck(drain::Options),
    /// Make a Parquet file of the journal of a run that was killed
    Recover(recover::Options),
    /// Run a program that ends when standard input does
    #[command(hide = true)]
    Keep(keep::Options),
}
