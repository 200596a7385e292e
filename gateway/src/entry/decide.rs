//! Verdicts, one for each choice, before any of them costs the engine anything.
//!
//! Would each choice run as soon as it is let in, those of two requests could hold the places that the
//! others wait for, and go on generating what nobody will read. So only the first waits, for as long as
//! the request will; who is let in then asks for the rest at once, and gets all or gives up.

use futures_util::future::try_join_all;
use proto::v1::{Admitted, PrepareResponse, Refused};
use units::Span;

use super::{Entry, Pass};
use crate::{
    error::ApiError,
    fallback::Permit,
    metrics,
    probe::State,
    slo::Deadlines,
    upstream::{Question, Verdict, ran_out, refusal},
};

/// How long a choice waits for its verdict.
#[derive(Clone, Copy)]
struct Wait {
    /// For room.
    patience: Option<Span>,
    /// For the service to say anything.
    limit: Span,
}

impl Entry {
    /// A pass for each choice, and the local permit for those that admission did not let in itself.
    pub(super) async fn decide_all(
        &self,
        prepared: &[PrepareResponse],
    ) -> Result<(Vec<Pass>, Option<Permit>), ApiError> {
        let (choices, copies) = (self.order.ids.len(), self.order.copies());
        let first = self.decide(&prepared[0], 0, self.first_wait()).await?;
        let admitted = match first {
            None => vec![None; choices],
            Some(first) => {
                let wait = self.next_wait(&first);
                let others = (1..choices)
                    .map(|choice| self.decide(&prepared[choice / copies], choice, wait));
                let others = try_join_all(others).await?;
                std::iter::once(Some(first)).chain(others).collect()
            }
        };
        let alone = admitted.iter().filter(|it| it.is_none()).count();
        let permit = (alone > 0).then(|| self.shared().local_cap.take(alone)).transpose()?;
        Ok((admitted.into_iter().map(|it| self.pass(it)).collect(), permit))
    }

    fn first_wait(&self) -> Wait {
        let patience = self.order.wishes.patience;
        let slack = Span::from_millis(self.shared().settings.decide_timeout_ms);
        Wait { patience, limit: patience.unwrap_or_default() + slack }
    }

    /// Half of the first one's lease at most: the rest of it is for the way into the engine.
    fn next_wait(&self, first: &Admitted) -> Wait {
        let slack = Span::from_millis(self.shared().settings.decide_timeout_ms);
        let lease = (first.lease_us > 0).then_some(Span(first.lease_us / 2));
        Wait { patience: Some(Span::ZERO), limit: lease.map_or(slack, |lease| lease.min(slack)) }
    }

    /// Nothing while admission can decide nothing.
    async fn decide(
        &self,
        prepared: &PrepareResponse,
        choice: usize,
        wait: Wait,
    ) -> Result<Option<Admitted>, ApiError> {
        let shared = self.shared();
        if let Some(header) = self.deadlines.missed(shared.clock.now()) {
            return Err(self.out_of_time(header, None));
        }
        let verdict = if shared.health.admission() == State::Down {
            Verdict::Unreachable
        } else {
            self.ask(prepared, choice, wait).await?
        };
        match verdict {
            Verdict::Admitted(admitted) => {
                let budget = admitted.budget.unwrap_or_default();
                let deadlines = Deadlines::from_budget(&budget, shared.clock.now());
                self.granted.get_or_init(|| deadlines);
                Ok(Some(admitted))
            }
            Verdict::Refused(refused) => Err(self.refused(refused)),
            Verdict::Unreachable => {
                shared.health.admission_lost();
                Ok(None)
            }
            Verdict::Late | Verdict::Detached => Ok(None),
        }
    }

    async fn ask(
        &self,
        prepared: &PrepareResponse,
        choice: usize,
        wait: Wait,
    ) -> Result<Verdict, ApiError> {
        let shared = self.shared();
        let asked_at = shared.clock.now();
        let question = Question {
            id: self.order.ids[choice],
            attempt: self.attempt,
            engine_instance: prepared.engine_instance.clone(),
            prompt_tokens: prepared.prompt_tokens,
            cached_tokens: prepared.cached_tokens,
            answers: prepared.answers.clone(),
            max_tokens: self.max_tokens(prepared),
            budget: self.deadlines.remaining(asked_at),
            patience: wait.patience,
            best_effort: self.order.wishes.best_effort,
        };
        let verdict = self.gateway.admission.decide(question, wait.limit.into()).await?;
        metrics::decided(shared.clock.now().since(asked_at));
        Ok(verdict)
    }

    fn refused(&self, refused: Refused) -> ApiError {
        let shared = self.shared();
        let error = if ran_out(&refused) {
            let missed = self.deadlines.missed(shared.clock.now());
            let header = missed.unwrap_or_else(|| self.deadlines.first());
            self.out_of_time(header, refused.budget_us.map(Span))
        } else {
            let overload = shared.settings.overload_status.status();
            ApiError::Refused(Box::new(refusal(refused, overload)))
        };
        metrics::refused(error.code());
        error
    }

    /// The budget of `header` has run out; `default` was in force where the client named none.
    pub(super) fn out_of_time(&self, header: &'static str, default: Option<Span>) -> ApiError {
        let wishes = &self.order.wishes;
        match wishes.budget(header).or(default) {
            Some(budget) => ApiError::OutOfTime { header: wishes.called(header), budget },
            None => ApiError::Deadline,
        }
    }

    /// Who was not let in by admission falls back on the gateway's own rule.
    fn pass(&self, admitted: Option<Admitted>) -> Pass {
        let shared = self.shared();
        let deadlines = match admitted.as_ref().map(|it| it.budget.unwrap_or_default()) {
            Some(budget) => Deadlines::from_budget(&budget, shared.clock.now()),
            None => {
                let budget = Span::from_millis(shared.settings.fallback_budget_ms);
                self.deadlines.or_within(budget, self.order.head_at)
            }
        };
        Pass { admitted, deadlines }
    }
}
