//! The step loop of an engine, and its end of a watch.
//!
//! receive -> plan -> publish -> execute -> commit -> publish, and again, as in the engine worker. A step that
//! was executed is committed when its time is over; until then commands wait.

use std::sync::Arc;

use sched::{Command, Event as Said, Submission};
use units::{Micros, RequestId, Span, Token};

use super::{
    World,
    event::{Answer, Event, Generate, News, Process, Published, ToAdmission, ToEngine, ToGateway},
    process::{FAILURES_MAX, Office, Running, SNAPSHOT_GAP},
    wire,
};
use crate::{Link, digest};

/// An idle loop says that it is alive this often.
const HEARTBEAT: Span = Span::from_millis(200);
/// A watcher that has sent nothing for this long is gone.
const SILENCE_MAX: Span = Span::from_secs(3);
const SECOND: Span = Span::from_secs(1);
/// Another process takes the place of one whose backend failed too often after this.
const RESTART: Span = Span::from_secs(1);

/// An engine: a process after the other.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) life: u32,
    pub(super) running: Option<Running>,
    pub(super) frozen_until: Micros,
    /// What its clock shows beyond the world's.
    clock: Span,
    pub(super) steps: u64,
}

impl Engine {
    pub(super) fn new(engine: usize) -> Self {
        let clock = Span::from_secs(1_000 * (engine as u64 + 1));
        Self { life: 0, running: None, frozen_until: Micros(0), clock, steps: 0 }
    }
}

