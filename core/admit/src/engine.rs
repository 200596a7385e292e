//! What is known of one watched engine.
//!
//! attached -> (snapshots, records) -> interrupted -> attached again, or detached. While it is
//! interrupted nothing is forgotten and nobody is let in; detached, everything is forgotten.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use units::{Micros, RequestId, Span};

use crate::{
    EngineView, Policy, RATE_DEFAULT, Snapshot, Step, Totals,
    adaptive::Adaptive,
    cost::Learner,
    entry::{Entry, Size, Stage},
    honesty::Conformal,
    ledger::Ledger,
    lengths::{Law, Seen},
    rate::Rate,
    retry::Leaving,
    sight::{Sight, Since},
    twin::{Cost, Price},
};

/// An engine of the configuration, by its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineId(pub u32);

/// No promise is made on a state that is older than this, or than three steps.
const FRESH: Span = Span::from_millis(500);

/// A watched engine, from `attached` to `detached`.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) instance: Arc<str>,
    pub(crate) epoch: u64,
    /// False while the connection is interrupted.
    pub(crate) connected: bool,
    /// Absent until the first one comes.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    pub(crate) ledger: Ledger,
    rate: Rate,
    /// The last record seen.
    record: u64,
    /// KV blocks free or reclaimable: as the snapshot says, and what has finished since then held.
    room: u64,
    /// Tokens computed since the snapshot.
    done: u64,
    /// The latest steps: their records, and when these were read.
    steps: VecDeque<(u64, Micros)>,
    learns: bool,
    pub(crate) learner: Option<Learner>,
    /// How long answers were.
    pub(crate) answers: Seen,
    pub(crate) conformal: Conformal,
    pub(crate) price: Price,
    pub(crate) adaptive: Adaptive,
    /// When somebody was last let in.
    pub(crate) admitted_at: Micros,
    /// What a twin sees, until something changes.
    pub(crate) sight: Option<Arc<Sight>>,
}

/// Steps that are remembered: more do not fit between two snapshots.
const STEPS_MAX: usize = 64;
/// A sight is good for this long.
const SIGHT_MAX: Span = Span::from_millis(20);

impl Engine {
    /// Of this instance. Whether its step costs are to be learnt, is the policy's matter.
    pub(crate) fn new(now: Micros, instance: Arc<str>, policy: &Policy) -> Self {
        Self {
            learns: policy.twin().is_none_or(|twin| twin.learns_cost),
            instance,
            epoch: 0,
            connected: false,
            snapshot: None,
            ledger: Ledger::default(),
            rate: Rate::default(),
            record: 0,
            room: 0,
            done: 0,
            steps: VecDeque::new(),
            learner: None,
            answers: Seen::default(),
            conformal: Conformal::default(),
            price: Price::default(),
            adaptive: Adaptive::default(),
            admitted_at: now,
            sight: None,
        }
    }

    /// Looks at the engine anew, if a twin is to decide and something has changed.
    pub(crate) fn look(&mut self, now: Micros, policy: &Policy) {
        let Some(twin) = policy.twin() else { return };
        let seen = self.sight.as_ref().is_some_and(|it| now.since(it.made_at) <= SIGHT_MAX);
        let Some(snapshot) = self.snapshot.clone().filter(|_| !seen) else { return };
        let price_us = twin.price.and_then(|share| self.price.limit_us(now, share));
        let sight = Sight::of_watched(self, &snapshot, twin, now);
        self.sight = sight.map(|sight| Arc::new(Sight { price_us, ..sight }));
    }

    /// Machine time that a request asks for, if anything is known of that.
    pub(crate) fn cost_of(&self, size: Size, law: &Law) -> Option<Cost> {
        let (learner, snapshot) = (self.learner.as_ref()?, self.snapshot.as_ref()?);
        let miss = size.prompt.saturating_sub(size.cached).0;
        let answer = law.mean(size.max_tokens.0);
        Some(Cost::of(learner.times(), snapshot.limits.slots, miss, answer))
    }

    /// Something has changed that decisions depend on.
    pub(crate) fn touch(&mut self) {
        self.sight = None;
    }

    /// Steps that ended after the snapshot was taken.
    pub(crate) fn since(&self, snapshot: &Snapshot) -> Since {
        let later = self.steps.iter().filter(|(record, _)| *record > snapshot.record);
        let ended_at = self.steps.back().map_or(Micros(0), |(_, at)| *at);
        Since { steps: later.count() as u64, ended_at }
    }

