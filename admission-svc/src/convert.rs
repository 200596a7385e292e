//! Wire types into domain types, with their bounds checks.
//!
//! Whatever comes from outside may be wrong. Everything is checked here, once, and an error names the
//! field; behind this file every value is one that the controller can take.

use std::sync::Arc;

use admit::{
    AnswerBucket, Attempt, Bend, Budget, Candidate, Discipline, Ended, EngineLimits, Event, How,
    KvUsage, Lateness, Observation, Offer, Order, Phase, Record, Reservation, Rules, Sequence,
    Snapshot, Source, Step, StepCost, Submitted, Tier,
};
use proto::v1;
use tonic::Status;
use units::{BLOCK_TOKENS, BlockCount, Micros, RequestId, Span, TokenCount};

const CANDIDATES_MAX: usize = 64;
const TENANT_BYTES_MAX: usize = 128;
const NAME_BYTES_MAX: usize = 256;
const SEQUENCES_MAX: usize = 16_384;
const ANSWER_BUCKETS_MAX: usize = 64;

/// A field that does not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    /// The field, as the `.proto` file names it, with its path.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

impl From<Invalid> for Status {
    fn from(invalid: Invalid) -> Self {
        Self::invalid_argument(invalid.to_string())
    }
}

impl Invalid {
    fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }

    fn within(self, parent: &str) -> Self {
        Self { field: format!("{parent}.{}", self.field), ..self }
    }
}

/// A request that wants in.
///
/// # Errors
/// A field that does not do.
pub(crate) fn offer(wire: v1::DecideRequest, now: Micros, unix: Micros) -> Result<Offer, Invalid> {
    let attempt = Attempt { id: id(&wire.request_id)?, number: wire.attempt };
    let count = wire.candidates.len();
    if !(1..=CANDIDATES_MAX).contains(&count) {
        let reason = format!("{count} are not between 1 and {CANDIDATES_MAX}");
        return Err(Invalid::new("candidates", reason));
    }
    at_least_1("prompt_tokens", wire.prompt_tokens)?;
    at_least_1("max_tokens", wire.max_tokens)?;
    at_most("tenant", wire.tenant.len(), TENANT_BYTES_MAX, "bytes")?;
    let prompt = TokenCount(wire.prompt_tokens);
    let candidates = wire.candidates.into_iter().enumerate().map(|(index, it)| {
        candidate(it, prompt, now).map_err(|error| error.within(&format!("candidates[{index}]")))
    });
    Ok(Offer {
        attempt,
        candidates: candidates.collect::<Result<_, _>>()?,
        prompt,
        max_tokens: TokenCount(wire.max_tokens),
        budget: budget(wire.budget.unwrap_or_default()),
        patience: wire.patience_us.map(Span),
        accept_best_effort: wire.accept_best_effort,
        tenant: wire.tenant.into(),
        priority: wire.priority,
        unix,
    })
}

fn candidate(wire: v1::Candidate, prompt: TokenCount, now: Micros) -> Result<Candidate, Invalid> {
    let cached = TokenCount(wire.cached_tokens);
    if cached > prompt {
        let reason = format!("{} is more than the prompt's {}", cached.0, prompt.0);
        return Err(Invalid::new("cached_tokens", reason));
    }
    let source = match (wire.engine_instance.as_str(), wire.snapshot) {
        ("", None) => {
            return Err(Invalid::new(
                "engine_instance",
                "names no engine, and no snapshot is passed",
            ));
        }
        ("", Some(passed)) => {
            let passed = snapshot(passed, now).map_err(|error| error.within("snapshot"))?;
            Source::Passed(Box::new(passed))
        }
        (_, Some(_)) => {
            return Err(Invalid::new("snapshot", "is passed, and a watched engine is named too"));
        }
        (instance, None) => {
            at_most("engine_instance", instance.len(), NAME_BYTES_MAX, "bytes")?;
            Source::Watched(instance.into())
        }
    };
    let answers = wire.answers.unwrap_or_default().buckets;
    at_most("answers.buckets", answers.len(), ANSWER_BUCKETS_MAX, "of them")?;
    let bucket = |it: v1::AnswerBucket| AnswerBucket {
        least: it.least,
        ended: it.ended,
        censored: it.censored,
    };
    Ok(Candidate { source, cached, answers: answers.into_iter().map(bucket).collect() })
}

