//! A `Generate` request, checked and bounded.

use std::sync::Arc;

use proto::v1;
use sample::{Bias, Sampling, TOP_LOGPROBS_MAX};
use sched::{Submission, Tier};
use text::Vocabulary;
use tonic::Status;
use units::{Micros, RequestId, Span, Token};

/// Stop sequences of one request.
const STOPS_MAX: usize = 32;
/// Bytes of one stop sequence.
const STOP_BYTES_MAX: usize = 512;
/// Token ids of one prompt, whatever the context.
const TOKENS_MAX: usize = 1 << 22;
/// Displaced requests of one promise.
const EVICT_MAX: usize = 64;

/// A bad field, named for people and, in the metadata `param`, for machines.
pub(crate) fn invalid(param: &'static str, message: impl std::fmt::Display) -> Status {
    let mut status = Status::invalid_argument(format!("{param}: {message}"));
    status.metadata_mut().insert("param", tonic::metadata::MetadataValue::from_static(param));
    status
}

pub(crate) fn request_id(text: &str) -> Result<RequestId, Status> {
    text.parse().map_err(|error| invalid("request_id", error))
}

/// Token ids from outside, checked against the vocabulary.
pub(crate) fn token_ids(ids: &[u32], vocabulary: usize) -> Result<Arc<[Token]>, Status> {
    if ids.len() > TOKENS_MAX {
        return Err(invalid("token_ids", format!("{} ids, at most {TOKENS_MAX}", ids.len())));
    }
    match ids.iter().find(|id| **id as usize >= vocabulary) {
        Some(id) => {
            Err(invalid("token_ids", format!("{id} is not in the vocabulary of {vocabulary}")))
        }
        None => Ok(ids.iter().map(|id| Token(*id)).collect()),
    }
}

/// What is known when a request is submitted.
pub(crate) struct Desk<'a> {
    pub(crate) now: Micros,
    pub(crate) context_tokens: u32,
    pub(crate) vocabulary: &'a Vocabulary,
    /// Drawn for a request that names no seed.
    pub(crate) seed: u64,
    /// Whether an epoch is the one in office.
    pub(crate) honours: &'a dyn Fn(u64) -> bool,
}

impl Desk<'_> {
    /// Turns a request and its prompt into a submission: the cap is lowered to the room left, and a
    /// request whose epoch is not in office runs as best effort without a lease.
    pub(crate) fn submission(
        &self,
        request: &v1::GenerateRequest,
        prompt: Arc<[Token]>,
    ) -> Result<Submission, Status> {
        let admitted = request.admitted_as.unwrap_or_default();
        let leased = (self.honours)(admitted.epoch);
        let promised = leased && admitted.tier() == v1::Tier::Promised;
        let budget = request.budget.unwrap_or_default();
        Ok(Submission {
            id: request_id(&request.request_id)?,
            submitted_at: self.now,
            max_tokens: self.max_tokens(request.max_tokens, &prompt)?,
            prompt,
            sampling: self.sampling(request.sampling.as_ref().unwrap_or(&greedy()))?,
            top_logprobs: top_logprobs(request.top_logprobs)?,
            tier: if promised { Tier::Promised } else { Tier::BestEffort },
            epoch: leased.then_some(admitted.epoch),
            deadline: budget.e2e_us.map(|budget| self.now + Span(budget)),
            first_token: budget.ttft_us.map(Span),
            evict: if promised { evict(&request.evict)? } else { Vec::new() },
        })
    }

    fn max_tokens(&self, cap: u32, prompt: &[Token]) -> Result<u32, Status> {
        if prompt.is_empty() {
            return Err(invalid("prompt", "it has no tokens"));
        }
        if cap == 0 {
            return Err(invalid("max_tokens", "must be at least 1"));
        }
        let context = self.context_tokens;
        let room = (context as usize).saturating_sub(prompt.len());
        match u32::try_from(room) {
            Ok(room @ 1..) => Ok(cap.min(room)),
            _ => {
                let tokens = prompt.len();
                Err(invalid(
                    "prompt",
                    format!("{tokens} tokens leave no room in a context of {context}"),
                ))
            }
        }
    }

    fn sampling(&self, sampling: &v1::Sampling) -> Result<Sampling, Status> {
        let bias = |it: &v1::LogitBias| Bias { token: Token(it.token), bias: it.bias };
        let ignore_eos = sampling.ignore_eos;
        let mut sampling = Sampling {
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            seed: sampling.seed.unwrap_or(self.seed),
            presence_penalty: sampling.presence_penalty,
            frequency_penalty: sampling.frequency_penalty,
            repeat_penalty: sampling.repeat_penalty.unwrap_or(1.0),
            logit_bias: sampling.logit_bias.iter().map(bias).collect(),
        };
        sampling.validate(self.vocabulary.len()).map_err(|error| invalid(error.field(), error))?;
        if ignore_eos {
            sampling.forbid(self.vocabulary.ends());
        }
        Ok(sampling)
    }
}

