//! The accepted choices of one request, heard as one.
//!
//! Whoever has something to say is heard, in turn, so that none starves the others. The first that fails
//! fails all. Dropping a [`Batch`] cancels its choices upstream, because it drops the gRPC calls.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::Stream as _;
use proto::v1::{
    Accepted, Admitted, Delta, FinishReason, Finished, GenerateEvent, Tier, Usage,
    generate_event::Event as Wire,
};
use tonic::{Status, Streaming};
use tracing::error;
use units::{Micros, Span};

use crate::{
    error::ApiError,
    fallback::Permit,
    openai::{self, finish_reason},
    upstream::failure,
};

/// Confidences that differ by no more are the same, added up in another order.
const CONFIDENCE_NOISE: f64 = 1e-9;

/// What a response says about its timing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Promise {
    pub(crate) tier: Tier,
    /// From the moment on at which it was made.
    pub(crate) bound: Option<Span>,
    pub(crate) confidence: Option<f64>,
    made_at: Micros,
}

impl Promise {
    /// What the engine made of the verdict: a downgrade is never hidden.
    pub(crate) fn new(accepted: &Accepted, admitted: Option<&Admitted>, now: Micros) -> Self {
        let admitted = admitted.filter(|_| accepted.tier() == Tier::Promised);
        Self {
            tier: accepted.tier(),
            bound: admitted.and_then(|admitted| admitted.bound_us).map(Span),
            confidence: admitted.and_then(|admitted| admitted.confidence),
            made_at: now,
        }
    }

    /// What holds for two answers together. Nothing is known of how the two depend on each other, so
    /// the chances that either is late add up.
    fn and(self, other: Self) -> Self {
        if self.tier != Tier::Promised {
            return self;
        }
        if other.tier != Tier::Promised {
            return other;
        }
        let both = |one: Option<f64>, other: Option<f64>| Some((one? + other? - 1.0).max(0.0));
        Self {
            tier: Tier::Promised,
            bound: self.bound.zip(other.bound).map(|(one, other)| one.max(other)),
            confidence: both(self.confidence, other.confidence),
            made_at: self.made_at.max(other.made_at),
        }
    }

    /// Whether who keeps this promise keeps `earlier` as well.
    pub(crate) fn keeps(&self, earlier: &Self) -> bool {
        if earlier.tier != Tier::Promised {
            return true;
        }
        let due = |it: &Self| it.bound.map(|bound| it.made_at + bound);
        let as_soon = due(earlier).is_none_or(|before| due(self).is_some_and(|now| now <= before));
        let as_sure = earlier.confidence.is_none_or(|before| {
            self.confidence.is_some_and(|now| now + CONFIDENCE_NOISE >= before)
        });
        self.tier == Tier::Promised && as_soon && as_sure
    }
}

/// A choice that the engine has accepted.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) promise: Promise,
    pub(crate) events: Streaming<GenerateEvent>,
}

/// What a choice says.
#[derive(Debug)]
pub(crate) enum Heard {
    Delta(Delta),
    /// The end, and no failure.
    Finished {
        /// `stop` or `length`.
        reason: &'static str,
        /// Of the whole request, with the last choice.
        usage: Option<openai::Usage>,
    },
}

/// The choices of a request.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) promise: Promise,
    /// Those that have finished are gone.
    running: Vec<Option<Streaming<GenerateEvent>>>,
    usages: Vec<Usage>,
    copies: usize,
    /// Who is asked first next time.
    turn: usize,
    /// Places under the local cap, for those that nobody else admitted.
    permit: Option<Permit>,
}

impl Batch {
    /// The choices, `copies` for each prompt; at least one.
    pub(crate) fn new(choices: Vec<Choice>, copies: usize, permit: Option<Permit>) -> Self {
        let promises = choices.iter().map(|choice| choice.promise);
        let promise = promises.reduce(Promise::and).expect("a request has a choice");
        let usages = vec![Usage::default(); choices.len()];
        let running = choices.into_iter().map(|choice| Some(choice.events)).collect();
        Self { promise, running, usages, copies, turn: 0, permit }
    }

    /// How many choices there are.
    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    /// Gives everything up, and its places back.
    pub(crate) fn cancel(&mut self) {
        self.running.fill_with(|| None);
        self.permit = None;
    }

    /// What is said next, and by which choice. Nothing may be asked after the last end or an error. May
    /// be dropped and called again without loss.
    ///
    /// # Errors
    /// The answer is not complete and will not be.
    pub(crate) async fn next(&mut self) -> Result<(usize, Heard), ApiError> {
        let (choice, event) = poll_fn(|context| self.poll_event(context)).await;
        let event = event.transpose().map_err(|status| broken(&status))?;
        match event.and_then(|event| event.event) {
            Some(Wire::Delta(delta)) => Ok((choice, Heard::Delta(delta))),
            Some(Wire::Finished(finished)) => Ok((choice, self.finish(choice, &finished)?)),
            Some(Wire::Accepted(_)) => {
                error!("the engine accepted twice");
                Err(ApiError::Internal)
            }
            None => Err(ApiError::Cut),
        }
    }

