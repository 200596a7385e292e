//! Domain types to wire types.

use proto::v1;
use sched::{
    Event, FinishReason, Limits, Phase, SequenceView, StepCost, StepRecord, Tier, Timings, Usage,
};
use text::Vocabulary;
use units::{Micros, Span, Token};

use crate::{
    calibration::CostSource,
    hub::{Published, Record},
    outlet::{Answer, Note},
    prefixes::Listing,
    provenance::Provenance,
    scheduling::Told,
};

pub(crate) fn tier(tier: Tier) -> v1::Tier {
    match tier {
        Tier::Promised => v1::Tier::Promised,
        Tier::BestEffort => v1::Tier::BestEffort,
    }
}

pub(crate) fn derived_from(provenance: &Provenance) -> v1::Derivation {
    let Provenance { source, to, report, maker: _ } = provenance;
    v1::Derivation {
        name: source.name.clone(),
        sha256: source.sha256.clone(),
        r#type: to.clone(),
        perplexity_ratio: report.likeness.ratio,
    }
}

pub(crate) fn limits(limits: &Limits) -> v1::EngineLimits {
    v1::EngineLimits {
        slots: limits.slots,
        context_tokens: limits.context_tokens,
        batch_tokens: limits.batch_tokens,
        prefill_tokens: limits.prefill_tokens,
        step_us: limits.step.0,
        waiting: limits.waiting,
        unleased: limits.unleased,
        kv_blocks: limits.kv_blocks.0,
        kv_block_tokens: units::BLOCK_TOKENS,
    }
}

pub(crate) fn cost(cost: &StepCost) -> v1::StepCost {
    v1::StepCost {
        base_us: cost.base_us,
        per_decode_us: cost.per_decode_us,
        per_prefill_token_us: cost.per_prefill_token_us,
        per_cell_us: cost.per_cell_us,
        gain: cost.gain,
        per_tiled_cell_us: cost.per_tiled_cell_us,
        prompt_us: cost.prompt_us,
        bend_us: cost.bend.values().to_vec(),
    }
}

pub(crate) fn cost_source(source: CostSource) -> v1::CostSource {
    match source {
        CostSource::Calibrated => v1::CostSource::Calibrated,
        CostSource::Measured => v1::CostSource::Measured,
        CostSource::Guessed => v1::CostSource::Guessed,
        CostSource::Mock => v1::CostSource::Mock,
        CostSource::MockCalibrated => v1::CostSource::MockCalibrated,
    }
}

pub(crate) fn kv(usage: &kv::Usage) -> v1::KvUsage {
    v1::KvUsage {
        total: usage.total.0,
        held: usage.held.0,
        reclaimable: usage.reclaimable.0,
        free: usage.free.0,
    }
}

/// Buckets of answer lengths.
pub(crate) fn answers(sketch: &kv::Sketch) -> v1::AnswerLengths {
    let counted = sketch.buckets().filter(|bucket| bucket.ended + bucket.censored > 0);
    let bucket = |it: kv::Bucket| v1::AnswerBucket {
        least: it.least,
        ended: it.ended,
        censored: it.censored,
    };
    v1::AnswerLengths { buckets: counted.map(bucket).collect() }
}

/// The names of kept blocks.
pub(crate) fn prefixes(listing: Listing) -> v1::PrefixIndex {
    let Listing { version, blocks, omitted } = listing;
    v1::PrefixIndex { version, blocks, omitted }
}

/// A snapshot as it is sent at `now`, but for what its stream alone knows.
pub(crate) fn snapshot(
    published: &Published,
    instance: &str,
    told: &Told,
    now: Micros,
) -> v1::EngineSnapshot {
    let snapshot = &published.snapshot;
    let sequences = snapshot.sequences.iter();
    v1::EngineSnapshot {
        engine_instance: instance.into(),
        at_us: published.at.0,
        age_us: now.since(published.at).0,
        step: snapshot.step,
        record: published.record,
        planner_version: sched::PLANNER_VERSION.into(),
        limits: Some(limits(&snapshot.limits)),
        cost: Some(cost(&snapshot.cost)),
        kv: Some(kv(&snapshot.kv)),
        sequences: sequences.map(|view| sequence(view, published.at)).collect(),
        draining: snapshot.draining,
        scheduling: Some(told.wire(&snapshot.limits.rules)),
        prefixes: None,
    }
}

fn sequence(view: &SequenceView, at: Micros) -> v1::SequenceState {
    let phase = match view.phase {
        Phase::Waiting => v1::Phase::Waiting,
        Phase::Prefill => v1::Phase::Prefill,
        Phase::Decode => v1::Phase::Decode,
    };
    v1::SequenceState {
        request_id: view.id.to_string(),
        phase: phase.into(),
        tier: tier(view.tier).into(),
        leased: view.leased,
        prompt_tokens: view.prompt_tokens,
        computed_tokens: view.computed_tokens,
        generated_tokens: view.generated_tokens,
        max_tokens: view.max_tokens,
        deadline_us: view.deadline.map(|deadline| signed(deadline) - signed(at)),
        age_us: view.age.0,
        kv_blocks: view.blocks.0,
        cached_tokens: view.cached_tokens,
        eligible_us: (view.eligible_in > Span::ZERO).then_some(view.eligible_in.0),
    }
}

