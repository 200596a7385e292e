//! Gateways: prepare -> decide -> generate -> answer, for each attempt of a client's.
//!
//! An attempt that loses its engine before it was answered tries one other engine, once. While admission is
//! not there, a few run without its word, as best effort.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use admit::{Admitted, Attempt, Budget, Candidate, Cause, Offer, Reason, Source, Verdict};
use sched::{Submission, Tier};
use units::{Micros, RequestId, Span, TokenCount};

use super::{
    World,
    client::Heard,
    event::{Event, Generate, Process, ToAdmission, ToEngine, ToGateway},
    wire,
};
use crate::{Link, report::Ending};

/// How often gateways look which engines are there.
const PROBE: Span = Span::from_millis(500);
/// Who is told to come back by a gateway itself comes back after at least this, and up to as much more.
const RETRY_SOON: Span = Span::from_secs(1);

/// All gateways: they share nothing but what they see of the engines.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) flights: BTreeMap<RequestId, Flight>,
    /// Which flights an engine process serves.
    pub(super) served: BTreeSet<(Process, RequestId)>,
    /// Which engines are believed to be there.
    up: Vec<bool>,
    /// Requests that run without admission's word.
    alone: u32,
}

/// One attempt on its way.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    stage: Stage,
    /// 0 at the first engine.
    number: u32,
    pub(super) process: Process,
    instance: Arc<str>,
    cached: u32,
    /// When the budgets run out.
    e2e: Option<Micros>,
    ttft: Option<Micros>,
    patience: Option<Span>,
    admitted: Option<Admitted>,
    /// It holds a place of those without admission's word.
    alone: bool,
    /// Numbers its calls.
    call: u32,
    /// Whether the head of the answer was sent.
    pub(super) has_head: bool,
    /// Whether a token was.
    pub(super) has_token: bool,
}

/// What a flight waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Preparing,
    Deciding,
    Submitting,
    Streaming,
}

impl Gateway {
    pub(super) fn new(engines: usize) -> Self {
        Self {
            flights: BTreeMap::new(),
            served: BTreeSet::new(),
            up: vec![true; engines],
            alone: 0,
        }
    }
}

