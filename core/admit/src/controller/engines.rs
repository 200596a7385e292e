//! Follows the engines.

use std::sync::Arc;

use units::{Micros, RequestId, Span};

use super::{Controller, Where};
use crate::{
    Ended, EngineId, Event, How, Observation, Outcome, Record, Snapshot, Submitted, Tier, Why,
    adaptive::LATE_SHARE,
    engine::Engine,
    entry::{Entry, Size, Stage},
    ledger::Place,
    timers::Timer,
};

impl Controller {
    /// An engine has granted an epoch. Without a snapshot its records go on where they stopped;
    /// with one they start anew. Leases of the same instance stay, for their requests are on the way;
    /// a new instance knows nothing of what the old one had.
    pub fn attached(
        &mut self,
        now: Micros,
        engine: EngineId,
        epoch: u64,
        instance: &Arc<str>,
        snapshot: Option<Snapshot>,
    ) {
        let known = self.engines.get(&engine);
        if known.is_some_and(|known| known.instance != *instance) {
            self.forget(now, engine);
        }
        let policy = self.settings.policy;
        let state = self
            .engines
            .entry(engine)
            .or_insert_with(|| Engine::new(now, Arc::clone(instance), &policy));
        state.epoch = epoch;
        state.touch();
        state.connected = true;
        let Some(snapshot) = snapshot else { return self.wake(now) };
        for sequence in &snapshot.sequences {
            // The record that told of its submission was missed.
            let Some(Stage::Leased { until }) = state.ledger.get(sequence.id).map(|it| it.stage)
            else {
                continue;
            };
            self.timers.disarm(until, Timer::Entry(Place::Engine(engine), sequence.id));
            state.ledger.update(sequence.id, |entry| entry.found(sequence, snapshot.record));
        }
        let lost = state.restart(snapshot);
        self.close_lost(now, &Place::Engine(engine), lost, Why::Untold);
        self.wake(now);
    }

    /// The connection to an engine has broken. It may be back soon: nothing is forgotten yet, and
    /// nobody is let in.
    pub fn interrupted(&mut self, engine: EngineId) {
        if let Some(state) = self.engines.get_mut(&engine) {
            state.connected = false;
        }
    }

    /// An engine is gone, or has stopped trusting this promiser: everything of it is forgotten, its
    /// leases too.
    pub fn detached(&mut self, now: Micros, engine: EngineId) {
        self.forget(now, engine);
        self.wake(now);
    }

    /// An engine has published its state.
    pub fn snapshot(&mut self, now: Micros, engine: EngineId, snapshot: Snapshot) {
        let Some(state) = self.engines.get_mut(&engine) else { return };
        let lost = state.reconcile(snapshot);
        self.close_lost(now, &Place::Engine(engine), lost, Why::Untold);
        self.wake(now);
    }

    /// An engine has told of a step or of a request. They come in order and without gaps; records of
    /// engines that are not attached say nothing.
    pub fn record(&mut self, now: Micros, engine: EngineId, record: Record) {
        let Some(state) = self.engines.get_mut(&engine) else { return };
        state.seen(record.number);
        state.touch();
        match record.event {
            Event::Step(step) => state.step(now, record.number, &step),
            Event::Submitted(id, submitted) => {
                self.submitted(now, engine, record.number, id, &submitted);
            }
            Event::Started(id, cached) => {
                state.ledger.update(id, |entry| entry.started(cached, now));
            }
            Event::FirstToken(id) => state.ledger.update(id, |entry| entry.first_token(now)),
            Event::Finished(id, ended) => {
                if let Some(entry) = state.finish(id) {
                    let observation = entry.observation(&ended, now);
                    self.learn(now, engine, &entry, &ended, &observation);
                    self.leave(&Place::Engine(engine), id, entry, Outcome::Ended(observation));
                    self.wake(now);
                }
            }
        }
    }

