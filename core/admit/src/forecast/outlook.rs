//! A simulated engine's starting point.

use sched::{Discipline, Limits, PLANNER_VERSION, PlanKey, StepCost, Tier as Rank};
use units::{BlockCount, Micros, RequestId, TokenCount};

use super::{
    run::{Fixed, Run, State},
    seq::Seq,
    times::StepTimes,
};
use crate::{
    EngineLimits, Phase, Sequence, Snapshot, Tier,
    entry::{Entry, Size, Stage},
    ledger::Ledger,
};

/// A request of an outlook.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Who {
    pub(crate) id: RequestId,
    pub(crate) tier: Tier,
    /// When it has to be done; the end of time without a budget.
    pub(crate) deadline: Micros,
    /// When its first token has to be there; the end of time if nothing was said, or it is.
    pub(crate) first_by: Micros,
    /// Tokens that it has sampled.
    pub(crate) generated: u32,
    /// Whether it runs.
    pub(crate) runs: bool,
}

/// No engine, request or cache is larger than this in tokens: who says so is not believed, and simulations
/// need not fear for their numbers.
const TOKENS_MAX: u32 = 1 << 24;
/// No engine has more slots.
const SLOTS_MAX: u32 = 4_096;
/// Requests that are simulated: with more, nothing is foreseen.
const REQUESTS_MAX: usize = 1_024;

/// The starting point of simulations of one engine.
#[derive(Clone, Debug)]
pub(crate) struct Outlook {
    pub(crate) limits: Limits,
    pub(crate) cost: StepCost,
    pub(crate) times: StepTimes,
    pub(crate) state: State,
    /// The step that runs does not end before.
    pub(crate) busy_until: Micros,
    /// By the index that the sequences of the state have.
    pub(crate) who: Vec<Who>,
}

/// What the records since a snapshot say of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Since {
    /// Steps that have ended.
    pub(crate) steps: u64,
    /// When the last of them did.
    pub(crate) ended_at: Micros,
}

/// Bounds and rules, if this build knows how to plan by them.
pub(crate) fn limits_of(snapshot: &Snapshot) -> Option<Limits> {
    let rules = snapshot.rules.filter(|it| it.discipline == Discipline::Continuous)?;
    let EngineLimits { slots, context, batch, prefill, step, waiting, kv } = snapshot.limits;
    let known = *snapshot.planner == *PLANNER_VERSION && prefill.0 > 0 && batch.0 >= slots.max(1);
    let largest = context.0.max(batch.0).max(kv.0).max(rules.output_cap.unwrap_or_default());
    let sane = slots <= SLOTS_MAX && largest <= TOKENS_MAX;
    (known && sane).then_some(Limits {
        slots,
        context_tokens: context.0,
        batch_tokens: batch.0,
        prefill_tokens: prefill.0.min(batch.0),
        step,
        waiting,
        unleased: u32::MAX,
        kv_blocks: kv,
        rules,
    })
}

impl Outlook {
    /// What is known at `now`. `None` if the engine plans by rules that are not known here, or its costs
    /// are none.
    pub(crate) fn of(
        snapshot: &Snapshot,
        ledger: Option<&Ledger>,
        times: Option<&StepTimes>,
        since: Since,
        now: Micros,
        passed: bool,
    ) -> Option<Self> {
        let limits = limits_of(snapshot)?;
        let requests = snapshot.sequences.len() + ledger.map_or(0, Ledger::len);
        if requests > REQUESTS_MAX || !snapshot.sequences.iter().all(is_sane) {
            return None;
        }
        let cost = StepCost::from(snapshot.cost);
        cost.validate().ok()?;
        let times = times.cloned().unwrap_or_else(|| StepTimes::of(&cost, limits.slots));
        let mut outlook = Self {
            limits,
            cost,
            times,
            state: State {
                now: snapshot.taken_at,
                step: snapshot.step,
                free_blocks: u32::try_from(snapshot.kv.room())
                    .unwrap_or(TOKENS_MAX)
                    .min(TOKENS_MAX),
                ..State::default()
            },
            busy_until: now,
            who: Vec::with_capacity(snapshot.sequences.len() + 8),
        };
        outlook.take_sequences(snapshot, ledger, passed);
        outlook.state.free_slots =
            limits.slots.saturating_sub(u32::try_from(outlook.state.running.len()).unwrap_or(0));
        outlook.skip(since);
        if outlook.state.running.is_empty() {
            outlook.state.now = outlook.state.now.max(now);
        }
        outlook.take_unseen(snapshot, ledger);
        Some(outlook)
    }

