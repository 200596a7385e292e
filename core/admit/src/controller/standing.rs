//! What can be decided about, and why the rest cannot.

use std::sync::Arc;

use units::{Micros, TokenCount};

use super::Controller;
use crate::{
    AdmissionContext, Cause, Choice, EngineView, Snapshot, Source,
    engine::passed_view,
    entry::Size,
    held::Held,
    ledger::{Ledger, Place},
    lengths::Law,
    sight::Sight,
};

/// Whether a candidate can be decided about.
pub(super) enum Standing<'a> {
    Ready(EngineView<'a>),
    /// Its connection is interrupted: it may be back within anybody's patience.
    Interrupted,
    Draining,
    Gone,
    /// It can never hold the request.
    Unfit(Cause),
}

impl Controller {
    /// A candidate that can be decided about.
    pub(super) fn choice<'a>(
        &self,
        held: &Held,
        candidate: usize,
        engine: EngineView<'a>,
    ) -> Choice<'a> {
        let cached = Size::of(&held.offer, candidate).cached;
        Choice { candidate, cached, law: self.law(held, candidate), engine }
    }

    /// How long the answer of a request may be at a candidate.
    pub(super) fn law(&self, held: &Held, candidate: usize) -> Arc<Law> {
        let known = self.settings.policy.scenarios().and_then(|_| self.place(held, candidate));
        let Some(Place::Engine(id)) = known else { return Sight::unknown() };
        let root = self.engines[&id].answers.law();
        match &held.offer.candidates[candidate].answers[..] {
            [] => Arc::clone(root),
            own => Arc::new(root.refined(own)),
        }
    }

    pub(super) fn place(&self, held: &Held, candidate: usize) -> Option<Place> {
        match &held.offer.candidates[candidate].source {
            Source::Watched(instance) => {
                let mut engines = self.engines.iter();
                engines.find(|(_, it)| it.instance == *instance).map(|(id, _)| Place::Engine(*id))
            }
            Source::Passed(snapshot) => Some(Place::Standalone(Arc::clone(&snapshot.instance))),
        }
    }

    pub(super) fn ledger(&self, place: &Place) -> Option<&Ledger> {
        match place {
            Place::Engine(id) => self.engines.get(id).map(|engine| &engine.ledger),
            Place::Standalone(instance) => self.standalone.get(instance),
        }
    }

    pub(super) fn standing<'a>(
        &'a self,
        now: Micros,
        held: &'a Held,
        candidate: usize,
    ) -> Standing<'a> {
        let view = match (&held.offer.candidates[candidate].source, self.place(held, candidate)) {
            (Source::Passed(snapshot), _) => {
                let ours = self.standalone.get(&snapshot.instance);
                Some(passed_view(snapshot, ours, &self.settings.policy, now))
            }
            (Source::Watched(_), Some(Place::Engine(id))) => {
                let engine = &self.engines[&id];
                if engine.connected { engine.view(now) } else { None }
            }
            (Source::Watched(_), Some(Place::Standalone(_)) | None) => return Standing::Gone,
        };
        let Some(view) = view else { return Standing::Interrupted };
        match unfit(Size::of(&held.offer, candidate), view.snapshot) {
            Some(cause) => Standing::Unfit(cause),
            None if view.snapshot.draining => Standing::Draining,
            None => Standing::Ready(view),
        }
    }
}

/// Why an engine could not hold the request even alone.
pub(super) fn unfit(size: Size, snapshot: &Snapshot) -> Option<Cause> {
    let context = u64::from(snapshot.limits.context.0);
    if size.tokens() > context {
        return Some(Cause::Context { needed: size.tokens(), context });
    }
    // Without the cache: what is cached now may be gone when it runs.
    let alone = Size { cached: TokenCount(0), ..size };
    let (needed, total) = (u64::from(alone.blocks().0), u64::from(snapshot.limits.kv.0));
    (needed > total).then_some(Cause::TooLarge { needed, total })
}

pub(super) fn context(held: &Held, now: Micros) -> AdmissionContext {
    let waited = now.since(held.offered_at);
    AdmissionContext {
        id: held.offer.attempt.id,
        prompt: held.offer.prompt,
        max_tokens: held.offer.max_tokens,
        budget: held.budget.after(waited),
        held: waited,
        accept_best_effort: held.offer.accept_best_effort,
        priority: held.offer.priority,
        tenant: Arc::clone(&held.offer.tenant),
    }
}
