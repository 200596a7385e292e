//! The actor: reads the clock, calls the controller, applies its effects, keeps one timer.

use std::{collections::BTreeMap, time::Duration};

use actix::{
    Actor, ActorContext as _, AsyncContext as _, Context, Handler, MessageResult, SpawnHandle,
};
use admit::{Attempt, Controller, Effect, Verdict};
use rand_chacha::ChaCha8Rng;
use service::clock::Clock;
use tokio::sync::oneshot;
use units::Micros;

use crate::{
    message::{Decide, Drain, News, Observe, ReadState, ReadTraces, State, Stop, Tell, Withdraw},
    metrics::{self, Metrics},
    traces::Recorder,
};

/// Messages that may wait. A caller that finds more is told to come back.
const MAILBOX: usize = 1_024;

/// The only holder of the controller.
pub(crate) struct Admission {
    controller: Controller,
    clock: Clock,
    rng: ChaCha8Rng,
    traces: Recorder,
    metrics: Metrics,
    /// Calls that are held.
    waiting: BTreeMap<Attempt, oneshot::Sender<Verdict>>,
    /// What is wrong with each engine's connection, in configuration order; empty is nothing.
    problems: Vec<String>,
    timer: Option<(Micros, SpawnHandle)>,
    /// Dropped with the actor, however it ends.
    _alive: oneshot::Sender<()>,
}

impl Admission {
    /// An actor for these engines. The receiver is told when it ends.
    pub(crate) fn new(
        controller: Controller,
        clock: Clock,
        rng: ChaCha8Rng,
        traces: Recorder,
        engines: &[String],
    ) -> (Self, oneshot::Receiver<()>) {
        let (alive, ended) = oneshot::channel();
        let actor = Self {
            controller,
            clock,
            rng,
            traces,
            metrics: Metrics::new(engines),
            waiting: BTreeMap::new(),
            problems: vec!["connecting".into(); engines.len()],
            timer: None,
            _alive: alive,
        };
        (actor, ended)
    }

    /// Applies what the last call asked for. Answering somebody who has gone gives room back, and that
    /// may answer others.
    fn settle(&mut self, ctx: &mut Context<Self>) {
        loop {
            let effects = self.controller.drain_effects();
            if effects.is_empty() {
                break;
            }
            effects.into_iter().for_each(|effect| self.apply(effect));
        }
        self.metrics.show(&self.controller.view(self.clock.now()));
        self.rearm(ctx);
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Verdict(attempt, verdict) => {
                if let Some(answer) = self.waiting.remove(&attempt) {
                    self.answer(attempt, verdict, answer);
                }
            }
            Effect::Closed(trace) => self.traces.keep(trace),
            Effect::LeaseExpired(attempt) => {
                self.metrics.lease_expired();
                tracing::warn!(id = %attempt.id, "lease expired: the request was never submitted");
            }
        }
    }

    fn answer(&mut self, attempt: Attempt, verdict: Verdict, answer: oneshot::Sender<Verdict>) {
        metrics::count(&verdict);
        let admitted = matches!(verdict, Verdict::Admitted(_));
        if answer.send(verdict).is_err() && admitted {
            self.controller.withdraw(self.clock.now(), attempt);
        }
    }

    /// One timer, at the controller's deadline. A timer that has become too early stays: its tick does
    /// nothing and arms the next, which is cheaper than a new timer for each message.
    fn rearm(&mut self, ctx: &mut Context<Self>) {
        let Some(deadline) = self.controller.next_deadline() else { return };
        if let Some((armed, handle)) = self.timer {
            if armed <= deadline {
                return;
            }
            ctx.cancel_future(handle);
        }
        // Never before the deadline: a timer that fires early finds nothing due.
        let wait = Duration::from(deadline.until(self.clock.now()));
        let handle = ctx.run_later(wait, |actor, ctx| {
            actor.timer = None;
            actor.controller.tick(actor.clock.now(), &mut actor.rng);
            actor.settle(ctx);
        });
        self.timer = Some((deadline, handle));
    }
}

impl Actor for Admission {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
    }
}

impl Handler<Decide> for Admission {
    type Result = ();

    fn handle(&mut self, Decide { offer, answer }: Decide, ctx: &mut Self::Context) {
        let attempt = offer.attempt;
        match self.controller.offer(self.clock.now(), offer, &mut self.rng) {
            Some(verdict) => self.answer(attempt, verdict, answer),
            None => drop(self.waiting.insert(attempt, answer)),
        }
        self.settle(ctx);
    }
}

impl Handler<Withdraw> for Admission {
    type Result = ();

    fn handle(&mut self, Withdraw(attempt): Withdraw, ctx: &mut Self::Context) {
        self.controller.withdraw(self.clock.now(), attempt);
        self.waiting.remove(&attempt);
        self.settle(ctx);
    }
}

impl Handler<Observe> for Admission {
    type Result = bool;

    fn handle(&mut self, Observe(attempt, seen): Observe, ctx: &mut Self::Context) -> bool {
        let known = self.controller.observe(self.clock.now(), attempt, seen);
        self.settle(ctx);
        known
    }
}

impl Handler<Tell> for Admission {
    type Result = ();

    fn handle(&mut self, Tell { engine, news }: Tell, ctx: &mut Self::Context) {
        let now = self.clock.now();
        let controller = &mut self.controller;
        match news {
            News::Attached { epoch, instance, snapshot } => {
                controller.attached(now, engine, epoch, &instance, snapshot.map(|it| *it));
                self.problems[engine.0 as usize].clear();
            }
            News::Snapshot(snapshot) => controller.snapshot(now, engine, *snapshot),
            News::Record(record) => controller.record(now, engine, record),
            News::Interrupted(problem) => {
                controller.interrupted(engine);
                self.problems[engine.0 as usize] = problem;
            }
            News::Detached => controller.detached(now, engine),
        }
        self.settle(ctx);
    }
}

impl Handler<ReadState> for Admission {
    type Result = MessageResult<ReadState>;

    fn handle(&mut self, _: ReadState, _: &mut Self::Context) -> Self::Result {
        let view = self.controller.view(self.clock.now());
        MessageResult(State { view, problems: self.problems.clone() })
    }
}

impl Handler<ReadTraces> for Admission {
    type Result = ();

    fn handle(&mut self, read: ReadTraces, _: &mut Self::Context) {
        self.traces.page(read.after, read.limit, read.answer);
    }
}

impl Handler<Drain> for Admission {
    type Result = ();

    fn handle(&mut self, _: Drain, ctx: &mut Self::Context) {
        let now = self.clock.now();
        self.controller.drain(now);
        self.controller.tick(now, &mut self.rng);
        self.settle(ctx);
    }
}

impl Handler<Stop> for Admission {
    type Result = ();

    /// What is still open ends here, and its rows go to the store before the queue is let go.
    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        let now = self.clock.now();
        self.controller.drain(now);
        self.controller.tick(now, &mut self.rng);
        self.controller.stop(now);
        self.settle(ctx);
        ctx.stop();
    }
}
