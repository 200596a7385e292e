//! An independent auditor: its own books, kept from what it is told, compared with what happens.
//!
//! It hears every event of the world and believes none: who holds a slot it knows from the plans, who runs
//! from the events, what is due from the offers. What it finds is a value, never a panic, so that a search can
//! go on and shrink what it has found.

mod admission;
mod clients;
mod engine;

use admit::{Attempt, Offer, Trace, Verdict, View};
use sched::{EngineError, Event, Scheduler, StepPlan, Submission};
use units::{Micros, RequestId, Span};

use crate::{EngineSpec, Finding, Rule, Scenario};
use admission::AdmissionBooks;
use clients::ClientBooks;
use engine::EngineBooks;

/// Findings that are kept: one is enough, and a broken world breaks all the time.
const FINDINGS_MAX: usize = 20;

/// The books.
#[derive(Debug)]
pub(crate) struct Auditor {
    findings: Findings,
    engines: Vec<EngineBooks>,
    admission: AdmissionBooks,
    clients: ClientBooks,
}

/// What was found so far.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn find(&mut self, at: Micros, request: Option<RequestId>, rule: Rule, what: String) {
        if self.0.len() < FINDINGS_MAX {
            self.0.push(Finding { at, request, rule, what });
        }
    }
}

impl Auditor {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            findings: Findings::default(),
            engines: scenario.engines.iter().map(|spec| EngineBooks::new(spec, scenario)).collect(),
            admission: AdmissionBooks::new(&scenario.admission),
            clients: ClientBooks::default(),
        }
    }

    pub(crate) fn find(
        &mut self,
        at: Micros,
        request: Option<RequestId>,
        rule: Rule,
        what: impl Into<String>,
    ) {
        self.findings.find(at, request, rule, what.into());
    }

    pub(crate) fn attempt_begins(&mut self, id: RequestId) {
        self.clients.begins(id);
    }

    pub(crate) fn attempt_ends(&mut self, now: Micros, id: RequestId) {
        self.clients.ends(now, id, &mut self.findings);
    }

    pub(crate) fn offered(&mut self, now: Micros, offer: &Offer) {
        self.admission.offered(now, offer);
    }

    pub(crate) fn decided(&mut self, now: Micros, attempt: Attempt, verdict: &Verdict) {
        self.admission.decided(now, attempt, verdict, &mut self.findings);
    }

    pub(crate) fn withdrawn(&mut self, attempt: Attempt) {
        self.admission.withdrawn(attempt);
    }

    pub(crate) fn closed(&mut self, now: Micros, trace: &Trace) {
        self.admission.closed(now, trace, &mut self.findings);
    }

    /// Somebody may come who is not counted any more: limits are not sure from here on.
    pub(crate) fn lease_expired(&mut self) {
        self.engines.iter_mut().for_each(EngineBooks::waive_limit);
    }

    /// Whoever is held must have heard by now if its patience is over.
    pub(crate) fn patience(&mut self, now: Micros) {
        self.admission.patience(now, &mut self.findings);
    }

    pub(crate) fn clock_jumps(&mut self, by: Span) {
        self.admission.clock_jumps(by);
    }

    pub(crate) fn admission_dies(&mut self) {
        self.admission.dies();
    }

    pub(crate) fn engine_begins(&mut self, now: Micros, engine: usize) {
        self.engines[engine].begins(now);
    }

    pub(crate) fn engine_freezes(&mut self, engine: usize, until: Micros) {
        self.engines[engine].freezes(until);
    }

    pub(crate) fn submitted(&mut self, engine: usize, submission: &Submission) {
        self.engines[engine].submitted(submission);
    }

    /// `clock` is the engine's.
    pub(crate) fn planned(&mut self, now: Micros, clock: Micros, engine: usize, plan: &StepPlan) {
        self.engines[engine].planned(now, clock, plan, &mut self.findings);
    }

    pub(crate) fn step_failed(&mut self, now: Micros, error: &EngineError) {
        if let EngineError::Unfit(why) = error {
            self.find(now, None, Rule::Plans, why.clone());
        }
    }

    pub(crate) fn said(&mut self, now: Micros, clock: Micros, engine: usize, event: &Event) {
        self.engines[engine].said(now, clock, event, &mut self.findings);
    }

    pub(crate) fn published(&mut self, now: Micros, engine: usize, scheduler: &Scheduler) {
        self.engines[engine].published(now, scheduler, &mut self.findings);
    }

    /// The run is over: `open` clients have not heard.
    pub(crate) fn ends(&mut self, now: Micros, open: usize) {
        if open > 0 {
            self.find(now, None, Rule::Stuck, format!("{open} clients never heard"));
        }
        self.clients.rest(now, &mut self.findings);
        self.patience(now);
    }

    /// Nothing may be left in an engine.
    pub(crate) fn engine_rests(&mut self, now: Micros, engine: usize, scheduler: &Scheduler) {
        self.engines[engine].rests(now, scheduler, &mut self.findings);
    }

    /// Nothing may be left in admission.
    pub(crate) fn admission_rests(&mut self, now: Micros, view: &View) {
        self.admission.rests(now, view, &mut self.findings);
    }

    pub(crate) fn into_findings(self) -> Vec<Finding> {
        self.findings.0
    }
}

/// Whether everything of a scenario goes well, so that nobody runs without admission's word.
fn is_calm(scenario: &Scenario) -> bool {
    scenario.faults.is_empty()
}

/// What a spec says of sharing: whether each block that is held is in exactly one sequence's.
fn is_shared(spec: &EngineSpec) -> bool {
    spec.kind != kv::Kind::Contiguous && spec.kv.layout == kv::Layout::Unified
}