/// How a request ended that no watched engine served.
///
/// # Errors
/// A field that does not do.
pub(crate) fn observation(wire: &v1::ObserveRequest) -> Result<(Attempt, Observation), Invalid> {
    let attempt = Attempt { id: id(&wire.request_id)?, number: wire.attempt };
    let observation = Observation {
        how: if wire.completed { How::Completed } else { How::Failed },
        ttft: wire.ttft_us.map(Span),
        e2e: Span(wire.e2e_us),
        completion: TokenCount(wire.completion_tokens),
    };
    Ok((attempt, observation))
}

/// The state of an engine, its times moved to our clock.
///
/// # Errors
/// A field that does not do.
pub(crate) fn snapshot(wire: v1::EngineSnapshot, now: Micros) -> Result<Snapshot, Invalid> {
    at_most("engine_instance", wire.engine_instance.len(), NAME_BYTES_MAX, "bytes")?;
    at_most("planner_version", wire.planner_version.len(), NAME_BYTES_MAX, "bytes")?;
    at_most("sequences", wire.sequences.len(), SEQUENCES_MAX, "of them")?;
    let wire_limits = wire.limits.ok_or_else(|| Invalid::new("limits", "are missing"))?;
    let block_tokens = wire_limits.kv_block_tokens;
    let limits = limits(&wire_limits).map_err(|error| error.within("limits"))?;
    let taken_at = now - Span(wire.age_us);
    let sequences = wire.sequences.iter().enumerate().map(|(index, it)| {
        sequence(it, taken_at, block_tokens)
            .map_err(|error| error.within(&format!("sequences[{index}]")))
    });
    Ok(Snapshot {
        sequences: sequences.collect::<Result<_, _>>()?,
        instance: wire.engine_instance.into(),
        taken_at,
        step: wire.step,
        record: wire.record,
        planner: wire.planner_version.into(),
        limits,
        rules: wire.scheduling.as_ref().and_then(rules),
        cost: cost(&wire.cost.unwrap_or_default()),
        kv: usage(&wire.kv.unwrap_or_default(), block_tokens),
        draining: wire.draining,
    })
}

/// The rules that an engine plans by. `None` if it names one that is not known here: such an engine cannot
/// be foreseen, but it can be used.
fn rules(wire: &v1::Scheduling) -> Option<Rules> {
    Some(Rules {
        discipline: match wire.discipline.as_str() {
            "fifo" => Discipline::Fifo,
            "static" => Discipline::Static {
                batch: wire.static_batch.max(1),
                wait: Span(wire.static_wait_us),
            },
            "continuous" => Discipline::Continuous,
            _ => return None,
        },
        order: match wire.order.as_str() {
            "decode-first" => Order::DecodeFirst,
            "prefill-first" => Order::PrefillFirst,
            _ => return None,
        },
        reservation: match wire.reservation.as_str() {
            "full" => Reservation::Full,
            "grow" => Reservation::Grow,
            _ => return None,
        },
        output_cap: wire.output_cap,
        lateness: match wire.lateness.as_str() {
            "finish" => Lateness::Finish,
            "abort-best-effort" => Lateness::AbortBestEffort,
            "abort-all" => Lateness::AbortAll,
            _ => return None,
        },
        itl: wire.itl_us.map(Span),
    })
}

fn limits(wire: &v1::EngineLimits) -> Result<EngineLimits, Invalid> {
    at_least_1("slots", wire.slots)?;
    at_least_1("context_tokens", wire.context_tokens)?;
    at_least_1("kv_blocks", wire.kv_blocks)?;
    at_least_1("kv_block_tokens", wire.kv_block_tokens)?;
    Ok(EngineLimits {
        slots: wire.slots,
        context: TokenCount(wire.context_tokens),
        batch: TokenCount(wire.batch_tokens),
        prefill: TokenCount(wire.prefill_tokens),
        step: Span(wire.step_us),
        waiting: wire.waiting,
        kv: blocks(wire.kv_blocks, wire.kv_block_tokens),
    })
}

/// Other engines have blocks of another size; here they are counted in ours, rounded down.
fn blocks(count: u32, block_tokens: u32) -> BlockCount {
    let tokens = u64::from(count) * u64::from(block_tokens);
    BlockCount(u32::try_from(tokens / u64::from(BLOCK_TOKENS)).unwrap_or(u32::MAX))
}