    /// What a policy sees, once there is a snapshot.
    pub(crate) fn view(&self, now: Micros) -> Option<EngineView<'_>> {
        let snapshot = self.snapshot.as_deref()?;
        let mut totals = self.ledger.totals();
        totals.work = totals.work.saturating_sub(self.done);
        let allowed = FRESH.max(self.rate.step() + self.rate.step() + self.rate.step());
        Some(EngineView {
            snapshot,
            totals,
            room: self.room,
            rate: self.rate_tokens_per_s(),
            rate_measured: self.rate.tokens_per_s().is_some(),
            fresh: self.connected && now.since(snapshot.taken_at) <= allowed,
            quiet: now.since(self.admitted_at),
            adaptive: self.adaptive.limit(),
            sight: self.sight.clone(),
        })
    }

    pub(crate) fn rate_tokens_per_s(&self) -> f64 {
        let cost = || self.snapshot.as_deref().and_then(modelled_rate);
        self.rate.tokens_per_s().or_else(cost).unwrap_or(RATE_DEFAULT)
    }

    /// What is in its system, and how much of that work was done since it was counted.
    pub(crate) fn leaving(&self) -> (Vec<Leaving>, u64) {
        (self.ledger.iter().map(|(_, entry)| entry.totals()).collect(), self.done)
    }

    pub(crate) fn step(&mut self, now: Micros, record: u64, step: &Step) {
        self.rate.observe(step);
        if let Some(learner) = &mut self.learner {
            learner.step(now, step);
        }
        if self.steps.len() >= STEPS_MAX {
            self.steps.pop_front();
        }
        self.steps.push_back((record, now));
        self.done += u64::from(step.decodes.0) + u64::from(step.prefill.0);
    }

    pub(crate) fn seen(&mut self, record: u64) {
        self.record = self.record.max(record);
    }

    /// A running request leaves.
    pub(crate) fn finish(&mut self, id: RequestId) -> Option<Entry> {
        let entry = self.ledger.get(id)?;
        if !matches!(entry.stage, Stage::Running { .. }) {
            return None; // An older attempt has ended; this one is still to come.
        }
        self.room += u64::from(entry.held.0);
        self.ledger.remove(id)
    }

    /// Starts again from a snapshot. Leases stay, for their requests are on the way; what runs is what
    /// the snapshot says. Hands back whatever it does not know.
    pub(crate) fn restart(&mut self, snapshot: Snapshot) -> Vec<(RequestId, Entry)> {
        let known: BTreeSet<_> = snapshot.sequences.iter().map(|sequence| sequence.id).collect();
        let lost = self.ledger.extract(|id, entry| {
            matches!(entry.stage, Stage::Running { .. }) && !known.contains(&id)
        });
        self.record = snapshot.record;
        self.steps.clear();
        self.take_over(snapshot);
        lost
    }

    /// Takes over a snapshot between the records. Records that it includes may still be on the way, or
    /// be here already. Hands back what it no longer knows although everything up to it has been read:
    /// an end that was never told.
    pub(crate) fn reconcile(&mut self, snapshot: Snapshot) -> Vec<(RequestId, Entry)> {
        let mut lost = Vec::new();
        if snapshot.record <= self.record {
            let known: BTreeSet<_> = snapshot.sequences.iter().map(|it| it.id).collect();
            lost = self.ledger.extract(|id, entry| match entry.stage {
                Stage::Running { record, .. } => record <= snapshot.record && !known.contains(&id),
                Stage::Leased { .. } | Stage::Awaited { .. } => false,
            });
        }
        self.take_over(snapshot);
        lost
    }

    fn take_over(&mut self, snapshot: Snapshot) {
        for sequence in &snapshot.sequences {
            match self.ledger.get(sequence.id).map(|entry| entry.stage) {
                Some(Stage::Running { .. }) => {
                    self.ledger.update(sequence.id, |entry| entry.progress(sequence));
                }
                // Its own record will say which attempt this is.
                Some(Stage::Leased { .. } | Stage::Awaited { .. }) => {}
                // Unless it has finished since the snapshot was taken.
                None if snapshot.record >= self.record => {
                    let entry = Entry::of_sequence(sequence, snapshot.record);
                    self.ledger.insert(sequence.id, entry);
                }
                None => {}
            }
        }
        self.room = snapshot.kv.room();
        self.done = 0;
        self.touch();
        if self.learner.is_none() {
            self.learner = Learner::new(snapshot.cost, snapshot.limits.slots, !self.learns);
        }
        self.snapshot = Some(Arc::new(snapshot));
    }
}

/// What the engine's own cost model says about its speed.
fn modelled_rate(snapshot: &Snapshot) -> Option<f64> {
    snapshot.cost.rate(snapshot.limits.slots)
}

/// A view of an engine that only its caller watches: the state that was passed, and those whom we let
/// in and who are not in it yet.
pub(crate) fn passed_view<'a>(
    snapshot: &'a Snapshot,
    ours: Option<&Ledger>,
    policy: &Policy,
    now: Micros,
) -> EngineView<'a> {
    let twin = policy.twin();
    EngineView {
        snapshot,
        totals: passed_leaving(snapshot, ours).into_iter().sum(),
        room: snapshot.kv.room(),
        rate: modelled_rate(snapshot).unwrap_or(RATE_DEFAULT),
        rate_measured: false,
        fresh: now.since(snapshot.taken_at) <= FRESH,
        quiet: Span::ZERO,
        adaptive: u64::MAX,
        sight: twin.and_then(|twin| Sight::of_passed(snapshot, ours, twin, now)).map(Arc::new),
    }
}

/// What is in the system of such an engine.
pub(crate) fn passed_leaving(snapshot: &Snapshot, ours: Option<&Ledger>) -> Vec<Totals> {
    let mut leaving: Vec<_> = snapshot
        .sequences
        .iter()
        .map(|sequence| Entry::of_sequence(sequence, 0).totals())
        .collect();
    let Some(ours) = ours else { return leaving };
    let passed: BTreeSet<_> = snapshot.sequences.iter().map(|sequence| sequence.id).collect();
    let unseen = ours.iter().filter(|(id, _)| !passed.contains(id));
    leaving.extend(unseen.map(|(_, entry)| entry.totals()));
    leaving
}
