//! The admission service: the clock is read, the controller called, its effects applied, one timer kept.

use std::collections::BTreeSet;

use admit::{Attempt, Controller, Effect, Verdict};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng as _};
use units::{Micros, Span};

use super::{
    World,
    event::{Event, News, ToAdmission, ToGateway},
    stream,
    watch::Watcher,
    wire,
};
use crate::{Link, digest};

/// Its clock shows this when the run begins, and those of engines something else: no time is passed on
/// between processes as it is.
const CLOCK: Span = Span::from_secs(5_000);

/// The admission service. It may be gone for a while.
#[derive(Debug)]
pub(super) struct Admission {
    life: u32,
    running: Option<Running>,
    /// How far its clock has jumped.
    pub(super) jumped: Span,
}

#[derive(Debug)]
struct Running {
    controller: Controller,
    rng: ChaCha8Rng,
    /// Calls that are held.
    waiting: BTreeSet<Attempt>,
    watchers: Vec<Watcher>,
    /// When the timer goes off, and its number.
    timer: Option<(Micros, u64)>,
    timers: u64,
}

impl Admission {
    pub(super) fn new() -> Self {
        Self { life: 0, running: None, jumped: Span::ZERO }
    }

    /// Which process it is, and whether it is there.
    pub(super) fn life(&self) -> (u32, bool) {
        (self.life, self.running.is_some())
    }

    pub(super) fn controller(&self) -> Option<&Controller> {
        self.running.as_ref().map(|running| &running.controller)
    }

    pub(super) fn clock(&self, now: Micros) -> Micros {
        now + CLOCK + self.jumped
    }

    /// When the world's clock shows what its own shows at `at`.
    fn world(&self, at: Micros) -> Micros {
        at - CLOCK - self.jumped
    }

    pub(super) fn watcher(&mut self, engine: usize) -> Option<&mut Watcher> {
        self.running.as_mut()?.watchers.get_mut(engine)
    }

    /// What holders of epochs know it by: no two processes share it.
    pub(super) fn name(&self) -> String {
        format!("admission-{}", self.life)
    }
}