impl World<'_> {
    pub(super) fn at_gateway(&mut self, message: ToGateway) {
        match message {
            ToGateway::Head(id) => self.head(id),
            ToGateway::Gone(id) => self.gone(id),
            ToGateway::Prepared(process, id, cached, instance) => {
                self.prepared(process, id, cached, instance);
            }
            ToGateway::Decided(attempt, verdict) => self.decided(attempt, verdict),
            ToGateway::Unreachable(id) => self.without_admission(id),
            ToGateway::Answers(process, answers) => {
                for (id, answer) in answers {
                    self.answered(process, id, answer);
                }
            }
            ToGateway::Broken(process, one) => self.broken(process, one),
        }
    }

    pub(super) fn probe(&mut self) {
        let now = self.now;
        let there = |engine: &super::Engine| engine.running.is_some() && engine.frozen_until <= now;
        self.gateway.up = self.engines.iter().map(there).collect();
        self.agenda.put(now + PROBE, Event::Probe);
    }

    fn first_up(&self, but: Option<usize>) -> Option<usize> {
        let mut engines = self.gateway.up.iter().enumerate();
        engines.find(|(engine, up)| **up && Some(*engine) != but).map(|(engine, _)| engine)
    }

    fn head(&mut self, id: RequestId) {
        let index = Self::flight_of(id);
        if self.clients[index].attempt != Some(id) {
            return;
        }
        let Some(engine) = self.first_up(None) else {
            return self.shed(id, 503, "no engine");
        };
        let budgets = self.budgets_left(index);
        let flight = Flight {
            stage: Stage::Preparing,
            number: 0,
            process: self.process(engine),
            instance: Arc::from(""),
            cached: 0,
            e2e: budgets.e2e.map(|budget| self.now + budget),
            ttft: budgets.ttft.map(|budget| self.now + budget),
            patience: budgets.patience,
            admitted: None,
            alone: false,
            call: 0,
            has_head: false,
            has_token: false,
        };
        self.gateway.flights.insert(id, flight);
        self.prepare(id);
    }

    fn prepare(&mut self, id: RequestId) {
        let Some(asked) = self.clients[Self::flight_of(id)].asked.as_ref() else { return };
        let prompt = Arc::clone(&asked.prompt);
        let process = self.gateway.flights[&id].process;
        self.gateway.served.insert((process, id));
        self.call_engine(process, id, ToEngine::Prepare(id, prompt));
        self.arm(id, self.scenario.gateway.engine_timeout);
    }

    /// Sends a call to an engine. One that is gone refuses the connection.
    fn call_engine(&mut self, process: Process, id: RequestId, message: ToEngine) {
        let link = Link::Generate(process.engine);
        let delay = self.scenario.wires.generate;
        let Some(at) = self.post(link, 0, delay) else { return };
        let is_there = self.engines[process.engine].life == process.life
            && self.engines[process.engine].running.is_some();
        let event = match is_there {
            true => Event::ToEngine(process, message),
            false => Event::ToGateway(ToGateway::Broken(process, Some(id))),
        };
        self.agenda.put(at, event);
    }

    /// Waits for an answer so long, and not longer than the request's own time.
    fn arm(&mut self, id: RequestId, limit: Span) {
        let Some(flight) = self.gateway.flights.get_mut(&id) else { return };
        flight.call += 1;
        let at = flight.e2e.map_or(self.now + limit, |e2e| e2e.min(self.now + limit));
        self.agenda.put(at.max(self.now), Event::CallTimesOut(id, flight.call));
    }

    fn prepared(&mut self, process: Process, id: RequestId, cached: u32, instance: Arc<str>) {
        let Some(flight) = self.gateway.flights.get_mut(&id) else { return };
        if flight.process != process || flight.stage != Stage::Preparing {
            return;
        }
        flight.cached = cached;
        flight.instance = instance;
        flight.stage = Stage::Deciding;
        let (patience, number) = (flight.patience, flight.number);
        let offer = self.offer(id, number);
        let link = Link::Decide;
        let delay = self.scenario.wires.decide;
        let sent = self.post(link, 0, delay);
        let (life, is_there) = self.admission.life();
        if let Some(at) = sent {
            let event = match is_there {
                true => Event::ToAdmission(life, ToAdmission::Decide(Box::new(offer))),
                false => Event::ToGateway(ToGateway::Unreachable(id)),
            };
            self.agenda.put(at, event);
        }
        self.arm(id, patience.unwrap_or_default() + self.scenario.gateway.decide_timeout);
    }

    fn offer(&self, id: RequestId, number: u32) -> Offer {
        let flight = &self.gateway.flights[&id];
        let client = &self.clients[Self::flight_of(id)];
        let left = |at: Option<Micros>| at.map(|at| at.until(self.now));
        Offer {
            attempt: Attempt { id, number },
            candidates: vec![Candidate {
                source: Source::Watched(Arc::clone(&flight.instance)),
                cached: TokenCount(flight.cached),
                answers: Vec::new(),
            }],
            prompt: TokenCount(client.row.prompt_tokens),
            max_tokens: TokenCount(client.row.max_tokens),
            budget: Budget { e2e: left(flight.e2e), ttft: left(flight.ttft) },
            patience: flight.patience,
            accept_best_effort: self.scenario.clients.accept_best_effort,
            tenant: Arc::from(""),
            priority: 0,
            unix: self.now,
        }
    }

    fn decided(&mut self, attempt: Attempt, verdict: Verdict) {
        let id = attempt.id;
        let Some(flight) = self.gateway.flights.get_mut(&id) else { return };
        if flight.number != attempt.number || flight.stage != Stage::Deciding {
            return;
        }
        match verdict {
            Verdict::Admitted(admitted) => {
                let at = |left: Option<Span>| left.map(|left| self.now + left);
                flight.e2e = at(admitted.budget.e2e);
                flight.ttft = at(admitted.budget.ttft);
                flight.admitted = Some(admitted);
                self.generate(id);
            }
            // It knows no such engine, and so it can say nothing about it.
            Verdict::Refused(refused) if refused.cause.reason() == Reason::NoEngine => {
                self.without_admission(id);
            }
            Verdict::Refused(refused) => {
                let ran_out = refused.cause == Cause::OutOfTime;
                let status = match (ran_out, refused.permanent) {
                    (true, _) => 504,
                    (false, true) => 400,
                    (false, false) => 503,
                };
                let heard = Heard {
                    ending: if status == 503 { Ending::Shed } else { Ending::HttpStatus },
                    status: Some(status),
                    detail: Some(refused.cause.to_string()),
                    retry_after: Some(refused.retry_after),
                    permanent: refused.permanent,
                };
                self.land(id, heard);
            }
            Verdict::Superseded { .. } => self.without_admission(id),
        }
    }

    /// Lets a few in without admission's word.
    fn without_admission(&mut self, id: RequestId) {
        let spec = self.scenario.gateway;
        let Some(flight) = self.gateway.flights.get_mut(&id) else { return };
        if flight.stage != Stage::Deciding {
            return;
        }
        if self.gateway.alone >= spec.fallback_requests {
            return self.shed(id, 503, "no admission");
        }
        self.gateway.alone += 1;
        flight.alone = true;
        flight.e2e.get_or_insert(self.now + spec.fallback_budget);
        self.generate(id);
    }

    fn generate(&mut self, id: RequestId) {
        let Some(asked) = self.clients[Self::flight_of(id)].asked.clone() else { return };
        let Some(flight) = self.gateway.flights.get_mut(&id) else { return };
        flight.stage = Stage::Submitting;
        let admitted = flight.admitted.as_ref();
        let promised = admitted.is_some_and(|it| it.tier == admit::Tier::Promised);
        let submission = Submission {
            id,
            submitted_at: Micros(0),
            prompt: asked.prompt,
            sampling: sample::Sampling::GREEDY,
            top_logprobs: None,
            max_tokens: asked.max_tokens,
            tier: if promised { Tier::Promised } else { Tier::BestEffort },
            epoch: admitted.map(|it| it.epoch),
            deadline: None,
            first_token: flight.ttft.map(|at| at.until(self.now)),
            evict: admitted.map(|it| it.evict.clone()).unwrap_or_default(),
        };
        let budget = flight.e2e.map(|at| at.until(self.now));
        let process = flight.process;
        let call = Generate { submission, budget, came_at: Micros(0), natural: asked.natural };
        self.call_engine(process, id, ToEngine::Generate(Box::new(call)));
        self.arm(id, self.scenario.gateway.engine_timeout);
    }

    /// The engine has it: the head of the answer goes out.
    pub(super) fn accepted(&mut self, id: RequestId, tier: Tier) {
        let Some(flight) = self.gateway.flights.get_mut(&id) else { return };
        flight.stage = Stage::Streaming;
        flight.call += 1;
        flight.has_head = true;
        let promised = tier == Tier::Promised;
        let admitted = flight.admitted.as_ref().filter(|_| promised);
        let (bound, confidence) = admitted.map_or((None, None), |it| (it.bound, it.confidence));
        let at = self.now + self.take_delay(self.scenario.wires.client);
        let row = &mut self.clients[Self::flight_of(id)].row;
        row.head = Some(at);
        row.status = Some(200);
        row.tier = Some(wire::tier(tier));
        (row.bound, row.confidence) = (bound, confidence);
    }

    /// A call was not answered in time.
    pub(super) fn call_times_out(&mut self, id: RequestId, call: u32) {
        let Some(flight) = self.gateway.flights.get(&id) else { return };
        if flight.call != call {
            return;
        }
        let out_of_time = flight.e2e.is_some_and(|e2e| e2e <= self.now);
        match flight.stage {
            Stage::Deciding => {
                self.withdraw(id);
                if out_of_time { self.out_of_time(id) } else { self.without_admission(id) }
            }
            Stage::Preparing | Stage::Submitting | Stage::Streaming => {
                let process = flight.process;
                self.call_engine(process, id, ToEngine::Left(id));
                if out_of_time {
                    return self.out_of_time(id);
                }
                self.gateway.up[process.engine] = false;
                self.shed(id, 503, "the engine does not answer");
            }
        }
    }

    fn out_of_time(&mut self, id: RequestId) {
        self.land(id, heard(Ending::HttpStatus, Some(504), "out of time"));
    }

    /// Its client has left: everything is taken back.
    fn gone(&mut self, id: RequestId) {
        let Some(flight) = self.gateway.flights.get(&id) else { return };
        let process = flight.process;
        match flight.stage {
            Stage::Preparing => {}
            Stage::Deciding => self.withdraw(id),
            Stage::Submitting | Stage::Streaming => {
                self.call_engine(process, id, ToEngine::Left(id));
            }
        }
        self.take_off(id);
    }

    fn withdraw(&mut self, id: RequestId) {
        let number = self.gateway.flights[&id].number;
        let (life, is_there) = self.admission.life();
        if let Some(at) = self.post(Link::Decide, 0, self.scenario.wires.decide)
            && is_there
        {
            let withdrawn = ToAdmission::Withdraw(Attempt { id, number });
            self.agenda.put(at, Event::ToAdmission(life, withdrawn));
        }
    }

    /// Calls to an engine process have broken.
    fn broken(&mut self, process: Process, one: Option<RequestId>) {
        self.gateway.up[process.engine] = false;
        let first = (process, RequestId(0));
        let last = (process, RequestId(u128::MAX));
        let all = self.gateway.served.range(first..=last).map(|(_, id)| *id);
        let lost: Vec<RequestId> = all.filter(|id| one.is_none_or(|one| one == *id)).collect();
        for id in lost {
            self.lose(id);
        }
    }

    /// Tries another engine, if nothing was answered yet; else the answer ends here.
    fn lose(&mut self, id: RequestId) {
        let Some(flight) = self.gateway.flights.get(&id) else { return };
        let (old, number, has_token) = (flight.process, flight.number, flight.has_token);
        let has_head = flight.has_head;
        if flight.stage == Stage::Deciding {
            self.withdraw(id);
        }
        let other = self.first_up(Some(old.engine)).filter(|_| number == 0 && !has_token);
        let Some(engine) = other else {
            return match has_head {
                true => self.land(id, heard(Ending::InBandError, None, "the engine is gone")),
                false => self.shed(id, 503, "the engine is gone"),
            };
        };
        self.release(id);
        let process = self.process(engine);
        let Some(flight) = self.gateway.flights.get_mut(&id) else { return };
        flight.number = 1;
        flight.process = process;
        flight.stage = Stage::Preparing;
        flight.admitted = None;
        self.prepare(id);
    }

    /// A refusal of the gateway's own.
    pub(super) fn shed(&mut self, id: RequestId, status: u16, why: &str) {
        let retry_after = RETRY_SOON + RETRY_SOON.mul_f64(self.draws.unit());
        let refusal = heard(Ending::Shed, Some(status), why);
        self.land(id, Heard { retry_after: Some(retry_after), ..refusal });
    }

    /// An attempt is over, and its client will hear how.
    pub(super) fn land(&mut self, id: RequestId, heard: Heard) {
        self.take_off(id);
        let at = self.now + self.take_delay(self.scenario.wires.client);
        self.client_hears(at, id, heard);
    }

    fn take_off(&mut self, id: RequestId) {
        self.release(id);
        self.gateway.flights.remove(&id);
    }

    /// Gives back what a flight holds of the gateway's.
    fn release(&mut self, id: RequestId) {
        let Some(flight) = self.gateway.flights.get_mut(&id) else { return };
        if std::mem::take(&mut flight.alone) {
            self.gateway.alone -= 1;
        }
        let process = flight.process;
        self.gateway.served.remove(&(process, id));
    }

    fn process(&self, engine: usize) -> Process {
        Process { engine, life: self.engines[engine].life }
    }
}

/// An end without a time to come back.
pub(super) fn heard(ending: Ending, status: Option<u16>, detail: &str) -> Heard {
    Heard { ending, status, detail: Some(detail.to_owned()), retry_after: None, permanent: false }
}
