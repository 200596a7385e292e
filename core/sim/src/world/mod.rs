//! The world: clients, gateways, admission and engines in one address space, in virtual time.
//!
//! Processes talk by events of the agenda, each with its delay; everything that decides is the production
//! code: [`sched::Scheduler`] with its KV core, [`admit::Controller`]. What surrounds it here is what the
//! services' shells do: `client` and `gateway` the life of a request, `admission` the actor, `watch` the two
//! ends of the stream between admission and an engine, `engine` the step loop, `outlet` who hears of it.

mod admission;
mod client;
mod engine;
mod event;
mod faults;
mod gateway;
mod outlet;
mod process;
mod watch;
mod wire;

use std::collections::BTreeMap;

use units::{Micros, RequestId, Span};
use workload::Draws;

use crate::{
    Delay, Digest, Link, Report, Scenario, agenda::Agenda, auditor::Auditor, planted::Planted,
};
use admission::Admission;
use client::Client;
pub(crate) use client::{Asked, ask, ask_of};
use engine::Engine;
use event::{Event, Process};
use gateway::Gateway;

/// The world goes on for so long after the last client has its answer: whatever is left over shows.
const SETTLE: Span = Span::from_secs(15);

/// Streams of draws, so that what one part draws does not change what another does.
mod stream {
    pub(super) const DELAYS: u64 = 1 << 32;
    pub(super) const MACHINES: u64 = 2 << 32;
    pub(super) const NATURAL: u64 = 3 << 32;
    pub(super) const RETRIES: u64 = 4 << 32;
    pub(super) const WATCHERS: u64 = 5 << 32;
}

/// A run under way.
pub(crate) struct World<'a> {
    scenario: &'a Scenario,
    now: Micros,
    agenda: Agenda<Event>,
    /// Of delays.
    draws: Draws,
    /// When the last message of a connection arrives: none overtakes another.
    arrives: BTreeMap<Link, [Micros; 2]>,
    clients: Vec<Client>,
    /// Clients that still wait.
    open: usize,
    gateway: Gateway,
    admission: Admission,
    engines: Vec<Engine>,
    /// Sessions of watches.
    sessions: u64,
    auditor: Auditor,
    digest: Digest,
    events: u64,
    planted: Planted,
}

/// Runs a scenario to its end.
#[must_use]
pub fn run(scenario: &Scenario) -> Report {
    World::new(scenario, Planted::default()).run()
}