fn usage(wire: &v1::KvUsage, block_tokens: u32) -> KvUsage {
    KvUsage {
        held: blocks(wire.held, block_tokens),
        reclaimable: blocks(wire.reclaimable, block_tokens),
        free: blocks(wire.free, block_tokens),
    }
}

fn cost(wire: &v1::StepCost) -> StepCost {
    StepCost {
        base: wire.base_us,
        per_decode: wire.per_decode_us,
        per_prefill_token: wire.per_prefill_token_us,
        per_cell: wire.per_cell_us,
        gain: wire.gain,
        per_tiled_cell: wire.per_tiled_cell_us,
        prompt: wire.prompt_us,
        bend: Bend::new(&wire.bend_us),
    }
}

fn sequence(
    wire: &v1::SequenceState,
    taken_at: Micros,
    block_tokens: u32,
) -> Result<Sequence, Invalid> {
    let phase = match v1::Phase::try_from(wire.phase) {
        Ok(v1::Phase::Waiting) => Phase::Waiting,
        Ok(v1::Phase::Prefill) => Phase::Prefill,
        Ok(v1::Phase::Decode) => Phase::Decode,
        Ok(v1::Phase::Unspecified) | Err(_) => return Err(unknown("phase", wire.phase)),
    };
    Ok(Sequence {
        id: id(&wire.request_id)?,
        phase,
        tier: tier(wire.tier)?,
        leased: wire.leased,
        prompt: TokenCount(wire.prompt_tokens),
        computed: TokenCount(wire.computed_tokens),
        generated: TokenCount(wire.generated_tokens),
        max_tokens: TokenCount(wire.max_tokens),
        deadline: wire.deadline_us.map(|left| moved(taken_at, left)),
        submitted_at: taken_at - Span(wire.age_us),
        blocks: blocks(wire.kv_blocks, block_tokens),
        rests_until: wire.eligible_us.map(|rest| taken_at + Span(rest)),
    })
}

fn moved(from: Micros, by_us: i64) -> Micros {
    let by = Span(by_us.unsigned_abs());
    if by_us < 0 { from - by } else { from + by }
}

/// One record of an engine.
///
/// # Errors
/// A field that does not do.
pub(crate) fn record(wire: v1::Record) -> Result<Record, Invalid> {
    use v1::record::Event as Wire;
    let event = match wire.event {
        Some(Wire::Step(it)) => Event::Step(Step {
            took: Span(it.took_us),
            decodes: TokenCount(it.decodes),
            prefill: TokenCount(it.prefill_tokens),
            cells: it.attended_cells,
            prefill_cells: it.prefill_cells,
        }),
        Some(Wire::Lifecycle(it)) => lifecycle(it).map_err(|error| error.within("lifecycle"))?,
        None => return Err(Invalid::new("event", "is missing or of an unknown kind")),
    };
    Ok(Record { number: wire.number, event })
}

fn lifecycle(wire: v1::Lifecycle) -> Result<Event, Invalid> {
    use v1::lifecycle::Event as Wire;
    let id = id(&wire.request_id)?;
    match wire.event {
        Some(Wire::Submitted(it)) => Ok(Event::Submitted(
            id,
            Submitted {
                prompt: TokenCount(it.prompt_tokens),
                max_tokens: TokenCount(it.max_tokens),
                tier: tier(it.tier)?,
                blocks: BlockCount(it.kv_blocks),
            },
        )),
        Some(Wire::Started(it)) => Ok(Event::Started(id, TokenCount(it.cached_tokens))),
        Some(Wire::FirstToken(_)) => Ok(Event::FirstToken(id)),
        Some(Wire::Finished(it)) => Ok(Event::Finished(id, ended(&it)?)),
        None => Err(Invalid::new("event", "is missing or of an unknown kind")),
    }
}

fn ended(wire: &v1::Finished) -> Result<Ended, Invalid> {
    use v1::FinishReason as Why;
    let how = match Why::try_from(wire.reason) {
        Ok(Why::Stop | Why::Length) => How::Completed,
        Ok(Why::Cancelled) => How::Cancelled,
        Ok(Why::Deadline | Why::Evicted | Why::Shutdown | Why::Failed) => How::Failed,
        Ok(Why::Unspecified) | Err(_) => return Err(unknown("finished.reason", wire.reason)),
    };
    let timings = wire.timings.unwrap_or_default();
    Ok(Ended {
        how,
        completion: TokenCount(wire.usage.map_or(0, |usage| usage.completion_tokens)),
        ttft: timings.first_token_us.map(Span),
        e2e: Span(timings.finished_us),
    })
}

