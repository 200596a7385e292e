//! What happens, and the messages between processes.

use std::sync::Arc;

use admit::{Attempt, Offer, Verdict};
use sched::{FinishReason, Refusal, Submission, Tier, Usage};
use units::{Micros, RequestId, Span, Token};

use crate::{agenda::Ranked, report::Ending};

/// One life of an engine's process. What is meant for an earlier one is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) engine: usize,
    pub(super) life: u32,
}

/// What happens.
#[derive(Debug)]
pub(super) enum Event {
    /// A fault of the scenario begins.
    Fault(usize),
    /// A process that died is replaced.
    EngineStarts(usize),
    AdmissionStarts,
    /// The gateways look which engines are there.
    Probe,

    /// The client of a request sends an attempt.
    ClientSends(usize),
    /// A client gives its request up.
    ClientLeaves(usize, Ending),

    ToGateway(ToGateway),
    /// Nobody has answered a call of this request's for as long as the gateway waits; the number tells calls
    /// apart.
    CallTimesOut(RequestId, u32),

    ToAdmission(u32, ToAdmission),
    /// The controller is due; the number tells timers apart.
    AdmissionTick(u32, u64),
    /// The watcher of an engine calls it.
    WatchConnects(u32, usize),
    /// A second of a watch has passed at the watcher's.
    WatchSecond(u32, usize, u64),

    ToEngine(Process, ToEngine),
    /// The step under way is over.
    StepEnds(Process),
    /// The idle loop wakes by itself; the number tells its sleeps apart.
    LoopWakes(Process, u64),
    /// A second of a watch has passed at the engine's.
    OfficeSecond(Process, u64),
    /// The engine's watch stream looks for what is new.
    Flush(Process),
}

/// What a gateway hears.
#[derive(Debug)]
pub(super) enum ToGateway {
    /// The head of a request.
    Head(RequestId),
    /// Its client is gone.
    Gone(RequestId),
    /// An engine has prepared it: so much of its prompt is kept, and this is who has.
    Prepared(Process, RequestId, u32, Arc<str>),
    /// What admission says of an attempt.
    Decided(Attempt, Verdict),
    /// Admission is not there.
    Unreachable(RequestId),
    /// What an engine says to those that it serves.
    Answers(Process, Vec<(RequestId, Answer)>),
    /// A process is gone, and with it all calls to it. Or one call only.
    Broken(Process, Option<RequestId>),
}

/// What an engine tells a client of `Generate`.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Accepted { tier: Tier },
    Refused(Refusal),
    Token,
    Finished { reason: FinishReason, usage: Usage },
}

/// What admission hears.
#[derive(Debug)]
pub(super) enum ToAdmission {
    Decide(Box<Offer>),
    Withdraw(Attempt),
    /// A watch stream brings something.
    Watched(usize, u64, Vec<News>),
    /// A watch stream has ended. True: another promiser is in office.
    WatchEnds(usize, u64, bool),
}

/// What a watch stream brings.
#[derive(Debug)]
pub(super) enum News {
    Granted { epoch: u64, instance: Arc<str>, resumed: bool },
    Record(admit::Record),
    Snapshot(Box<Published>),
    Ping,
}

/// A snapshot on its way.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) instance: Arc<str>,
    /// How old it was when it was sent.
    pub(super) age: Span,
    /// When it was taken, on the engine's clock.
    pub(super) at: Micros,
    /// The last record that it includes.
    pub(super) record: u64,
    pub(super) snapshot: sched::Snapshot,
}

/// What an engine hears.
#[derive(Debug)]
pub(super) enum ToEngine {
    Prepare(RequestId, Arc<[Token]>),
    Generate(Box<Generate>),
    /// The client of a request has left.
    Left(RequestId),
    /// A watcher says hello, and where it stopped reading.
    Hello {
        session: u64,
        name: String,
        resume: Option<(Arc<str>, u64)>,
    },
    WatchPing(u64),
    /// A watcher is gone.
    Bye(u64),
}

/// A call of `Generate`. What is left of the budget is a deadline in `submission` only when it has come.
#[derive(Debug)]
pub(super) struct Generate {
    pub(super) submission: Submission,
    pub(super) budget: Option<Span>,
    /// When it came, on the engine's clock: the budget counts from then, whenever the loop hears of it.
    pub(super) came_at: Micros,
    /// How long the answer will be.
    pub(super) natural: u32,
}

impl Ranked for Event {
    /// Faults first, then steps, then messages, then timers; streams last, for they tell of all the rest.
    fn rank(&self) -> u8 {
        match self {
            Self::Fault(_) | Self::EngineStarts(_) | Self::AdmissionStarts => 0,
            Self::StepEnds(_) => 1,
            Self::ClientSends(_)
            | Self::ClientLeaves(..)
            | Self::ToGateway(_)
            | Self::ToAdmission(..)
            | Self::ToEngine(..) => 2,
            Self::Probe
            | Self::CallTimesOut(..)
            | Self::AdmissionTick(..)
            | Self::WatchConnects(..)
            | Self::WatchSecond(..)
            | Self::LoopWakes(..)
            | Self::OfficeSecond(..) => 3,
            Self::Flush(_) => 4,
        }
    }
}

impl Event {
    /// The engine process that has to be running for it to happen.
    pub(super) fn process(&self) -> Option<Process> {
        match self {
            Self::ToEngine(process, _)
            | Self::StepEnds(process)
            | Self::LoopWakes(process, _)
            | Self::OfficeSecond(process, _)
            | Self::Flush(process) => Some(*process),
            Self::Fault(_)
            | Self::EngineStarts(_)
            | Self::AdmissionStarts
            | Self::Probe
            | Self::ClientSends(_)
            | Self::ClientLeaves(..)
            | Self::ToGateway(_)
            | Self::CallTimesOut(..)
            | Self::ToAdmission(..)
            | Self::AdmissionTick(..)
            | Self::WatchConnects(..)
            | Self::WatchSecond(..) => None,
        }
    }
}
