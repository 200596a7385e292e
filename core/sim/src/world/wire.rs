//! What an engine says, as admission reads it. Here no bytes lie between them, so this is all there is of
//! the wire.

use admit::{
    Ended, EngineLimits, Event, How, KvUsage, Phase, Sequence, Snapshot, Step, Submitted, Tier,
};
use sched::{FinishReason, SequenceView};
use units::{BlockCount, Micros, Span, TokenCount};

use super::event::Published;

/// A snapshot that arrives at `now` on the reader's clock.
pub(super) fn snapshot(published: &Published, now: Micros) -> Snapshot {
    let taken_at = now - published.age;
    let from = &published.snapshot;
    let moved = |deadline: Micros| match deadline >= published.at {
        true => taken_at + deadline.since(published.at),
        false => taken_at - published.at.since(deadline),
    };
    let sequence = |view: &SequenceView| Sequence {
        id: view.id,
        phase: phase(view.phase),
        tier: tier(view.tier),
        leased: view.leased,
        prompt: TokenCount(view.prompt_tokens),
        computed: TokenCount(view.computed_tokens),
        generated: TokenCount(view.generated_tokens),
        max_tokens: TokenCount(view.max_tokens),
        deadline: view.deadline.map(moved),
        submitted_at: taken_at - view.age,
        blocks: view.blocks,
        rests_until: (view.eligible_in > Span::ZERO).then(|| taken_at + view.eligible_in),
    };
    Snapshot {
        instance: published.instance.clone(),
        taken_at,
        step: from.step,
        record: published.record,
        planner: sched::PLANNER_VERSION.into(),
        limits: limits(&from.limits),
        rules: Some(from.limits.rules),
        cost: from.cost.into(),
        kv: KvUsage { held: from.kv.held, reclaimable: from.kv.reclaimable, free: from.kv.free },
        sequences: from.sequences.iter().map(sequence).collect(),
        draining: from.draining,
    }
}

fn limits(limits: &sched::Limits) -> EngineLimits {
    EngineLimits {
        slots: limits.slots,
        context: TokenCount(limits.context_tokens),
        batch: TokenCount(limits.batch_tokens),
        prefill: TokenCount(limits.prefill_tokens),
        step: limits.step,
        waiting: limits.waiting,
        kv: limits.kv_blocks,
    }
}

fn phase(phase: sched::Phase) -> Phase {
    match phase {
        sched::Phase::Waiting => Phase::Waiting,
        sched::Phase::Prefill => Phase::Prefill,
        sched::Phase::Decode => Phase::Decode,
    }
}

/// What was promised, in admission's words.
pub(super) fn tier(tier: sched::Tier) -> Tier {
    match tier {
        sched::Tier::Promised => Tier::Promised,
        sched::Tier::BestEffort => Tier::BestEffort,
    }
}

/// What a record says of an event, if it is of a kind that is recorded.
pub(super) fn record(event: &sched::Event) -> Option<Event> {
    match event {
        sched::Event::Step(step) => Some(Event::Step(Step {
            took: step.took,
            decodes: TokenCount(step.shape.decodes),
            prefill: TokenCount(step.shape.prefill),
            cells: step.shape.cells,
            prefill_cells: step.shape.prefill_cells,
        })),
        sched::Event::Accepted { id, tier: as_what, prompt_tokens, max_tokens, blocks, .. } => {
            let submitted = Submitted {
                prompt: TokenCount(*prompt_tokens),
                max_tokens: TokenCount(*max_tokens),
                tier: tier(*as_what),
                blocks: BlockCount(blocks.0),
            };
            Some(Event::Submitted(*id, submitted))
        }
        sched::Event::Started { id, cached_tokens } => {
            Some(Event::Started(*id, TokenCount(*cached_tokens)))
        }
        sched::Event::Token { id, first: true, .. } => Some(Event::FirstToken(*id)),
        sched::Event::Finished { id, reason, usage, timings } => {
            let ended = Ended {
                how: how(reason),
                completion: TokenCount(usage.completion_tokens),
                ttft: timings.first_token,
                e2e: timings.finished,
            };
            Some(Event::Finished(*id, ended))
        }
        sched::Event::Token { first: false, .. } | sched::Event::Refused { .. } => None,
    }
}

fn how(reason: &FinishReason) -> How {
    match reason {
        FinishReason::Stop | FinishReason::Length => How::Completed,
        FinishReason::Cancelled => How::Cancelled,
        FinishReason::Deadline
        | FinishReason::Evicted
        | FinishReason::Shutdown
        | FinishReason::Failed(_) => How::Failed,
    }
}