/// What a request without parameters gets.
fn greedy() -> v1::Sampling {
    v1::Sampling { top_p: 1.0, ..v1::Sampling::default() }
}

fn top_logprobs(asked: Option<u32>) -> Result<Option<u32>, Status> {
    match asked {
        Some(count) if count > TOP_LOGPROBS_MAX => {
            Err(invalid("top_logprobs", format!("{count}, at most {TOP_LOGPROBS_MAX}")))
        }
        allowed => Ok(allowed),
    }
}

/// Stop sequences from outside.
pub(crate) fn stops(stops: &[String]) -> Result<Vec<String>, Status> {
    if stops.len() > STOPS_MAX {
        return Err(invalid("stop", format!("{} sequences, at most {STOPS_MAX}", stops.len())));
    }
    let fits = |stop: &&String| !stop.is_empty() && stop.len() <= STOP_BYTES_MAX;
    match stops.iter().find(|stop| !fits(stop)) {
        Some(stop) => Err(invalid(
            "stop",
            format!("a sequence of {} bytes, 1 to {STOP_BYTES_MAX}", stop.len()),
        )),
        None => Ok(stops.to_vec()),
    }
}

fn evict(ids: &[String]) -> Result<Vec<RequestId>, Status> {
    if ids.len() > EVICT_MAX {
        return Err(invalid("evict", format!("{} requests, at most {EVICT_MAX}", ids.len())));
    }
    ids.iter().map(|id| id.parse().map_err(|error| invalid("evict", error))).collect()
}

#[cfg(test)]
mod tests {
    use text::Kind;

    use super::*;

    fn submit(
        change: impl FnOnce(&mut v1::GenerateRequest),
        prompt: u32,
    ) -> Result<Submission, String> {
        let mut request = v1::GenerateRequest {
            request_id: RequestId(7).to_string(),
            max_tokens: 50,
            admitted_as: Some(v1::AdmittedAs { tier: v1::Tier::Promised.into(), epoch: 3 }),
            evict: vec![RequestId(8).to_string()],
            ..Default::default()
        };
        change(&mut request);
        let mut vocabulary = Vocabulary::builder();
        (0..50).for_each(|id| {
            vocabulary.push("x", if id < 48 { Kind::Text } else { Kind::End });
        });
        let desk = Desk {
            now: Micros(10),
            context_tokens: 100,
            vocabulary: &vocabulary.build(),
            seed: 9,
            honours: &|epoch| epoch == 3,
        };
        let prompt = (0..prompt).map(Token).collect();
        desk.submission(&request, prompt).map_err(|status| status.message().to_owned())
    }

    #[test]
    fn the_cap_is_lowered_to_the_room_left() {
        let cap = |prompt| submit(|_| {}, prompt).map(|it| it.max_tokens);
        assert_eq!((cap(10), cap(60), cap(99)), (Ok(50), Ok(40), Ok(1)));
        assert_eq!(cap(100), Err("prompt: 100 tokens leave no room in a context of 100".into()));
        assert_eq!(cap(0), Err("prompt: it has no tokens".into()));
    }