    pub(crate) fn fixed(&self) -> Fixed<'_> {
        Fixed { limits: &self.limits, cost: &self.cost, times: &self.times }
    }

    /// Sequences that the engine has published and that have not ended since.
    fn take_sequences(&mut self, snapshot: &Snapshot, ledger: Option<&Ledger>, passed: bool) {
        for sequence in &snapshot.sequences {
            let entry = ledger.and_then(|ledger| ledger.get(sequence.id));
            if entry.is_none() && !passed {
                continue;
            }
            let first_by = entry.and_then(|entry| entry.first_by);
            let seq = self.sequence(sequence, entry);
            self.who.push(Who {
                id: sequence.id,
                tier: sequence.tier,
                deadline: entry.and_then(|it| it.deadline).unwrap_or(seq.key.deadline),
                first_by: first_by
                    .filter(|_| sequence.generated.0 == 0)
                    .unwrap_or(Micros(u64::MAX)),
                generated: sequence.generated.0,
                runs: sequence.phase != Phase::Waiting,
            });
            match sequence.phase {
                Phase::Waiting => self.state.enqueue(seq),
                Phase::Prefill | Phase::Decode => super::run::insert(&mut self.state.running, seq),
            }
        }
    }

    fn sequence(&self, sequence: &Sequence, entry: Option<&Entry>) -> Seq {
        let cached = entry.map_or(0, |entry| entry.size.cached.0);
        let history = sequence.prompt.0.saturating_add(sequence.generated.0).max(1);
        let deadline = sequence.deadline.unwrap_or(Micros(u64::MAX));
        let (computed, prefill_left, blocks) = match sequence.phase {
            Phase::Waiting => {
                let cached = cached.min(history - 1);
                (cached, history - cached, self.blocks(sequence.prompt, sequence.max_tokens))
            }
            Phase::Prefill => {
                let left = history.saturating_sub(sequence.computed.0).max(1);
                (sequence.computed.0, left, sequence.blocks)
            }
            Phase::Decode => (sequence.computed.0, 0, sequence.blocks),
        };
        Seq {
            key: PlanKey { tier: rank(sequence.tier), deadline, arrival: sequence.submitted_at.0 },
            who: u32::try_from(self.who.len()).unwrap_or(u32::MAX),
            prefill_left,
            computed,
            left: sequence.max_tokens.0.saturating_sub(sequence.generated.0).max(1),
            cached,
            blocks,
            all_blocks: self.blocks(sequence.prompt, sequence.max_tokens),
            eligible_at: sequence.rests_until.unwrap_or_default(),
            preemptions: 0,
            late: sequence.phase != Phase::Waiting && deadline <= self.state.now,
            watched: sequence.tier == Tier::Promised,
        }
    }

    /// Steps that have ended since the snapshot was taken.
    fn skip(&mut self, since: Since) {
        if since.steps == 0 {
            return;
        }
        let mut run = Run::default();
        run.start(&self.state, self.who.len());
        run.skip(self.fixed(), since.steps);
        self.state = run.state;
        self.state.now = since.ended_at.max(self.state.now);
    }

    /// Requests that were let in, or told of, and are not in the snapshot.
    fn take_unseen(&mut self, snapshot: &Snapshot, ledger: Option<&Ledger>) {
        let Some(ledger) = ledger else { return };
        let mut seen: Vec<RequestId> = snapshot.sequences.iter().map(|it| it.id).collect();
        seen.sort_unstable();
        for (id, entry) in ledger.iter().filter(|(id, _)| seen.binary_search(id).is_err()) {
            if matches!(entry.stage, Stage::Awaited { .. }) {
                continue;
            }
            let who = Who {
                id,
                tier: entry.tier,
                deadline: entry.deadline.unwrap_or(Micros(u64::MAX)),
                first_by: entry.first_by.unwrap_or(Micros(u64::MAX)),
                generated: 0,
                runs: false,
            };
            let newcomer = self.newcomer(entry.size, &who, entry.entered_at);
            self.who.push(who);
            self.state.enqueue(newcomer);
        }
    }

    /// A request that is not there yet, as the next one of this outlook.
    pub(crate) fn newcomer(&self, size: Size, who: &Who, at: Micros) -> Seq {
        let least = |tokens: TokenCount| TokenCount(tokens.0.min(TOKENS_MAX));
        let size = Size {
            prompt: least(size.prompt),
            cached: least(size.cached),
            max_tokens: least(size.max_tokens),
        };
        let cached = size.cached.0.min(size.prompt.0.saturating_sub(1));
        let blocks = self.blocks(size.prompt, size.max_tokens);
        Seq {
            key: PlanKey { tier: rank(who.tier), deadline: who.deadline, arrival: at.0 },
            who: u32::try_from(self.who.len()).unwrap_or(u32::MAX),
            prefill_left: size.prompt.0.max(1) - cached,
            computed: cached,
            left: size.max_tokens.0.max(1),
            cached,
            blocks,
            all_blocks: blocks,
            eligible_at: at,
            preemptions: 0,
            late: false,
            watched: who.tier == Tier::Promised,
        }
    }

    fn blocks(&self, prompt: TokenCount, max_tokens: TokenCount) -> BlockCount {
        let own = prompt.0.saturating_add(max_tokens.0);
        let slab = self.limits.rules.output_cap.map_or(own, |cap| prompt.0.saturating_add(cap));
        TokenCount(own.max(slab.min(self.limits.context_tokens))).blocks()
    }
}

fn is_sane(sequence: &Sequence) -> bool {
    let Sequence { prompt, computed, generated, max_tokens, blocks, .. } = sequence;
    [prompt.0, computed.0, generated.0, max_tokens.0, blocks.0].iter().all(|it| *it <= TOKENS_MAX)
}

pub(crate) fn rank(tier: Tier) -> Rank {
    match tier {
        Tier::Promised => Rank::Promised,
        Tier::BestEffort => Rank::BestEffort,
    }
}
