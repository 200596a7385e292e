//! What admission owes: an answer within each patience, and one close for each whom it let in.

use std::collections::{BTreeMap, BTreeSet};

use admit::{Attempt, Offer, PATIENCE_MAX, Settings, Trace, TracedVerdict, Verdict, View};
use units::{Micros, Span};

use super::Findings;
use crate::Rule;

/// Timers are exact here; rounding is not.
const TOLERANCE: Span = Span::from_millis(1);

#[derive(Debug)]
pub(super) struct AdmissionBooks {
    patience: Span,
    budget: Span,
    /// By when who has to have heard.
    due: BTreeMap<Attempt, Micros>,
    order: BTreeSet<(Micros, Attempt)>,
    /// Let in, and not closed yet.
    admitted: BTreeSet<Attempt>,
}

impl AdmissionBooks {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            patience: settings.patience,
            budget: settings.budget,
            due: BTreeMap::new(),
            order: BTreeSet::new(),
            admitted: BTreeSet::new(),
        }
    }

    pub(super) fn offered(&mut self, now: Micros, offer: &Offer) {
        let patience = offer.patience.unwrap_or(self.patience).min(PATIENCE_MAX);
        let due = now + patience.min(offer.budget.e2e.unwrap_or(self.budget));
        self.due.insert(offer.attempt, due);
        self.order.insert((due, offer.attempt));
    }

    pub(super) fn decided(
        &mut self,
        now: Micros,
        attempt: Attempt,
        verdict: &Verdict,
        findings: &mut Findings,
    ) {
        if !self.answered(attempt) {
            let what = format!("attempt {} was answered before", attempt.number);
            findings.find(now, Some(attempt.id), Rule::Patience, what);
        }
        match verdict {
            Verdict::Admitted(_) => drop(self.admitted.insert(attempt)),
            Verdict::Refused(_) | Verdict::Superseded { .. } => {}
        }
    }

    fn answered(&mut self, attempt: Attempt) -> bool {
        let due = self.due.remove(&attempt);
        due.is_some_and(|due| self.order.remove(&(due, attempt)))
    }

    pub(super) fn withdrawn(&mut self, attempt: Attempt) {
        self.answered(attempt);
    }

    pub(super) fn closed(&mut self, now: Micros, trace: &Trace, findings: &mut Findings) {
        let attempt = trace.attempt;
        let let_in = matches!(trace.verdict, Some(TracedVerdict::Admitted { .. }));
        if let_in && !self.admitted.remove(&attempt) {
            let what = format!("attempt {} was closed twice", attempt.number);
            findings.find(now, Some(attempt.id), Rule::Leases, what);
        }
    }

    pub(super) fn patience(&mut self, now: Micros, findings: &mut Findings) {
        while let Some(&(due, attempt)) = self.order.first()
            && due + TOLERANCE < now
        {
            self.answered(attempt);
            let what = format!("it should have heard at {:.6} s", due.0 as f64 / 1e6);
            findings.find(now, Some(attempt.id), Rule::Patience, what);
        }
    }

    /// What was due later is due by so much sooner; nobody has to hear before it is due.
    pub(super) fn clock_jumps(&mut self, by: Span) {
        let order = std::mem::take(&mut self.order);
        for (due, attempt) in order {
            let due = due - by;
            self.order.insert((due, attempt));
            self.due.insert(attempt, due);
        }
    }

    /// What it knew is gone, and its callers hear that it is.
    pub(super) fn dies(&mut self) {
        self.due.clear();
        self.order.clear();
        self.admitted.clear();
    }

    pub(super) fn rests(&mut self, now: Micros, view: &View, findings: &mut Findings) {
        for attempt in std::mem::take(&mut self.admitted) {
            let what = format!("attempt {} was let in and never closed", attempt.number);
            findings.find(now, Some(attempt.id), Rule::Leases, what);
        }
        let totals = view.totals();
        if totals.requests > 0 || view.held > 0 {
            let what = format!("{} are counted and {} held at the end", totals.requests, view.held);
            findings.find(now, None, Rule::Leases, what);
        }
    }
}