impl World<'_> {
    pub(super) fn start_admission(&mut self) {
        let scenario = self.scenario;
        let life = self.admission.life;
        let seed = scenario.seed ^ stream::WATCHERS.wrapping_add(life.into());
        let running = Running {
            controller: Controller::new(scenario.admission.clone()),
            rng: ChaCha8Rng::seed_from_u64(seed),
            waiting: BTreeSet::new(),
            watchers: (0..scenario.engines.len()).map(|_| Watcher::default()).collect(),
            timer: None,
            timers: 0,
        };
        self.admission.running = Some(running);
        for engine in 0..scenario.engines.len() {
            self.agenda.put(self.now, Event::WatchConnects(life, engine));
        }
    }

    /// The process dies with all that it knows, and calls to it break.
    pub(super) fn kill_admission(&mut self, down: Span) {
        let Some(running) = self.admission.running.take() else { return };
        self.auditor.admission_dies();
        for attempt in running.waiting {
            self.tell_gateway(ToGateway::Unreachable(attempt.id));
        }
        for engine in 0..self.engines.len() {
            if let Some(session) = running.watchers[engine].session() {
                self.hang_up(engine, session);
            }
        }
        self.admission.life += 1;
        self.agenda.put(self.now + down, Event::AdmissionStarts);
    }

    pub(super) fn at_admission(&mut self, life: u32, message: ToAdmission) {
        if self.admission.life() != (life, true) {
            if let ToAdmission::Decide(offer) = message {
                self.tell_gateway(ToGateway::Unreachable(offer.attempt.id));
            }
            return;
        }
        match message {
            ToAdmission::Decide(offer) => self.decide(*offer),
            ToAdmission::Withdraw(attempt) => self.withdrawn(attempt),
            ToAdmission::Watched(engine, session, news) => self.watched(engine, session, news),
            ToAdmission::WatchEnds(engine, session, is_rival) => {
                self.watch_ends(engine, session, is_rival);
            }
        }
        self.settle();
    }

    fn decide(&mut self, offer: admit::Offer) {
        let now = self.admission.clock(self.now);
        let attempt = offer.attempt;
        self.auditor.offered(self.now, &offer);
        self.digest.take_all(&[self.now.0, 3, digest::word(attempt.id), attempt.number.into()]);
        let Some(running) = &mut self.admission.running else { return };
        match running.controller.offer(now, offer, &mut running.rng) {
            Some(verdict) => self.answer(attempt, verdict),
            None => drop(running.waiting.insert(attempt)),
        }
    }

    fn withdrawn(&mut self, attempt: Attempt) {
        let now = self.admission.clock(self.now);
        self.auditor.withdrawn(attempt);
        let Some(running) = &mut self.admission.running else { return };
        running.controller.withdraw(now, attempt);
        running.waiting.remove(&attempt);
    }

    /// Passes on one message of a watch.
    pub(super) fn tell_controller(&mut self, engine: usize, news: News) {
        let now = self.admission.clock(self.now);
        let id = engine_id(engine);
        let Some(running) = &mut self.admission.running else { return };
        match news {
            News::Record(record) => running.controller.record(now, id, record),
            News::Snapshot(published) => {
                running.controller.snapshot(now, id, wire::snapshot(&published, now));
            }
            News::Granted { .. } | News::Ping => {}
        }
    }

    /// Calls the controller about the connection to an engine.
    pub(super) fn tell_connection(
        &mut self,
        call: impl FnOnce(&mut Controller, Micros, admit::EngineId),
        engine: usize,
    ) {
        let now = self.admission.clock(self.now);
        if let Some(running) = &mut self.admission.running {
            call(&mut running.controller, now, engine_id(engine));
        }
    }

    pub(super) fn admission_tick(&mut self, life: u32, timer: u64) {
        if self.admission.life() != (life, true) {
            return;
        }
        let now = self.admission.clock(self.now);
        let Some(running) = &mut self.admission.running else { return };
        if running.timer.is_none_or(|(_, number)| number != timer) {
            return;
        }
        running.timer = None;
        running.controller.tick(now, &mut running.rng);
        self.settle();
    }

    /// Applies what the last call asked for. Answering somebody who has gone gives room back, and that may
    /// answer others.
    pub(super) fn settle(&mut self) {
        loop {
            let Some(running) = &mut self.admission.running else { return };
            let effects = running.controller.drain_effects();
            if effects.is_empty() {
                break;
            }
            effects.into_iter().for_each(|effect| self.apply(effect));
        }
        self.auditor.patience(self.now);
        self.rearm();
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Verdict(attempt, verdict) => {
                let Some(running) = &mut self.admission.running else { return };
                if running.waiting.remove(&attempt) {
                    self.answer(attempt, verdict);
                }
            }
            Effect::Closed(trace) => self.auditor.closed(self.now, &trace),
            Effect::LeaseExpired(_) => self.auditor.lease_expired(),
        }
    }

    fn answer(&mut self, attempt: Attempt, verdict: Verdict) {
        self.auditor.decided(self.now, attempt, &verdict);
        let kind = match &verdict {
            Verdict::Admitted(admitted) => 1 + admitted.tier as u64,
            Verdict::Refused(_) => 0,
            Verdict::Superseded { .. } => 9,
        };
        self.digest.take_all(&[self.now.0, 4, digest::word(attempt.id), kind]);
        self.tell_gateway(ToGateway::Decided(attempt, verdict));
    }

    fn tell_gateway(&mut self, message: ToGateway) {
        if let Some(at) = self.post(Link::Decide, 1, self.scenario.wires.decide) {
            self.agenda.put(at, Event::ToGateway(message));
        }
    }

    /// Its clock has jumped, and its timer goes by that clock.
    pub(super) fn hurry_admission(&mut self) {
        if let Some(running) = &mut self.admission.running {
            running.timer = None;
            self.rearm();
        }
    }

    /// One timer, at the controller's deadline; one that has become too early stays.
    pub(super) fn rearm(&mut self) {
        let life = self.admission.life;
        let Some(running) = &self.admission.running else { return };
        let Some(deadline) = running.controller.next_deadline() else { return };
        let at = self.admission.world(deadline).max(self.now);
        let Some(running) = &mut self.admission.running else { return };
        if running.timer.is_some_and(|(armed, _)| armed <= at) || self.planted.loses_wake_up() {
            return;
        }
        running.timers += 1;
        running.timer = Some((at, running.timers));
        self.agenda.put(at, Event::AdmissionTick(life, running.timers));
    }
}

fn engine_id(engine: usize) -> admit::EngineId {
    admit::EngineId(u32::try_from(engine).unwrap_or(u32::MAX))
}
