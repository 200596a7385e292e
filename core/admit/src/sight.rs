//! What a twin sees of one engine: computed once for each state of it, used by every decision about that
//! state.

use std::sync::Arc;

use units::{Micros, RequestId, Span};

pub(crate) use crate::forecast::Since;
use crate::{
    Foresight, Snapshot, Tier, Twin,
    engine::Engine,
    entry::Entry,
    forecast::{Fate, Outlook, Run, Who},
    ledger::Ledger,
    lengths::Law,
    twin::{Scenarios, horizon},
};

/// An engine that is this much slower than it says of itself may have been misjudged.
const DOUBTFUL: f64 = 1.2;

/// An engine's outlook, and what it says of those who are there when nobody comes.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    pub(crate) made_at: Micros,
    pub(crate) outlook: Outlook,
    /// On caps; nobody who is late is followed to the end.
    pub(crate) alone: Vec<Fate>,
    /// With policies that foresee lengths.
    pub(crate) scenarios: Option<Scenarios>,
    /// How much slower than believed predictions on caps suppose the machine to be, a logarithm.
    pub(crate) margin: f64,
    /// Steps take far longer than predicted.
    pub(crate) alarm: bool,
    /// The engine was found slower than it says of itself.
    pub(crate) is_doubtful: bool,
    /// The cost from which on requests are too dear.
    pub(crate) price_us: Option<f64>,
}

impl Sight {
    /// Of an engine that is watched. `None` if it cannot be foreseen.
    pub(crate) fn of_watched(
        engine: &Engine,
        snapshot: &Snapshot,
        twin: &Twin,
        now: Micros,
    ) -> Option<Self> {
        let learner = engine.learner.as_ref()?;
        let since = engine.since(snapshot);
        let ledger = Some(&engine.ledger);
        let outlook = Outlook::of(snapshot, ledger, Some(learner.times()), since, now, false)?;
        let first = first_margin(twin);
        let (margin, shift) = match twin.conformal {
            true => (engine.conformal.margin(first), engine.conformal.shift()),
            false => (first, 0.0),
        };
        let mut sight = Self::of(outlook, margin, now);
        sight.alarm = twin.learns_cost && learner.alarm();
        sight.is_doubtful = sight.alarm || learner.slower() > DOUBTFUL;
        if let Foresight::Learnt { scenarios } = twin.foresight {
            let root = engine.answers.law();
            let law = |id| {
                let entry = engine.ledger.get(id);
                entry.and_then(|entry| entry.law.clone()).unwrap_or_else(|| Arc::clone(root))
            };
            let slower = |share| learner.residuals().quantile(share) + shift;
            sight.scenarios = Some(Scenarios::new(&sight.outlook, scenarios, law, slower));
        }
        Some(sight)
    }

    /// Of an engine that only its caller knows: nothing was learnt of it. `None` if it cannot be foreseen.
    pub(crate) fn of_passed(
        snapshot: &Snapshot,
        ours: Option<&Ledger>,
        twin: &Twin,
        now: Micros,
    ) -> Option<Self> {
        let outlook = Outlook::of(snapshot, ours, None, Since::default(), now, true)?;
        Some(Self::of(outlook, first_margin(twin), now))
    }

    fn of(outlook: Outlook, margin: f64, now: Micros) -> Self {
        let mut run = Run::default();
        run.start(&outlook.state, outlook.who.len());
        run.finish(outlook.fixed(), outlook.busy_until, horizon(&outlook, None));
        Self {
            made_at: now,
            alone: run.fates,
            outlook,
            scenarios: None,
            margin,
            alarm: false,
            is_doubtful: false,
            price_us: None,
        }
    }

    /// On caps: when a request that is let in now is foreseen to end, and by how much its coming delays the
    /// promises that were made.
    pub(crate) fn delays(
        &self,
        now: Micros,
        entry: &Entry,
        id: RequestId,
    ) -> (Micros, Vec<(RequestId, Span)>) {
        let outlook = &self.outlook;
        let never = Micros(u64::MAX);
        let who = Who {
            id,
            tier: entry.tier,
            deadline: entry.deadline.unwrap_or(never),
            first_by: never,
            generated: 0,
            runs: false,
        };
        let newcomer = outlook.newcomer(entry.size, &who, now);
        let mut run = Run::default();
        run.start(&outlook.state, outlook.who.len() + 1);
        run.state.enqueue(newcomer);
        run.finish(outlook.fixed(), outlook.busy_until, horizon(outlook, Some(who.deadline)));
        let end = run.fates[newcomer.who as usize].end;
        let promised = outlook.who.iter().zip(&self.alone).zip(&run.fates);
        let delays = promised.filter(|((who, _), _)| who.tier == Tier::Promised);
        let delays = delays.filter_map(|((who, before), after)| {
            let delay = after.end.since(before.end);
            let known = before.end < never && after.end < never && delay > Span::ZERO;
            known.then_some((who.id, delay))
        });
        (end, delays.collect())
    }

    /// The law of a request that nothing is known of.
    pub(crate) fn unknown() -> Arc<Law> {
        Arc::new(Law::default())
    }
}

/// The margin before anything was measured.
fn first_margin(twin: &Twin) -> f64 {
    match twin.foresight {
        Foresight::Caps { margin } => margin,
        Foresight::Learnt { .. } => match Twin::CAPS.foresight {
            Foresight::Caps { margin } => margin,
            Foresight::Learnt { .. } => 0.0,
        },
    }
}