impl World<'_> {
    fn process_of(&self, engine: usize) -> Process {
        Process { engine, life: self.engines[engine].life }
    }

    fn engine_now(&self, process: Process) -> Micros {
        self.now + self.engines[process.engine].clock
    }

    /// A fresh process begins, measured and ready.
    pub(super) fn boot(&mut self, engine: usize) {
        let spec = &self.scenario.engines[engine];
        let process = self.process_of(engine);
        let now = self.engine_now(process);
        let cache = self.planted.core(spec.kind.build(spec.kv));
        let running = Running::new(spec, cache, self.scenario.seed, process, now);
        self.engines[engine].running = Some(running);
        self.engines[engine].frozen_until = self.now;
        self.auditor.engine_begins(self.now, engine);
        self.turn(process);
    }

    /// The process dies with all that it knows, and calls to it break.
    pub(super) fn kill_engine(&mut self, engine: usize, down: Span) {
        let process = self.process_of(engine);
        let Some(running) = self.engines[engine].running.take() else { return };
        self.engines[engine].life += 1;
        self.agenda.put(self.now + down, Event::EngineStarts(engine));
        if let Some(at) = self.post(Link::Generate(engine), 1, self.scenario.wires.generate) {
            self.agenda.put(at, Event::ToGateway(ToGateway::Broken(process, None)));
        }
        if let Some(office) = running.office {
            self.tell_watcher_of_end(engine, office.session, false);
        }
    }

    pub(super) fn at_engine(&mut self, process: Process, message: ToEngine) {
        match message {
            ToEngine::Prepare(id, prompt) => self.prepare_at(process, id, prompt),
            ToEngine::Generate(_) | ToEngine::Left(_) => {
                let mut message = message;
                if let ToEngine::Generate(call) = &mut message {
                    call.came_at = self.engine_now(process);
                }
                let running = self.running(process);
                running.inbox.push_back(message);
                if running.step.is_none() {
                    self.turn(process);
                }
            }
            ToEngine::Hello { session, name, resume } => {
                self.hello(process, session, &name, resume)
            }
            ToEngine::WatchPing(session) => self.watch_pinged(process, session),
            ToEngine::Bye(session) => {
                let running = self.running(process);
                if let Some(office) = running.office.take_if(|it| it.session == session) {
                    running.epochs.release(office.epoch);
                }
            }
        }
    }

    /// The process that an event was for: it is only delivered while that one runs.
    fn running(&mut self, process: Process) -> &mut Running {
        self.engines[process.engine].running.as_mut().expect("events reach running processes only")
    }

    /// Looks a prompt up beside the loop, and tells it that what is kept of the prompt will be wanted.
    fn prepare_at(&mut self, process: Process, id: RequestId, prompt: Arc<[Token]>) {
        let delay = self.scenario.wires.prepare;
        let prepared = self.now + self.take_delay(delay);
        let running = self.running(process);
        let cached = running.hub.probe(&prompt);
        let instance = Arc::clone(&running.instance);
        if cached > 0 {
            running.inbox.push_back(ToEngine::Prepare(id, prompt));
            if running.step.is_none() {
                self.turn(process);
            }
        }
        let answer = ToGateway::Prepared(process, id, cached, instance);
        let sent = self.post(Link::Generate(process.engine), 1, self.scenario.wires.generate);
        if let Some(at) = sent {
            let took = prepared.since(self.now);
            self.agenda.put(at + took, Event::ToGateway(answer));
        }
    }

    /// The loop takes what is there, plans, and begins a step or goes to sleep.
    fn turn(&mut self, process: Process) {
        let now = self.engine_now(process);
        while let Some(message) = self.running(process).inbox.pop_front() {
            self.command(process, now, message);
        }
        let scheduler = &mut self.running(process).scheduler;
        let plan = scheduler.plan_step(now);
        self.publish(process);
        self.auditor.planned(self.now, now, process.engine, &plan);
        if plan.is_empty() {
            return self.sleep(process);
        }
        let outcome = self.running(process).backend.execute(now, &plan);
        let took = outcome.as_ref().map_or(HEARTBEAT, |outcome| outcome.took);
        if let Err(error) = &outcome {
            self.auditor.step_failed(self.now, error);
        }
        self.engines[process.engine].steps += 1;
        self.digest.take_all(&[self.now.0, 5, plan.number, took.0]);
        self.running(process).step = Some((plan, outcome));
        self.agenda.put(self.now + took, Event::StepEnds(process));
    }

    fn command(&mut self, process: Process, now: Micros, message: ToEngine) {
        let command = match message {
            ToEngine::Generate(call) => match self.submission(process, now, *call) {
                Some(submission) => Command::Submit(submission),
                None => return,
            },
            ToEngine::Left(id) => Command::Cancel(id),
            ToEngine::Prepare(_, prompt) => Command::Touch(prompt),
            ToEngine::Hello { .. } | ToEngine::WatchPing(_) | ToEngine::Bye(_) => return,
        };
        self.running(process).scheduler.on_command(now, command);
    }

    /// A call becomes a submission: who carries an old epoch, or none, runs as best effort without a lease.
    fn submission(&mut self, process: Process, now: Micros, call: Generate) -> Option<Submission> {
        let Generate { mut submission, budget, came_at, natural } = call;
        let limits = *self.running(process).scheduler.limits();
        let room =
            limits.context_tokens.checked_sub(u32::try_from(submission.prompt.len()).ok()?)?;
        let running = self.running(process);
        if running.outlets.contains(&submission.id) {
            return None;
        }
        submission.epoch = submission.epoch.filter(|epoch| running.epochs.honours(now, *epoch));
        if submission.epoch.is_none() {
            submission.tier = sched::Tier::BestEffort;
        }
        if submission.tier == sched::Tier::BestEffort {
            submission.evict.clear();
        }
        submission.submitted_at = came_at;
        submission.max_tokens = submission.max_tokens.min(room.max(1));
        submission.deadline = budget.map(|budget| came_at + budget);
        running.backend.expect(submission.id, natural);
        running.outlets.insert(submission.id);
        self.auditor.submitted(process.engine, &submission);
        if self.planted.ignores_deadline() {
            submission.deadline = None;
        }
        Some(submission)
    }

    fn sleep(&mut self, process: Process) {
        let now = self.engine_now(process);
        let running = self.running(process);
        running.sleep += 1;
        let sleep = running.sleep;
        let due = running.scheduler.next_deadline();
        let wait = due.map_or(HEARTBEAT, |due| due.until(now).min(HEARTBEAT));
        self.agenda.put(self.now + wait.max(Span(1)), Event::LoopWakes(process, sleep));
    }

    pub(super) fn loop_wakes(&mut self, process: Process, sleep: u64) {
        let running = self.running(process);
        if running.sleep == sleep && running.step.is_none() {
            self.turn(process);
        }
    }

    pub(super) fn step_ends(&mut self, process: Process) {
        let now = self.engine_now(process);
        let running = self.running(process);
        let Some((plan, outcome)) = running.step.take() else { return };
        running.failures = if outcome.is_ok() { 0 } else { running.failures + 1 };
        running.scheduler.commit_step(now, plan, outcome);
        let is_lost = running.failures >= FAILURES_MAX;
        self.publish(process);
        if is_lost {
            return self.kill_engine(process.engine, RESTART);
        }
        self.turn(process);
    }

    /// Tells what happened since the last time.
    fn publish(&mut self, process: Process) {
        let now = self.engine_now(process);
        let running = self.running(process);
        let events = running.scheduler.drain_events();
        running.hub.keep(running.scheduler.drain_index());
        running.hub.published_at = now;
        let mut answers = Vec::new();
        for event in &events {
            if let Some(record) = wire::record(event) {
                running.hub.record(record);
            }
            answers.extend(answer(running, event));
        }
        for event in &events {
            self.auditor.said(self.now, now, process.engine, event);
            self.digest_event(event);
        }
        let Self { auditor, engines, .. } = self;
        if let Some(running) = &engines[process.engine].running {
            auditor.published(self.now, process.engine, &running.scheduler);
        }
        if let Some(office) = &mut self.running(process).office {
            office.is_stale = true;
            self.arm_flush(process, self.now);
        }
        if answers.is_empty() {
            return;
        }
        if let Some(at) = self.post(Link::Generate(process.engine), 1, self.scenario.wires.generate)
        {
            self.agenda.put(at, Event::ToGateway(ToGateway::Answers(process, answers)));
        }
    }

    fn digest_event(&mut self, event: &Said) {
        let id = |id: &RequestId| digest::word(*id);
        let words = match event {
            Said::Accepted { id: who, tier, .. } => [6, id(who), *tier as u64],
            Said::Refused { id: who, .. } => [7, id(who), 0],
            Said::Started { id: who, cached_tokens } => [8, id(who), (*cached_tokens).into()],
            Said::Token { id: who, token, .. } => [9, id(who), token.0.into()],
            Said::Finished { id: who, usage, .. } => [10, id(who), usage.completion_tokens.into()],
            Said::Step(step) => [11, step.step, step.took.0],
        };
        self.digest.take_all(&words);
    }

    fn arm_flush(&mut self, process: Process, at: Micros) {
        let Some(office) = &mut self.running(process).office else { return };
        if office.flush_at.is_none_or(|armed| armed > at) {
            office.flush_at = Some(at);
            self.agenda.put(at, Event::Flush(process));
        }
    }

    /// The stream sends all records, and the latest snapshot if it is time.
    pub(super) fn flush(&mut self, process: Process) {
        let now = self.now;
        let engine_now = self.engine_now(process);
        let running = self.running(process);
        // A process that stood still comes to it late.
        let is_due = |it: &&mut Office| it.flush_at.is_some_and(|at| at <= now);
        let Some(office) = running.office.as_mut().filter(is_due) else { return };
        office.flush_at = None;
        let mut news = Vec::new();
        if let Some(sent) = office.sent {
            let Some(records) = running.hub.after(sent) else {
                return self.end_watch(process);
            };
            office.sent = Some(running.hub.last);
            news.extend(records.into_iter().map(News::Record));
        }
        let due = office.snapshot_at.map_or(now, |at| at + SNAPSHOT_GAP);
        if office.is_stale && due <= now {
            office.is_stale = false;
            office.snapshot_at = Some(now);
            office.sent.get_or_insert(running.hub.last);
            news.push(News::Snapshot(Box::new(published(running, engine_now))));
        } else if office.is_stale {
            self.arm_flush(process, due);
        }
        self.say_to_watcher(process, news);
    }

    fn say_to_watcher(&mut self, process: Process, news: Vec<News>) {
        if news.is_empty() {
            return;
        }
        let sent = self.post(Link::Watch(process.engine), 1, self.scenario.wires.watch);
        let life = self.admission.life().0;
        let Some(office) = &mut self.running(process).office else { return };
        office.is_lost |= sent.is_none();
        if let (Some(at), false) = (sent, office.is_lost) {
            let session = office.session;
            let message = ToAdmission::Watched(process.engine, session, news);
            self.agenda.put(at, Event::ToAdmission(life, message));
        }
    }

    fn tell_watcher_of_end(&mut self, engine: usize, session: u64, is_rival: bool) {
        let life = self.admission.life().0;
        if let Some(at) = self.post(Link::Watch(engine), 1, self.scenario.wires.watch) {
            let message = ToAdmission::WatchEnds(engine, session, is_rival);
            self.agenda.put(at, Event::ToAdmission(life, message));
        }
    }

    fn hello(
        &mut self,
        process: Process,
        session: u64,
        name: &str,
        resume: Option<(Arc<str>, u64)>,
    ) {
        let now = self.engine_now(process);
        let world_now = self.now;
        let running = self.running(process);
        let Ok(epoch) = running.epochs.grant(now, name) else {
            return self.tell_watcher_of_end(process.engine, session, true);
        };
        let instance = Arc::clone(&running.instance);
        let sent =
            resume.filter(|(of, after)| *of == instance && running.hub.after(*after).is_some());
        let sent = sent.map(|(_, after)| after);
        running.office = Some(Office::new(session, epoch, sent, world_now));
        let granted = News::Granted { epoch, instance, resumed: sent.is_some() };
        self.say_to_watcher(process, vec![granted]);
        self.arm_flush(process, world_now);
        self.agenda.put(world_now + SECOND, Event::OfficeSecond(process, session));
    }

    fn watch_pinged(&mut self, process: Process, session: u64) {
        let (now, world_now) = (self.engine_now(process), self.now);
        let running = self.running(process);
        let Some(office) = running.office.as_mut().filter(|it| it.session == session) else {
            return;
        };
        office.heard_at = world_now;
        if !running.epochs.ping(now, office.epoch) {
            self.end_watch(process);
        }
    }

    pub(super) fn office_second(&mut self, process: Process, session: u64) {
        let now = self.now;
        let running = self.running(process);
        let Some(office) = running.office.as_ref().filter(|it| it.session == session) else {
            return;
        };
        if now.since(office.heard_at) > SILENCE_MAX {
            return self.end_watch(process);
        }
        self.say_to_watcher(process, vec![News::Ping]);
        self.agenda.put(now + SECOND, Event::OfficeSecond(process, session));
    }

    fn end_watch(&mut self, process: Process) {
        let running = self.running(process);
        let Some(office) = running.office.take() else { return };
        running.epochs.release(office.epoch);
        self.tell_watcher_of_end(process.engine, office.session, false);
    }
}