fn signed(at: Micros) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX / 2)
}

/// A record, unless it is of a kind that is not recorded.
pub(crate) fn record(record: &Record) -> Option<v1::Record> {
    use v1::lifecycle::Event as Life;
    let life = |id: &units::RequestId, event| {
        v1::record::Event::Lifecycle(v1::Lifecycle {
            request_id: id.to_string(),
            event: Some(event),
        })
    };
    let event = match &record.event {
        Event::Step(step) => v1::record::Event::Step(step_record(step)),
        Event::Accepted { id, .. } => life(id, Life::Submitted(submitted(&record.event)?)),
        &Event::Started { ref id, cached_tokens } => {
            life(id, Life::Started(v1::Started { cached_tokens }))
        }
        Event::Token { id, .. } => life(id, Life::FirstToken(v1::FirstToken {})),
        Event::Finished { id, reason, usage, timings } => {
            life(id, Life::Finished(finished(reason, *usage, timings)))
        }
        Event::Refused { .. } => return None,
    };
    Some(v1::Record { number: record.number, at_us: record.at.0, event: Some(event) })
}

fn submitted(event: &Event) -> Option<v1::Submitted> {
    let Event::Accepted {
        id: _,
        tier: kind,
        epoch,
        prompt_tokens,
        max_tokens,
        budget,
        first_token,
        blocks,
    } = event
    else {
        return None;
    };
    Some(v1::Submitted {
        prompt_tokens: *prompt_tokens,
        max_tokens: *max_tokens,
        tier: tier(*kind).into(),
        leased: epoch.is_some(),
        epoch: epoch.unwrap_or(0),
        budget: Some(v1::Budget {
            e2e_us: budget.map(|budget| budget.0),
            ttft_us: first_token.map(|budget| budget.0),
        }),
        kv_blocks: blocks.0,
    })
}

fn step_record(step: &StepRecord) -> v1::StepRecord {
    v1::StepRecord {
        step: step.step,
        took_us: step.took.0,
        predicted_us: step.predicted.0,
        decodes: step.shape.decodes,
        prefill_tokens: step.shape.prefill,
        attended_cells: step.shape.cells,
        prefill_cells: step.shape.prefill_cells,
        running: step.running,
        waiting: step.waiting,
    }
}

fn finished(reason: &FinishReason, usage: Usage, timings: &Timings) -> v1::Finished {
    let (code, message) = match reason {
        FinishReason::Stop => (v1::FinishReason::Stop, ""),
        FinishReason::Length => (v1::FinishReason::Length, ""),
        FinishReason::Cancelled => (v1::FinishReason::Cancelled, "the request was cancelled"),
        FinishReason::Deadline => (v1::FinishReason::Deadline, "the budget ran out"),
        FinishReason::Evicted => {
            (v1::FinishReason::Evicted, "the request was displaced and its budget ran out")
        }
        FinishReason::Shutdown => (v1::FinishReason::Shutdown, "the engine is stopping"),
        // What went wrong inside is for the log, not for clients.
        FinishReason::Failed(_) => (v1::FinishReason::Failed, "the backend failed"),
    };
    let us = |span: Span| span.0;
    v1::Finished {
        reason: code.into(),
        usage: Some(v1::Usage {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            cached_tokens: usage.cached_tokens,
        }),
        timings: Some(v1::Timings {
            started_us: timings.started.map(us),
            first_token_us: timings.first_token.map(us),
            finished_us: timings.finished.0,
        }),
        message: message.into(),
    }
}

/// What a client of `Generate` hears. A refusal is a status, not an event.
pub(crate) fn answer(answer: Answer, vocabulary: &Vocabulary) -> Option<v1::GenerateEvent> {
    use v1::generate_event::Event as Heard;
    let event = match answer {
        Answer::Accepted { tier: kind, leased } => {
            Heard::Accepted(v1::Accepted { tier: tier(kind).into(), leased })
        }
        Answer::Delta { text, tokens, notes } => {
            let logprobs = notes.into_iter().filter_map(|note| logprobs(note, vocabulary));
            Heard::Delta(v1::Delta { text, tokens, logprobs: logprobs.collect() })
        }
        Answer::Finished { reason, usage, timings } => {
            Heard::Finished(finished(&reason, usage, &timings))
        }
        Answer::Refused(_) => return None,
    };
    Some(v1::GenerateEvent { event: Some(event) })
}

fn logprobs(note: Note, vocabulary: &Vocabulary) -> Option<v1::TokenLogprob> {
    let told = note.logprobs?;
    let entry = |token: Token, logprob, top| v1::TokenLogprob {
        token: token.0,
        bytes: vocabulary.piece(token).to_vec(),
        logprob,
        top,
    };
    let top = told.top.iter().map(|it| entry(it.token, it.logprob, Vec::new()));
    Some(entry(note.token, told.chosen, top.collect()))
}