fn tier(wire: i32) -> Result<Tier, Invalid> {
    match v1::Tier::try_from(wire) {
        Ok(v1::Tier::Promised) => Ok(Tier::Promised),
        Ok(v1::Tier::BestEffort) => Ok(Tier::BestEffort),
        Ok(v1::Tier::Unspecified) | Err(_) => Err(unknown("tier", wire)),
    }
}

fn id(text: &str) -> Result<RequestId, Invalid> {
    text.parse()
        .map_err(|error: units::ParseRequestIdError| Invalid::new("request_id", error.to_string()))
}

fn budget(wire: v1::Budget) -> Budget {
    Budget { e2e: wire.e2e_us.map(Span), ttft: wire.ttft_us.map(Span) }
}

fn at_least_1(field: &str, value: u32) -> Result<(), Invalid> {
    if value == 0 { Err(Invalid::new(field, "must be at least 1")) } else { Ok(()) }
}

fn at_most(field: &str, value: usize, most: usize, what: &str) -> Result<(), Invalid> {
    if value <= most {
        return Ok(());
    }
    Err(Invalid::new(field, format!("{value} {what} are more than {most}")))
}

fn unknown(field: &str, value: i32) -> Invalid {
    Invalid::new(field, format!("{value} is not known"))
}

/// Name of the engine process that granted an epoch.
///
/// # Errors
/// It is empty or too long.
pub(crate) fn instance(wire: &str) -> Result<Arc<str>, Invalid> {
    at_most("engine_instance", wire.len(), NAME_BYTES_MAX, "bytes")?;
    if wire.is_empty() {
        return Err(Invalid::new("engine_instance", "is empty"));
    }
    Ok(wire.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> v1::DecideRequest {
        v1::DecideRequest {
            request_id: "00000000000000000000000000000001".into(),
            candidates: vec![v1::Candidate { engine_instance: "e".into(), ..Default::default() }],
            prompt_tokens: 10,
            max_tokens: 5,
            ..Default::default()
        }
    }

    fn passed() -> v1::EngineSnapshot {
        let limits = v1::EngineLimits {
            slots: 1,
            context_tokens: 100,
            kv_blocks: 10,
            kv_block_tokens: 16,
            ..Default::default()
        };
        v1::EngineSnapshot { limits: Some(limits), ..Default::default() }
    }

    fn sequence_of(change: impl FnOnce(&mut v1::SequenceState)) -> v1::EngineSnapshot {
        let mut sequence = v1::SequenceState {
            request_id: good().request_id,
            phase: v1::Phase::Decode.into(),
            tier: v1::Tier::BestEffort.into(),
            ..Default::default()
        };
        change(&mut sequence);
        v1::EngineSnapshot { sequences: vec![sequence], ..passed() }
    }

    fn says(change: impl FnOnce(&mut v1::DecideRequest), wanted: &str) {
        let mut request = good();
        change(&mut request);
        let error = offer(request, Micros(0), Micros(0)).expect_err("a mistake").to_string();
        assert!(error.starts_with(wanted), "{error:?} does not say {wanted:?}");
    }

    #[test]
    fn every_bad_field_is_named() {
        assert!(offer(good(), Micros(0), Micros(0)).is_ok());
        says(|it| it.request_id = "x".into(), "request_id: ");
        says(|it| it.candidates.clear(), "candidates: 0 are not between 1 and 64");
        says(|it| it.candidates = vec![it.candidates[0].clone(); 65], "candidates: 65 are not");
        says(|it| it.prompt_tokens = 0, "prompt_tokens: must be at least 1");
        says(|it| it.max_tokens = 0, "max_tokens: must be at least 1");
        says(|it| it.tenant = "t".repeat(129), "tenant: 129 bytes are more than 128");
        says(|it| it.candidates[0].cached_tokens = 11, "candidates[0].cached_tokens: 11 is more");
        says(|it| it.candidates[0].engine_instance.clear(), "candidates[0].engine_instance: ");
        says(|it| it.candidates[0].snapshot = Some(passed()), "candidates[0].snapshot: ");
    }

    #[test]
    fn every_bad_field_of_a_passed_snapshot_is_named() {
        let says = |state: v1::EngineSnapshot, wanted: &str| {
            says(
                |it| {
                    let snapshot = Some(state);
                    it.candidates = vec![v1::Candidate { snapshot, ..Default::default() }];
                },
                &format!("candidates[0].snapshot.{wanted}"),
            );
        };
        let without = |change: fn(&mut v1::EngineLimits)| {
            let mut state = passed();
            change(state.limits.as_mut().expect("set"));
            state
        };
        says(v1::EngineSnapshot { limits: None, ..passed() }, "limits: are missing");
        says(without(|it| it.slots = 0), "limits.slots: must be");
        says(without(|it| it.context_tokens = 0), "limits.context_tokens: must be");
        says(without(|it| it.kv_blocks = 0), "limits.kv_blocks: must be");
        says(without(|it| it.kv_block_tokens = 0), "limits.kv_block_tokens: must be");
        says(sequence_of(|it| it.phase = 9), "sequences[0].phase: 9 is not known");
        says(sequence_of(|it| it.tier = 0), "sequences[0].tier: 0 is not known");
        says(sequence_of(|it| it.request_id.clear()), "sequences[0].request_id: ");
        let many = vec![v1::SequenceState::default(); SEQUENCES_MAX + 1];
        says(v1::EngineSnapshot { sequences: many, ..passed() }, "sequences: 16385 of them");
    }

    #[test]
    fn huge_times_and_counts_do_no_harm() {
        let state = sequence_of(|it| {
            it.deadline_us = Some(i64::MIN);
            it.age_us = u64::MAX;
            it.kv_blocks = u32::MAX;
            it.prompt_tokens = u32::MAX;
            it.max_tokens = u32::MAX;
        });
        let huge = v1::EngineSnapshot { age_us: u64::MAX, ..state };
        let read = snapshot(huge, Micros(7)).expect("odd, not wrong");
        assert_eq!((read.taken_at, read.sequences[0].deadline), (Micros(0), Some(Micros(0))));
    }

    #[test]
    fn blocks_of_another_size_are_counted_in_ours() {
        let mut state = passed();
        state.limits = state.limits.map(|it| v1::EngineLimits { kv_block_tokens: 40, ..it });
        state.kv = Some(v1::KvUsage { free: 3, ..Default::default() });
        let read = snapshot(state, Micros(0)).expect("good");
        assert_eq!((read.limits.kv, read.kv.free), (BlockCount(25), BlockCount(7)));
    }

    #[test]
    fn rules_that_are_not_known_are_none() {
        let known = v1::Scheduling {
            discipline: "continuous".into(),
            order: "decode-first".into(),
            reservation: "full".into(),
            lateness: "abort-all".into(),
            itl_us: Some(200_000),
            ..Default::default()
        };
        let read = |scheduling: &v1::Scheduling| {
            let state = v1::EngineSnapshot { scheduling: Some(scheduling.clone()), ..passed() };
            snapshot(state, Micros(0)).expect("good").rules
        };
        let rules = read(&known).expect("known");
        assert_eq!(rules.lateness, Lateness::AbortAll);
        assert_eq!(rules.itl, Some(Span::from_millis(200)));
        let odd = "odd".to_owned();
        for unknown in [
            v1::Scheduling { discipline: odd.clone(), ..known.clone() },
            v1::Scheduling { order: odd.clone(), ..known.clone() },
            v1::Scheduling { reservation: odd.clone(), ..known.clone() },
            v1::Scheduling { lateness: odd, ..known.clone() },
            v1::Scheduling::default(),
        ] {
            assert_eq!(read(&unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn garbled_records_are_errors() {
        let id = good().request_id;
        let of = |event| v1::Record {
            number: 1,
            at_us: 0,
            event: Some(v1::record::Event::Lifecycle(v1::Lifecycle {
                request_id: id.clone(),
                event,
            })),
        };
        let finished = v1::lifecycle::Event::Finished(v1::Finished::default());
        let submitted = v1::lifecycle::Event::Submitted(v1::Submitted::default());
        for (garbled, named) in [
            (v1::Record::default(), "event: "),
            (of(None), "lifecycle.event: "),
            (of(Some(finished)), "lifecycle.finished.reason: 0 is not known"),
            (of(Some(submitted)), "lifecycle.tier: 0 is not known"),
        ] {
            let error = record(garbled).expect_err("garbled").to_string();
            assert!(error.starts_with(named), "{error}");
        }
    }
}