/// The state as it was published last. Nothing has changed since: commands are followed by a publication.
fn published(running: &Running, now: Micros) -> Published {
    let at = running.hub.published_at;
    Published {
        instance: Arc::clone(&running.instance),
        age: now.since(at),
        at,
        record: running.hub.last,
        snapshot: running.scheduler.snapshot(at),
    }
}

/// What the client of a request hears of an event.
fn answer(running: &mut Running, event: &Said) -> Option<(RequestId, Answer)> {
    let (id, answer) = match event {
        Said::Accepted { id, tier, .. } => (*id, Answer::Accepted { tier: *tier }),
        Said::Token { id, .. } => (*id, Answer::Token),
        Said::Refused { id, refusal } => {
            running.backend.forget(*id);
            (*id, Answer::Refused(refusal.clone()))
        }
        Said::Finished { id, reason, usage, .. } => {
            running.backend.forget(*id);
            (*id, Answer::Finished { reason: reason.clone(), usage: *usage })
        }
        Said::Started { .. } | Said::Step(_) => return None,
    };
    let is_last = matches!(answer, Answer::Refused(_) | Answer::Finished { .. });
    let is_open = if is_last { running.outlets.remove(&id) } else { running.outlets.contains(&id) };
    is_open.then_some((id, answer))
}
