//! The watcher's end of a watch: connect -> hello -> granted -> snapshot -> records and snapshots -> broken ->
//! pause -> connect.
//!
//! As in the admission service: a broken connection is resumed where it stopped, an engine that was not
//! heard of for three seconds is forgotten, and another promiser makes this one stand by.

use std::sync::Arc;

use units::{Micros, Span};

use super::{
    World,
    event::{Event, News, Process, ToEngine},
    wire,
};
use crate::{Link, Rule};

/// An engine that was not heard for this long is gone.
const GONE_AFTER: Span = Span::from_secs(3);
/// Both ends say that they are there this often. An engine takes the call in as long.
const SECOND: Span = Span::from_secs(1);
/// Pauses between attempts double from this,
const PAUSE_FIRST: Span = Span::from_millis(100);
/// up to this.
const PAUSE_LAST: Span = Span::from_secs(1);

/// What watches one engine.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    call: Option<Call>,
    /// Where reading stopped, while the controller knows the engine.
    resume: Option<(Arc<str>, u64)>,
    heard_at: Micros,
    failures: u32,
}

/// A call under way.
#[derive(Debug)]
struct Call {
    session: u64,
    process: Process,
    /// Whether anything has come.
    is_answered: bool,
    heard_at: Micros,
    /// A grant that waits for its snapshot.
    granted: Option<(u64, Arc<str>)>,
    /// Something of it was lost: nothing more arrives.
    is_lost: bool,
}

/// Why a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Absent,
    StandBy,
    OutOfTurn,
}

impl Watcher {
    pub(super) fn session(&self) -> Option<u64> {
        self.call.as_ref().map(|call| call.session)
    }

    fn pause(&mut self) -> Span {
        let doubled = PAUSE_FIRST.0 << self.failures.min(8);
        self.failures += 1;
        Span(doubled).min(PAUSE_LAST)
    }
}

