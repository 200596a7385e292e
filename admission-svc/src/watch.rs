//! Watches one engine: the only source of what runs there.
//!
//! connect -> hello -> granted -> (snapshot) -> records and snapshots -> broken -> pause -> connect.
//! A broken connection is resumed where it stopped, if the engine still can; an engine that has not
//! been heard for [`GONE_AFTER`] is forgotten. Another promiser at the engine makes this one stand by:
//! it asks again and again, and says so.

use std::{sync::Arc, time::Duration};

use actix::{Addr, MailboxError};
use admit::EngineId;
use proto::v1::{self, engine_client::EngineClient, watch_event, watch_request};
use rand_chacha::ChaCha8Rng;
use service::clock::Clock;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, transport::Channel};

use crate::{
    actor::Admission,
    backoff::Backoff,
    convert::{self, Invalid},
    message::{News, Tell},
};

/// An engine that was not heard for this long is gone. It lets our epoch lapse as soon.
const GONE_AFTER: Duration = Duration::from_secs(3);
const PING_EVERY: Duration = Duration::from_secs(1);
/// For the engine to take the call.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// An engine that has not been there yet is loading its model: no alarm before then.
const LOADING_WITHIN: Duration = Duration::from_secs(60);

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("cannot reach the engine: {}", .0.message())]
    Call(Status),
    #[error("standing by, another promiser holds the epoch: {}", .0.message())]
    StandBy(Status),
    #[error("the engine did not answer the call within {} s", ANSWER_WITHIN.as_secs())]
    NoAnswer,
    #[error("the engine was silent for {} s", GONE_AFTER.as_secs())]
    Silent,
    #[error("the engine ended the stream")]
    Closed,
    #[error("the engine sent a message that does not do: {0}")]
    Garbled(#[from] Invalid),
    #[error("record {got} came after {last}")]
    Gap { last: u64, got: u64 },
    #[error("a message came out of turn")]
    OutOfTurn,
    #[error("the actor has ended")]
    Ended(#[from] MailboxError),
}

impl Broken {
    /// Whether nobody is there, rather than somebody who does not do.
    fn is_absence(&self) -> bool {
        match self {
            Self::Call(_) | Self::NoAnswer | Self::Silent | Self::Closed => true,
            Self::StandBy(_)
            | Self::Garbled(_)
            | Self::Gap { .. }
            | Self::OutOfTurn
            | Self::Ended(_) => false,
        }
    }
}

impl From<Status> for Broken {
    fn from(status: Status) -> Self {
        if status.code() == Code::FailedPrecondition {
            return Self::StandBy(status);
        }
        Self::Call(status)
    }
}

/// Where reading stopped.
#[derive(Clone, Debug)]
struct Resume {
    instance: Arc<str>,
    record: u64,
}

/// A grant that waits for its snapshot.
struct Granted {
    epoch: u64,
    instance: Arc<str>,
}

/// Watches one engine for as long as it is polled.
pub(crate) struct Watcher {
    engine: EngineId,
    address: String,
    client: EngineClient<Channel>,
    actor: Addr<Admission>,
    clock: Clock,
    /// What we call ourselves.
    name: String,
    /// Present while the controller knows the engine.
    resume: Option<Resume>,
    heard_at: Instant,
    /// Until when an absent engine counts as loading; over once it has been there.
    loading_until: Option<Instant>,
    /// The problem that was told last.
    said: String,
    backoff: Backoff,
    rng: ChaCha8Rng,
}

impl Watcher {
    pub(crate) fn new(
        engine: EngineId,
        address: String,
        channel: Channel,
        actor: Addr<Admission>,
        clock: Clock,
        name: String,
        rng: ChaCha8Rng,
    ) -> Self {
        Self {
            engine,
            address,
            client: EngineClient::new(channel),
            actor,
            clock,
            name,
            resume: None,
            heard_at: Instant::now(),
            loading_until: Some(Instant::now() + LOADING_WITHIN),
            said: String::new(),
            backoff: Backoff::default(),
            rng,
        }
    }

    /// Runs until the actor ends.
    pub(crate) async fn run(mut self) {
        loop {
            let Err(broken) = self.session().await else { continue };
            let problem = broken.to_string();
            self.say(&broken, &problem);
            if self.broken(&broken, problem).await.is_err() {
                return;
            }
            sleep(self.backoff.pause(&mut self.rng)).await;
        }
    }

    /// Tells of each problem once, and of an engine that is not there yet without alarm.
    fn say(&mut self, broken: &Broken, problem: &str) {
        let is_loading = self.loading_until.is_some_and(|until| Instant::now() < until);
        if is_loading && broken.is_absence() {
            if self.said.is_empty() {
                tracing::info!(engine = %self.address, "waiting for the engine");
                self.said = "waiting".into();
            }
            return;
        }
        if self.said != problem {
            tracing::warn!(engine = %self.address, "watch: {problem}");
            problem.clone_into(&mut self.said);
        }
    }

    /// Tells what has become of the connection, and forgets an engine that has gone.
    async fn broken(&mut self, broken: &Broken, problem: String) -> Result<(), MailboxError> {
        self.tell(News::Interrupted(problem)).await?;
        let untrusted =
            matches!(broken, Broken::Garbled(_) | Broken::Gap { .. } | Broken::OutOfTurn);
        let gone = matches!(broken, Broken::StandBy(_)) || self.heard_at.elapsed() >= GONE_AFTER;
        if untrusted || gone {
            // Reading starts again from a snapshot.
            let known = self.resume.take().is_some();
            if known && gone {
                self.tell(News::Detached).await?;
            }
        }
        Ok(())
    }

    /// One connection, until it breaks.
    async fn session(&mut self) -> Result<(), Broken> {
        let (outbound, requests) = mpsc::channel(4);
        let hello = watch_request::Message::Hello(self.hello());
        // The channel is new and holds four.
        let _ = outbound.try_send(v1::WatchRequest { message: Some(hello) });
        let call = self.client.watch(ReceiverStream::new(requests));
        let response = timeout(ANSWER_WITHIN, call).await.map_err(|_| Broken::NoAnswer)??;
        let mut events = response.into_inner();
        let mut ping = interval(PING_EVERY);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut granted = None;
        let mut heard_at = Instant::now();
        loop {
            tokio::select! {
                event = events.message() => {
                    heard_at = Instant::now();
                    let event = event?.ok_or(Broken::Closed)?.event.ok_or(Broken::OutOfTurn)?;
                    self.heard(event, &mut granted).await?;
                }
                _ = ping.tick() => {
                    let ping = watch_request::Message::Ping(v1::Ping {});
                    // An engine that does not take four pings is silent too, and that ends it.
                    let _ = outbound.try_send(v1::WatchRequest { message: Some(ping) });
                }
                () = sleep_until(heard_at + GONE_AFTER) => return Err(Broken::Silent),
            }
        }
    }

    fn hello(&self) -> v1::Hello {
        v1::Hello {
            instance: self.name.clone(),
            role: v1::hello::Role::Promiser.into(),
            resume_after_record: self.resume.as_ref().map(|it| it.record),
            resume_engine_instance: self
                .resume
                .as_ref()
                .map(|it| it.instance.to_string())
                .unwrap_or_default(),
        }
    }

    /// Passes one message on.
    async fn heard(
        &mut self,
        event: watch_event::Event,
        granted: &mut Option<Granted>,
    ) -> Result<(), Broken> {
        self.heard_at = Instant::now();
        match event {
            watch_event::Event::Ping(_) => Ok(()),
            watch_event::Event::Granted(it) => self.granted(&it, granted).await,
            watch_event::Event::Snapshot(it) => self.snapshot(it, granted).await,
            watch_event::Event::Record(it) => self.record(it, granted).await,
        }
    }

    async fn granted(
        &mut self,
        wire: &v1::Granted,
        granted: &mut Option<Granted>,
    ) -> Result<(), Broken> {
        let instance = convert::instance(&wire.engine_instance)?;
        self.backoff.reset();
        self.loading_until = None;
        self.said.clear();
        if !wire.resumed {
            *granted = Some(Granted { epoch: wire.epoch, instance });
            return Ok(());
        }
        // It can only go on where we were.
        self.resume.as_ref().filter(|it| it.instance == instance).ok_or(Broken::OutOfTurn)?;
        tracing::info!(engine = %self.address, epoch = wire.epoch, "watch resumed");
        self.tell(News::Attached { epoch: wire.epoch, instance, snapshot: None }).await?;
        Ok(())
    }

    async fn snapshot(
        &mut self,
        wire: v1::EngineSnapshot,
        granted: &mut Option<Granted>,
    ) -> Result<(), Broken> {
        let snapshot = Box::new(convert::snapshot(wire, self.clock.now())?);
        let Some(Granted { epoch, instance }) = granted.take() else {
            let known = self.resume.as_ref().is_some_and(|it| it.instance == snapshot.instance);
            if !known {
                return Err(Broken::OutOfTurn);
            }
            self.tell(News::Snapshot(snapshot)).await?;
            return Ok(());
        };
        if snapshot.instance != instance {
            return Err(Broken::OutOfTurn);
        }
        tracing::info!(engine = %self.address, epoch, instance = %instance, "watch attached");
        self.resume = Some(Resume { instance: Arc::clone(&instance), record: snapshot.record });
        self.tell(News::Attached { epoch, instance, snapshot: Some(snapshot) }).await?;
        Ok(())
    }

    async fn record(&mut self, wire: v1::Record, granted: &Option<Granted>) -> Result<(), Broken> {
        let record = convert::record(wire)?;
        let resume = self.resume.as_mut().filter(|_| granted.is_none()).ok_or(Broken::OutOfTurn)?;
        if Some(record.number) != resume.record.checked_add(1) {
            return Err(Broken::Gap { last: resume.record, got: record.number });
        }
        resume.record = record.number;
        self.tell(News::Record(record)).await?;
        Ok(())
    }

    async fn tell(&self, news: News) -> Result<(), MailboxError> {
        self.actor.send(Tell { engine: self.engine, news }).await
    }
}