    #[test]
    fn an_old_epoch_is_best_effort_and_displaces_nobody() {
        let told = |epoch| {
            let submission = submit(|it| it.admitted_as.as_mut().expect("set").epoch = epoch, 1);
            submission.map(|it| (it.tier, it.epoch, it.evict.len()))
        };
        assert_eq!(told(3), Ok((Tier::Promised, Some(3), 1)));
        assert_eq!(told(2), Ok((Tier::BestEffort, None, 0)));
        let nobody = submit(|it| it.admitted_as = None, 1).map(|it| it.epoch);
        assert_eq!(nobody, Ok(None));
    }

    #[test]
    fn huge_budgets_do_not_overflow() {
        let huge = v1::Budget { e2e_us: Some(u64::MAX), ttft_us: None };
        let deadline = submit(|it| it.budget = Some(huge), 1).map(|it| it.deadline);
        assert_eq!(deadline, Ok(Some(Micros(u64::MAX))));
    }

    fn biased(request: &mut v1::GenerateRequest, entries: &[(u32, f32)]) {
        let entry = |&(token, bias): &(u32, f32)| v1::LogitBias { token, bias };
        let logit_bias = entries.iter().map(entry).collect();
        request.sampling = Some(v1::Sampling { logit_bias, ..greedy() });
    }

    #[test]
    fn what_is_absent_is_off() {
        let plain = submit(|it| it.sampling = Some(greedy()), 1).expect("it is fine");
        assert_eq!(
            (plain.sampling, plain.top_logprobs),
            (Sampling { seed: 9, ..Sampling::GREEDY }, None)
        );
        let told = submit(|it| (it.top_logprobs, it.sampling) = (Some(0), None), 1);
        assert_eq!(told.map(|it| it.top_logprobs), Ok(Some(0)));
    }

    #[test]
    fn an_answer_that_goes_on_cannot_end() {
        let told = submit(
            |it| {
                biased(it, &[(48, 100.0), (3, 1.0)]);
                it.sampling.as_mut().expect("set").ignore_eos = true;
            },
            1,
        );
        let entry = |token, bias| Bias { token: Token(token), bias };
        let wanted = vec![entry(3, 1.0), entry(48, -100.0), entry(49, -100.0)];
        assert_eq!(told.map(|it| it.sampling.logit_bias), Ok(wanted));
    }

    #[test]
    fn bad_fields_are_named() {
        let told = |change: fn(&mut v1::GenerateRequest)| submit(change, 1).map(|_| ());
        let starts = |result: Result<(), String>, with: &str| {
            let message = result.expect_err("bad");
            assert!(message.starts_with(with), "{message}");
        };
        starts(told(|it| it.request_id = "x".into()), "request_id: ");
        starts(told(|it| it.max_tokens = 0), "max_tokens: ");
        starts(told(|it| it.evict = vec!["x".into()]), "evict: ");
        starts(told(|it| it.evict = vec![RequestId(1).to_string(); 65]), "evict: ");
        let hot = |it: &mut v1::GenerateRequest| {
            it.sampling = Some(v1::Sampling { temperature: f32::NAN, ..greedy() });
        };
        starts(told(hot), "temperature: ");
        starts(told(|it| it.top_logprobs = Some(21)), "top_logprobs: ");
        starts(told(|it| biased(it, &[(50, 1.0)])), "logit_bias: ");
        starts(told(|it| biased(it, &[(1, f32::NAN)])), "logit_bias: ");
        starts(told(|it| biased(it, &[(1, 1.0), (1, 1.0)])), "logit_bias: ");
        starts(told(|it| biased(it, &vec![(1, 1.0); 1 << 20])), "logit_bias: ");
        assert!(token_ids(&[1, 5], 5).is_err());
        for bad in [vec![String::new()], vec!["x".repeat(5_000)], vec!["x".into(); 33]] {
            assert!(stops(&bad).is_err());
        }
    }
}