/// The same with something wrong in it.
#[cfg(test)]
pub(crate) fn run_planted(scenario: &Scenario, planted: Planted) -> Report {
    World::new(scenario, planted).run()
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, planted: Planted) -> Self {
        let clients: Vec<Client> = (0..scenario.clients.arrivals.len())
            .map(|index| Client::new(scenario, index))
            .collect();
        let engines = (0..scenario.engines.len()).map(Engine::new);
        let mut world = Self {
            scenario,
            now: Micros(0),
            agenda: Agenda::new(),
            draws: Draws::new(scenario.seed, stream::DELAYS),
            arrives: BTreeMap::new(),
            open: clients.len(),
            clients,
            gateway: Gateway::new(scenario.engines.len()),
            admission: Admission::new(),
            engines: engines.collect(),
            sessions: 0,
            auditor: Auditor::new(scenario),
            digest: Digest::NEW,
            events: 0,
            planted,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        let scenario = self.scenario;
        for (number, fault) in scenario.faults.iter().enumerate() {
            self.agenda.put(fault.at, Event::Fault(number));
        }
        for engine in 0..self.engines.len() {
            self.boot(engine);
        }
        self.start_admission();
        self.agenda.put(Micros(0), Event::Probe);
        for (index, at) in scenario.clients.arrivals.iter().enumerate() {
            self.agenda.put(*at, Event::ClientSends(index));
            let timeout = *at + scenario.clients.timeout;
            self.agenda.put(timeout, Event::ClientLeaves(index, crate::Ending::Timeout));
        }
        for (request, after) in &scenario.clients.leaving {
            let Ok(index) = usize::try_from(*request) else { continue };
            let Some(at) = scenario.clients.arrivals.get(index) else { continue };
            self.agenda.put(*at + *after, Event::ClientLeaves(index, crate::Ending::Left));
        }
    }

    fn run(mut self) -> Report {
        let mut ends_at = None;
        while let Some((at, event)) = self.agenda.pop() {
            if self.open == 0 && ends_at.is_none() {
                let faults = self.scenario.faults.iter().map(crate::Fault::ends_at);
                ends_at = Some(faults.max().unwrap_or_default().max(self.now) + SETTLE);
            }
            if ends_at.is_some_and(|ends_at| at > ends_at) {
                break;
            }
            self.now = at;
            if let Some(event) = self.reachable(event) {
                self.events += 1;
                self.happen(event);
            }
        }
        self.finish()
    }

    /// Nothing if it is for a process that is gone; later if it stands still.
    fn reachable(&mut self, event: Event) -> Option<Event> {
        let Some(Process { engine, life }) = event.process() else { return Some(event) };
        let process = &self.engines[engine];
        if process.life != life || process.running.is_none() {
            return None;
        }
        if process.frozen_until > self.now {
            self.agenda.put(process.frozen_until, event);
            return None;
        }
        Some(event)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Fault(number) => self.fault(number),
            Event::EngineStarts(engine) => self.boot(engine),
            Event::AdmissionStarts => self.start_admission(),
            Event::Probe => self.probe(),
            Event::ClientSends(index) => self.client_sends(index),
            Event::ClientLeaves(index, ending) => self.client_leaves(index, ending),
            Event::ToGateway(message) => self.at_gateway(message),
            Event::CallTimesOut(id, call) => self.call_times_out(id, call),
            Event::ToAdmission(life, message) => self.at_admission(life, message),
            Event::AdmissionTick(life, timer) => self.admission_tick(life, timer),
            Event::WatchConnects(life, engine) => self.watch_connects(life, engine),
            Event::WatchSecond(life, engine, session) => self.watch_second(life, engine, session),
            Event::ToEngine(process, message) => self.at_engine(process, message),
            Event::StepEnds(process) => self.step_ends(process),
            Event::LoopWakes(process, sleep) => self.loop_wakes(process, sleep),
            Event::OfficeSecond(process, session) => self.office_second(process, session),
            Event::Flush(process) => self.flush(process),
        }
    }

    fn finish(mut self) -> Report {
        self.auditor.ends(self.now, self.open);
        for (number, engine) in self.engines.iter().enumerate() {
            if let Some(running) = &engine.running {
                self.auditor.engine_rests(self.now, number, &running.scheduler);
            }
        }
        if let Some(controller) = self.admission.controller() {
            self.auditor
                .admission_rests(self.now, &controller.view(self.admission.clock(self.now)));
        }
        Report {
            requests: self.clients.into_iter().map(|client| client.row).collect(),
            findings: self.auditor.into_findings(),
            digest: self.digest,
            ended_at: self.now,
            steps: self.engines.iter().map(|engine| engine.steps).sum(),
            events: self.events,
        }
    }

    fn take_delay(&mut self, delay: Delay) -> Span {
        delay.fixed + delay.jitter.mul_f64(self.draws.unit())
    }

    /// When a message on a connection arrives, if it does. `way` tells the two directions apart: a stream
    /// keeps its order, and what is lost or late depends on when it is sent.
    fn post(&mut self, link: Link, way: usize, delay: Delay) -> Option<Micros> {
        let took = self.take_delay(delay);
        let late = self.lateness(link)?;
        let arrives = &mut self.arrives.entry(link).or_default()[way];
        *arrives = (self.now + took + late).max(*arrives);
        Some(*arrives)
    }

    fn flight_of(id: RequestId) -> usize {
        usize::try_from(id.0 >> 8).expect("ids are made of indices")
    }
}