impl World<'_> {
    pub(super) fn watch_connects(&mut self, life: u32, engine: usize) {
        if self.admission.life() != (life, true) {
            return;
        }
        self.sessions += 1;
        let session = self.sessions;
        let process = Process { engine, life: self.engines[engine].life };
        let name = self.admission.name();
        let now = self.now;
        let Some(watcher) = self.admission.watcher(engine) else { return };
        let resume = watcher.resume.clone();
        watcher.call = Some(Call {
            session,
            process,
            is_answered: false,
            heard_at: now,
            granted: None,
            is_lost: false,
        });
        self.agenda.put(now + SECOND, Event::WatchSecond(life, engine, session));
        if self.engines[engine].running.is_none() {
            // Nobody listens there.
            self.watch_broken(engine, Broken::Absent);
            self.settle();
            return;
        }
        self.say_to_engine(engine, session, ToEngine::Hello { session, name, resume });
    }

    /// Sends something on a watch. Once anything was lost, all that follows is.
    fn say_to_engine(&mut self, engine: usize, session: u64, message: ToEngine) {
        let sent = self.post(Link::Watch(engine), 0, self.scenario.wires.watch);
        let Some(watcher) = self.admission.watcher(engine) else { return };
        let Some(call) = watcher.call.as_mut().filter(|call| call.session == session) else {
            return;
        };
        call.is_lost |= sent.is_none();
        if let (Some(at), false) = (sent, call.is_lost) {
            self.agenda.put(at, Event::ToEngine(call.process, message));
        }
    }

    pub(super) fn watch_second(&mut self, life: u32, engine: usize, session: u64) {
        if self.admission.life() != (life, true) {
            return;
        }
        let now = self.now;
        let Some(watcher) = self.admission.watcher(engine) else { return };
        let Some(call) = watcher.call.as_ref().filter(|call| call.session == session) else {
            return;
        };
        if !call.is_answered || now.since(call.heard_at) >= GONE_AFTER {
            self.hang_up(engine, session);
            self.watch_broken(engine, Broken::Absent);
            return self.settle();
        }
        self.say_to_engine(engine, session, ToEngine::WatchPing(session));
        self.agenda.put(now + SECOND, Event::WatchSecond(life, engine, session));
    }

    /// The watcher drops its call.
    pub(super) fn hang_up(&mut self, engine: usize, session: u64) {
        let sent = self.post(Link::Watch(engine), 0, self.scenario.wires.watch);
        let process = Process { engine, life: self.engines[engine].life };
        if let Some(at) = sent {
            self.agenda.put(at, Event::ToEngine(process, ToEngine::Bye(session)));
        }
    }

    pub(super) fn watch_ends(&mut self, engine: usize, session: u64, is_rival: bool) {
        let Some(watcher) = self.admission.watcher(engine) else { return };
        if watcher.session() == Some(session) {
            let broken = if is_rival { Broken::StandBy } else { Broken::Absent };
            self.watch_broken(engine, broken);
        }
    }

    /// Tells what has become of the connection, forgets an engine that has gone, and tries again later.
    fn watch_broken(&mut self, engine: usize, broken: Broken) {
        let now = self.now;
        let life = self.admission.life().0;
        self.tell_connection(|controller, _, id| controller.interrupted(id), engine);
        let Some(watcher) = self.admission.watcher(engine) else { return };
        watcher.call = None;
        let is_gone = broken == Broken::StandBy || now.since(watcher.heard_at) >= GONE_AFTER;
        let is_known = watcher.resume.is_some();
        if is_gone || broken == Broken::OutOfTurn {
            watcher.resume = None;
        }
        let pause = watcher.pause();
        if is_known && is_gone {
            self.tell_connection(|controller, now, id| controller.detached(now, id), engine);
        }
        let scatter = 0.75 + 0.5 * self.draws.unit();
        self.agenda.put(now + pause.mul_f64(scatter), Event::WatchConnects(life, engine));
    }

    pub(super) fn watched(&mut self, engine: usize, session: u64, news: Vec<News>) {
        for one in news {
            let now = self.now;
            let Some(watcher) = self.admission.watcher(engine) else { return };
            watcher.heard_at = now;
            let Some(call) = watcher.call.as_mut().filter(|call| call.session == session) else {
                return;
            };
            call.is_answered = true;
            call.heard_at = now;
            if let Err(why) = self.heard_news(engine, one) {
                self.auditor.find(now, None, Rule::Records, why);
                self.hang_up(engine, session);
                return self.watch_broken(engine, Broken::OutOfTurn);
            }
        }
    }

    fn heard_news(&mut self, engine: usize, news: News) -> Result<(), String> {
        let Some(watcher) = self.admission.watcher(engine) else { return Ok(()) };
        let Some(call) = watcher.call.as_mut() else { return Ok(()) };
        match news {
            News::Ping => return Ok(()),
            News::Granted { epoch, instance, resumed: false } => {
                watcher.failures = 0;
                call.granted = Some((epoch, instance));
                return Ok(());
            }
            News::Granted { epoch, instance, resumed: true } => {
                watcher.failures = 0;
                if watcher.resume.as_ref().is_none_or(|(known, _)| *known != instance) {
                    return Err("resumed where nothing was read".into());
                }
                self.attach(engine, epoch, &instance, None);
                return Ok(());
            }
            News::Snapshot(ref published) => {
                if let Some((epoch, instance)) = call.granted.take() {
                    watcher.resume = Some((Arc::clone(&instance), published.record));
                    let now = self.admission.clock(self.now);
                    let snapshot = wire::snapshot(published, now);
                    self.attach(engine, epoch, &instance, Some(snapshot));
                    return Ok(());
                }
                if watcher.resume.as_ref().is_none_or(|(known, _)| *known != published.instance) {
                    return Err("a snapshot of an unknown engine".into());
                }
            }
            News::Record(ref record) => match watcher.resume.as_mut() {
                Some((_, last)) if call.granted.is_none() && record.number == *last + 1 => {
                    *last = record.number;
                }
                Some((_, last)) => {
                    return Err(format!("record {} came after {last}", record.number));
                }
                None => return Err("a record before a snapshot".into()),
            },
        }
        self.tell_controller(engine, news);
        Ok(())
    }

    fn attach(
        &mut self,
        engine: usize,
        epoch: u64,
        instance: &Arc<str>,
        snapshot: Option<admit::Snapshot>,
    ) {
        let attached = |controller: &mut admit::Controller, now, id| {
            controller.attached(now, id, epoch, instance, snapshot);
        };
        self.tell_connection(attached, engine);
    }
}
