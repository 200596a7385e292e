//! The controller: the thing that the actor, the simulator and the tests hold.
//!
//! offered -> (held) -> admitted | refused | superseded; admitted -> leased -> running -> closed, or
//! awaited -> closed for callers without an engine. After any call the holder applies
//! [`Controller::drain_effects`] and wakes it with [`Controller::tick`] at
//! [`Controller::next_deadline`].
//!
//! Its sub-machines: `offers` takes callers in and out, `standing` says who can be decided about,
//! `queue` lets them in, `refusals` says no, `engines` follows the engines, `outcomes` closes
//! decisions.

mod engines;
mod offers;
mod outcomes;
mod queue;
mod refusals;
mod standing;

use std::{collections::BTreeMap, sync::Arc};

use units::{Micros, RequestId};

use crate::{
    Attempt, Counters, EngineId, EngineStatus, Honesty, Settings, Trace, Verdict, View,
    cost::Learner,
    engine::Engine,
    held::{Queue, Rank},
    honesty::Books,
    ledger::{Ledger, Place, Totals},
    timers::Timers,
};

/// What the holder has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Answer the call of this attempt, which was held.
    Verdict(Attempt, Verdict),
    /// Keep this row.
    Closed(Box<Trace>),
    /// Count this: the request was let in and never submitted.
    LeaseExpired(Attempt),
}

/// Decides who gets in, and remembers who is.
#[derive(Clone, Debug)]
pub struct Controller {
    pub(crate) settings: Settings,
    pub(crate) engines: BTreeMap<EngineId, Engine>,
    /// Empty ledgers are removed.
    pub(crate) standalone: BTreeMap<Arc<str>, Ledger>,
    pub(crate) standalone_len: usize,
    pub(crate) held: Queue,
    /// Which attempt speaks for a request, and where it is: one for each held request and each
    /// decided entry.
    pub(crate) current: BTreeMap<RequestId, Current>,
    pub(crate) timers: Timers,
    pub(crate) books: Books,
    arrivals: u64,
    effects: Vec<Effect>,
    counters: Counters,
    draining: bool,
}

/// The attempt that speaks for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) attempt: u32,
    pub(crate) at: Where,
}

/// Where an attempt is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// In the queue.
    Held(Rank),
    /// In a ledger.
    In(Place),
}

impl Controller {
    /// A controller that knows no engine yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            engines: BTreeMap::new(),
            standalone: BTreeMap::new(),
            standalone_len: 0,
            held: Queue::default(),
            current: BTreeMap::new(),
            timers: Timers::default(),
            books: Books::default(),
            arrivals: 0,
            effects: Vec::new(),
            counters: Counters::default(),
            draining: false,
        }
    }

    /// What it was made with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What has to be done because of the calls since the last time, in order.
    #[must_use = "held calls are answered by these effects only"]
    pub fn drain_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// When [`Controller::tick`] has to be called next. Changes with every other call.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Micros> {
        self.timers.next()
    }

    /// What it sees and has done.
    #[must_use]
    pub fn view(&self, now: Micros) -> View {
        let status = |(id, engine): (&EngineId, &Engine)| EngineStatus {
            engine: *id,
            instance: Arc::clone(&engine.instance),
            epoch: engine.epoch,
            connected: engine.connected,
            snapshot_age: engine.snapshot.as_ref().map(|it| now.since(it.taken_at)),
            totals: engine.ledger.totals(),
            rate: engine.rate_tokens_per_s(),
            speed: engine.learner.as_ref().map(Learner::speed),
            answers: engine.answers.total(),
            margin: engine.conformal.margin(0.0),
            shift: engine.conformal.shift(),
            price_us: engine.price.last_us(),
            adaptive: engine.adaptive.limit(),
        };
        let engines: Vec<_> = self.engines.iter().map(status).collect();
        let totals: Totals = engines.iter().map(|engine| engine.totals).sum();
        View {
            engines,
            leases: totals.leases,
            held: self.held.len(),
            standalone: self.standalone_len,
            counters: self.counters,
            draining: self.draining,
            honesty: self.honesty(),
        }
    }

    fn honesty(&self) -> Honesty {
        let alpha = self.settings.policy.twin().map_or(0.0, |twin| 1.0 - twin.level);
        let Counters { admitted, refused, .. } = self.counters;
        let share = refused as f64 / (admitted + refused).max(1) as f64;
        self.books.honesty(alpha, share)
    }

    /// Whoever asks for it changes it, so nothing that was seen of the engine stands.
    pub(crate) fn ledger_mut(&mut self, place: &Place) -> Option<&mut Ledger> {
        match place {
            Place::Engine(id) => self.engines.get_mut(id).map(|engine| {
                engine.touch();
                &mut engine.ledger
            }),
            Place::Standalone(instance) => self.standalone.get_mut(instance),
        }
    }
}