    fn poll_event(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<(usize, Option<Result<GenerateEvent, Status>>)> {
        let count = self.running.len();
        for choice in (self.turn..count).chain(0..self.turn) {
            let Some(events) = &mut self.running[choice] else { continue };
            if let Poll::Ready(event) = Pin::new(events).poll_next(context) {
                self.turn = (choice + 1) % count;
                return Poll::Ready((choice, event));
            }
        }
        Poll::Pending
    }

    fn finish(&mut self, choice: usize, finished: &Finished) -> Result<Heard, ApiError> {
        let Some(reason) = finish_reason(finished.reason()) else {
            return Err(unfinished(finished));
        };
        let Some(usage) = finished.usage else {
            error!("the engine finished without a usage");
            return Err(ApiError::Internal);
        };
        self.usages[choice] = usage;
        self.running[choice] = None;
        let last = self.running.iter().all(Option::is_none);
        let usage = last.then(|| openai::Usage::sum(&self.usages, self.copies));
        Ok(Heard::Finished { reason, usage })
    }
}

/// What a stream that breaks means: the work is lost, whatever the code says.
fn broken(status: &Status) -> ApiError {
    let error = failure(status);
    if matches!(error, ApiError::EngineDown { .. }) { ApiError::Cut } else { error }
}

/// The failure behind an end that is not the answer's own.
pub(crate) fn unfinished(finished: &Finished) -> ApiError {
    match finished.reason() {
        FinishReason::Cancelled => ApiError::Cancelled,
        FinishReason::Deadline => ApiError::Deadline,
        FinishReason::Evicted => ApiError::Evicted,
        FinishReason::Shutdown => ApiError::EngineDown { reason: "it is shutting down".into() },
        FinishReason::Failed => ApiError::EngineFailed { message: finished.message.clone() },
        FinishReason::Unspecified | FinishReason::Stop | FinishReason::Length => {
            error!(reason = ?finished.reason(), "the engine ended a request in an odd way");
            ApiError::Internal
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(tier: Tier, bound: Option<u64>, made_at: u64) -> Promise {
        Promise { tier, bound: bound.map(Span), confidence: None, made_at: Micros(made_at) }
    }

    /// A promise that is kept with this probability.
    fn sure(confidence: f64) -> Promise {
        Promise { confidence: Some(confidence), ..promise(Tier::Promised, Some(2), 0) }
    }

    #[test]
    fn together_the_weakest_promise_holds() {
        let (short, long) =
            (promise(Tier::Promised, Some(2), 0), promise(Tier::Promised, Some(4), 0));
        assert_eq!(short.and(long), long);
        assert_eq!(long.and(short), long);
        let none = promise(Tier::BestEffort, None, 0);
        assert_eq!((short.and(none), none.and(short)), (none, none));
    }

    #[test]
    fn that_none_of_several_is_late_is_less_sure_than_that_one_is_not() {
        let joint = |each: &[f64]| {
            each.iter().map(|it| sure(*it)).reduce(Promise::and).and_then(|it| it.confidence)
        };
        let near = |one: Option<f64>, other: f64| one.is_some_and(|it| (it - other).abs() < 1e-12);
        assert!(near(joint(&[0.9, 0.95]), 0.85));
        assert!(near(joint(&[0.9; 8]), 0.2));
        assert_eq!((joint(&[0.5; 3]), joint(&[0.3, 0.3, 1.0])), (Some(0.0), Some(0.0)));
        assert_eq!(sure(0.9).and(promise(Tier::Promised, Some(2), 0)).confidence, None);
    }

    #[test]
    fn a_later_promise_has_to_be_as_sure() {
        assert!(sure(0.9).keeps(&sure(0.9)) && sure(0.95).keeps(&sure(0.9)));
        assert!(!sure(0.8).keeps(&sure(0.9)));
        let (unsaid, many) = (promise(Tier::Promised, Some(2), 0), [0.97, 0.9, 0.99, 0.98]);
        assert!(!unsaid.keeps(&sure(0.9)) && sure(0.1).keeps(&unsaid));
        let forth = many.map(sure).into_iter().reduce(Promise::and).expect("some");
        let back = many.map(sure).into_iter().rev().reduce(Promise::and).expect("some");
        assert!(forth.keeps(&back) && back.keeps(&forth));
    }

    #[test]
    fn a_later_promise_has_to_end_no_later() {
        let first = promise(Tier::Promised, Some(10), 0);
        assert!(promise(Tier::Promised, Some(6), 4).keeps(&first));
        assert!(!promise(Tier::Promised, Some(7), 4).keeps(&first));
        assert!(!promise(Tier::Promised, None, 4).keeps(&first));
        assert!(!promise(Tier::BestEffort, None, 4).keeps(&first));
        assert!(promise(Tier::BestEffort, None, 4).keeps(&promise(Tier::BestEffort, None, 0)));
    }
}