    /// A lease becomes a running request, or one that nobody let in appears.
    fn submitted(
        &mut self,
        now: Micros,
        engine: EngineId,
        record: u64,
        id: RequestId,
        submitted: &Submitted,
    ) {
        let Some(state) = self.engines.get_mut(&engine) else { return };
        let before = state.ledger.get(id).map(|entry| entry.stage);
        match before {
            Some(Stage::Leased { until }) => {
                self.timers.disarm(until, Timer::Entry(Place::Engine(engine), id));
                state.ledger.update(id, |entry| entry.submitted(record, now, submitted));
            }
            // A snapshot told of it first.
            Some(Stage::Running { .. } | Stage::Awaited { .. }) => {}
            None => {
                let size = Size {
                    prompt: submitted.prompt,
                    cached: units::TokenCount(0),
                    max_tokens: submitted.max_tokens,
                };
                let mut entry = Entry::new(size, Stage::Running { record, submitted_at: now });
                entry.entered_at = now;
                entry.submitted(record, now, submitted);
                state.ledger.insert(id, entry);
            }
        }
    }

    /// Learns from a request that has ended: how long answers are, whether promises are kept.
    fn learn(
        &mut self,
        now: Micros,
        engine: EngineId,
        entry: &Entry,
        ended: &Ended,
        observation: &Observation,
    ) {
        let Some(state) = self.engines.get_mut(&engine) else { return };
        if ended.completion.0 > 0 {
            let whole = ended.how == How::Completed && ended.completion < entry.size.max_tokens;
            state.answers.observe(ended.completion.0, whole);
        }
        let Some(decided) = &entry.decided else { return };
        if ended.how == How::Cancelled {
            return;
        }
        let (tier, budget) = (decided.tier(), decided.saw.budget);
        let within = |spent: Option<Span>, budget: Option<Span>| {
            budget.is_none_or(|budget| spent.is_some_and(|spent| spent <= budget))
        };
        let in_time = ended.how == How::Completed
            && within(Some(observation.e2e), budget.e2e)
            && within(observation.ttft, budget.ttft);
        self.books.ended(tier, entry.load, in_time);
        let slow = budget.e2e.is_some_and(|it| observation.e2e > it.mul_f64(LATE_SHARE));
        let limits = state.snapshot.as_ref().map(|it| it.limits);
        let most = limits.map_or(1, |it| u64::from(it.slots) + u64::from(it.waiting));
        // The one that has just left was there.
        let inside = state.ledger.totals().requests + 1;
        state.adaptive.ended(now, slow || !in_time, inside, most);
        let Some(alpha) = self.settings.policy.twin().map(|twin| 1.0 - twin.level) else { return };
        if tier == Tier::Promised {
            state.conformal.kept(in_time, alpha);
            if let Some(foreseen) = entry.foreseen.filter(|_| ended.how == How::Completed) {
                let ended_at = decided.offered_at + observation.e2e;
                state.conformal.ended(entry.entered_at, foreseen, ended_at, alpha);
            }
        }
    }

    fn forget(&mut self, now: Micros, engine: EngineId) {
        let Some(mut state) = self.engines.remove(&engine) else { return };
        let all = state.ledger.extract(|_, _| true);
        self.close_lost(now, &Place::Engine(engine), all, Why::EngineLost);
    }

    fn close_lost(&mut self, now: Micros, place: &Place, lost: Vec<(RequestId, Entry)>, why: Why) {
        for (id, entry) in lost {
            let outcome = entry.cut(why, now);
            self.leave(place, id, entry, outcome);
        }
    }

    /// An entry that has been taken out of its ledger ends.
    pub(super) fn leave(&mut self, place: &Place, id: RequestId, entry: Entry, outcome: Outcome) {
        if let Some(until) = entry.until() {
            self.timers.disarm(until, Timer::Entry(place.clone(), id));
        }
        if self.current.get(&id).is_some_and(|it| it.at == Where::In(place.clone())) {
            self.current.remove(&id);
        }
        self.close(id, entry, outcome);
    }
}
