//! Says no, and until when.

use rand::Rng;
use units::{Micros, Span};

use super::{
    Controller,
    standing::{Standing, context, unfit},
};
use crate::{
    Attempt, Cause, Choice, Decision, EngineView, Outcome, Problem, Refused, Shortage,
    TracedVerdict, Verdict, Way,
    engine::passed_leaving,
    entry::{Entry, Size, Stage},
    held::{Held, Rank},
    ledger::Place,
    limit::cap_that_fits,
    retry,
    trace::Decided,
};

/// How long an engine that is not there is given to come back.
const RECONNECTION: Span = Span::from_secs(1);
/// How long a drained engine is given to be replaced.
const REPLACEMENT: Span = Span::from_secs(5);

impl Controller {
    /// Refuses somebody in the queue, with the reasons of this moment.
    pub(super) fn refuse(
        &mut self,
        now: Micros,
        rank: Rank,
        rng: &mut impl Rng,
    ) -> Option<(Attempt, Verdict)> {
        self.look(now);
        let grounds = self.grounds(now, self.held.get(rank)?, rank);
        let saw = self.saw(now, rank, grounds.candidate);
        let held = self.unqueue(rank)?;
        let waited = now.since(held.offered_at);
        let reason = grounds.cause.reason();
        let permanent = grounds.cause.is_permanent();
        self.counters.refused += 1;
        let attempt = held.offer.attempt;
        let decided = Decided {
            attempt: attempt.number,
            offered_at: held.offered_at,
            offered_unix: held.offer.unix,
            saw,
            verdict: TracedVerdict::Refused(reason),
            held: waited,
            way: Way::default(),
        };
        self.close_decided(attempt.id, decided, Outcome::Refused);
        let refused = Refused {
            cause: grounds.cause,
            retry_after: if permanent {
                retry::longest()
            } else {
                retry::jittered(grounds.wait, rng)
            },
            permanent,
            budget: held.budget,
            max_tokens_that_fit: grounds.max_tokens_that_fit,
            held: waited,
        };
        Some((attempt, Verdict::Refused(refused)))
    }

    /// Why somebody is not let in now, and until when.
    fn grounds(&self, now: Micros, held: &Held, rank: Rank) -> Grounds {
        if self.draining {
            return Grounds::plain(Cause::Draining, REPLACEMENT);
        }
        if held.budget.has_run_out() {
            return Grounds::plain(Cause::OutOfTime, Span::ZERO);
        }
        let candidates = 0..held.offer.candidates.len();
        let standings: Vec<_> =
            candidates.map(|candidate| self.standing(now, held, candidate)).collect();
        let choices: Vec<_> = standings
            .iter()
            .enumerate()
            .filter_map(|(candidate, standing)| match standing {
                Standing::Ready(view) => Some(self.behind(held, candidate, view.clone(), rank)),
                Standing::Interrupted
                | Standing::Draining
                | Standing::Gone
                | Standing::Unfit(_) => None,
            })
            .collect();
        if choices.is_empty() {
            return no_choice(held, &standings);
        }
        let problem = Problem { now, context: context(held, now), choices: &choices };
        match self.settings.policy.explain(&problem) {
            Decision::Wait(shortage) => self.until_drained(held, &choices, &shortage),
            Decision::Admit { choice, .. } => self.otherwise(&choices[choice], rank),
        }
    }

