//! The step loop: the one thread that owns the engine and the scheduler.
//!
//! receive -> plan -> publish -> execute -> read -> commit -> publish, and again. With nothing to plan it sleeps
//! until a command, a deadline or its next heartbeat.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    },
    time::Duration,
};

use sched::{Command, Engine, Scheduler, Submission};
use service::clock::Clock;
use text::Tokenizer;
use tokio::sync::OwnedSemaphorePermit;
use units::{RequestId, Span, Token};

use crate::{
    hub::Hub,
    laps::{Laps, Part},
    metrics,
    outlet::{Outlet, Outlets},
};

/// An idle loop says that it is alive this often.
const HEARTBEAT: Span = Span::from_millis(200);

/// A backend that fails this many steps in a row will not recover: the process ends, and whoever
/// supervises it starts a fresh one.
const FAILURES_MAX: u32 = 8;

/// What the loop is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// With its place among the open requests: a client that leaves gives up only its own share of it, or
    /// any number of them could be on their way while a step runs.
    Submit(Box<Submission>, Box<Outlet>, Arc<OwnedSemaphorePermit>),
    /// The client of one answer left. A retry may run under the same id by now, and goes on.
    Left(RequestId, u64),
    /// An operator ends a request.
    Cancel(RequestId),
    /// A prompt was prepared: what is kept of it will soon be wanted. With its place among those on their
    /// way.
    Touch(Arc<[Token]>, OwnedSemaphorePermit),
    Drain,
    Stop,
}

/// Everything the loop owns but the engine.
pub(crate) struct StepLoop {
    pub(crate) inbox: Receiver<Message>,
    pub(crate) scheduler: Scheduler,
    pub(crate) tokenizer: Arc<dyn Tokenizer>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) clock: Clock,
    pub(crate) outlets: Outlets,
    /// Failed steps since the last good one.
    pub(crate) failures: u32,
}

impl StepLoop {
    /// Runs until every sender of commands is gone, or the backend is.
    pub(crate) fn run(mut self, engine: &mut dyn Engine) {
        let mut idle = true;
        while self.failures < FAILURES_MAX && self.receive(idle) {
            idle = !self.step(engine);
        }
    }

    /// Runs one step. Says whether there was one. Who was accepted, refused or ended since the last one is
    /// told before it begins: it may take half a second.
    fn step(&mut self, engine: &mut dyn Engine) -> bool {
        let mut laps = Laps::begin(self.clock.now());
        let plan = self.scheduler.plan_step(self.clock.now());
        laps.lap(self.clock.now(), Part::Plan);
        self.publish(plan.predicted);
        if plan.is_empty() {
            return false;
        }
        laps.lap(self.clock.now(), Part::Publish);
        let mut outcome = engine.execute(&plan);
        let spent = outcome.as_ref().ok().map(|outcome| outcome.spent);
        let took = laps.engine(self.clock.now(), spent);
        match &mut outcome {
            Ok(outcome) => {
                self.failures = 0;
                self.outlets.read(self.tokenizer.vocabulary(), outcome);
            }
            Err(error) => {
                self.failures += 1;
                tracing::error!(step = plan.number, "step failed: {error}");
            }
        }
        laps.lap(self.clock.now(), Part::Detokenise);
        metrics::step(&plan, took, self.scheduler.limits().rules.itl);
        self.scheduler.commit_step(self.clock.now(), plan, outcome);
        laps.lap(self.clock.now(), Part::Commit);
        self.publish(Span::ZERO);
        laps.lap(self.clock.now(), Part::Publish);
        metrics::laps(&laps, took);
        true
    }

    /// Takes all commands that are there; when idle, waits for one until something is due. Says
    /// whether anybody can still send any.
    fn receive(&mut self, idle: bool) -> bool {
        let mut next = if idle {
            match self.inbox.recv_timeout(self.patience()) {
                Ok(message) => Ok(message),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        } else {
            self.inbox.try_recv()
        };
        loop {
            match next {
                Ok(message) => self.on_message(message),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
            next = self.inbox.try_recv();
        }
    }

    fn patience(&self) -> Duration {
        let due = self.scheduler.next_deadline();
        let wait = due.map_or(HEARTBEAT, |due| due.until(self.clock.now()).min(HEARTBEAT));
        wait.into()
    }

    fn on_message(&mut self, message: Message) {
        let command = match message {
            Message::Submit(submission, outlet, _place) => {
                if !self.outlets.open(submission.id, *outlet) {
                    return;
                }
                Command::Submit(*submission)
            }
            Message::Left(id, serial) if !self.outlets.is_open(id, serial) => return,
            Message::Left(id, _) | Message::Cancel(id) => Command::Cancel(id),
            Message::Touch(prompt, _place) => Command::Touch(prompt),
            Message::Drain => Command::Drain,
            Message::Stop => Command::Stop,
        };
        self.scheduler.on_command(self.clock.now(), command);
    }

    /// Tells what happened, and the predicted time of the step that begins now. Clients are told last: who
    /// was told something finds it in `Info` and in the metrics. Never waits for a watcher.
    fn publish(&mut self, step: Span) {
        let now = self.clock.now();
        let events = self.scheduler.drain_events();
        self.hub.prefixes.apply(self.scheduler.drain_index());
        self.hub.publish(now, step, &events, self.scheduler.snapshot(now));
        for event in &events {
            metrics::event(event);
            self.outlets.tell(event);
        }
    }
}