    /// The candidate as it will be when those ahead in the queue have got in.
    fn behind<'a>(
        &self,
        held: &Held,
        candidate: usize,
        mut view: EngineView<'a>,
        rank: Rank,
    ) -> Choice<'a> {
        let place = self.place(held, candidate);
        let ahead = self.held.ahead_of(rank).filter(|_| self.settings.policy.queues());
        for ahead in ahead {
            let there =
                (0..ahead.offer.candidates.len()).find(|it| self.place(ahead, *it) == place);
            let Some(there) = there else { continue };
            let size = Size::of(&ahead.offer, there);
            if unfit(size, view.snapshot).is_none() {
                let entry = Entry::new(size, Stage::Leased { until: ahead.until });
                view.totals = view.totals + entry.totals();
            }
        }
        self.choice(held, candidate, view)
    }

    fn until_drained(&self, held: &Held, choices: &[Choice<'_>], shortage: &Shortage) -> Grounds {
        let choice = &choices[shortage.choice];
        if let Some(wait) = shortage.wait {
            return Grounds {
                candidate: choice.candidate,
                cause: shortage.cause,
                wait,
                max_tokens_that_fit: shortage.max_tokens_that_fit,
            };
        }
        let (leaving, done) = match self.place(held, choice.candidate) {
            Some(Place::Engine(id)) => self.engines[&id].leaving(),
            Some(Place::Standalone(instance)) => {
                (passed_leaving(choice.engine.snapshot, self.standalone.get(&instance)), 0)
            }
            None => (Vec::new(), 0),
        };
        let slots = choice.engine.snapshot.limits.slots;
        Grounds {
            candidate: choice.candidate,
            cause: shortage.cause,
            wait: retry::drain_time(leaving, done, shortage.shortfall, slots, choice.engine.rate),
            max_tokens_that_fit: shortage.max_tokens_that_fit,
        }
    }

    /// The policy would let it in, and yet it is not: others come first, or too many are unobserved.
    fn otherwise(&self, choice: &Choice<'_>, rank: Rank) -> Grounds {
        let (open, limit) = (self.standalone_len as u64, self.settings.standalone_max as u64);
        let ahead = self.held.ahead_of(rank).count() as u64;
        let cause =
            if open >= limit { Cause::Unobserved { open, limit } } else { Cause::Queued { ahead } };
        Grounds { candidate: choice.candidate, ..Grounds::plain(cause, RECONNECTION) }
    }
}

/// Why somebody is refused.
struct Grounds {
    candidate: usize,
    cause: Cause,
    /// Until it is worth trying again.
    wait: Span,
    max_tokens_that_fit: Option<u32>,
}

impl Grounds {
    fn plain(cause: Cause, wait: Span) -> Self {
        Self { candidate: 0, cause, wait, max_tokens_that_fit: None }
    }
}

/// Nobody of the candidates can be decided about. What may change counts more than what cannot.
fn no_choice(held: &Held, standings: &[Standing<'_>]) -> Grounds {
    let mut unfit = None;
    let mut draining = false;
    for (candidate, standing) in standings.iter().enumerate() {
        match standing {
            Standing::Ready(_) => {}
            Standing::Interrupted | Standing::Gone => {
                return Grounds::plain(Cause::NoEngine, RECONNECTION);
            }
            Standing::Draining => draining = true,
            Standing::Unfit(cause) => unfit = Some((candidate, *cause)),
        }
    }
    match unfit {
        Some((candidate, cause)) if !draining => Grounds {
            candidate,
            max_tokens_that_fit: largest_cap(held, candidate, &cause),
            ..Grounds::plain(cause, Span::ZERO)
        },
        Some(_) | None => Grounds::plain(Cause::EngineDraining, REPLACEMENT),
    }
}

fn largest_cap(held: &Held, candidate: usize, cause: &Cause) -> Option<u32> {
    let size = Size::of(&held.offer, candidate);
    match cause {
        Cause::Context { context, .. } => cap_that_fits(size, *context, u64::MAX),
        Cause::TooLarge { total, .. } => cap_that_fits(size, u64::MAX, *total),
        Cause::Requests { .. }
        | Cause::Tokens { .. }
        | Cause::Kv { .. }
        | Cause::NoEngine
        | Cause::OutOfTime
        | Cause::EngineDraining
        | Cause::Draining
        | Cause::Queued { .. }
        | Cause::Late { .. }
        | Cause::Hopeless { .. }
        | Cause::Blind { .. }
        | Cause::Unobserved { .. } => None,
    }
}
