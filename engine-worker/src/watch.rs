//! One `Watch` stream: records in order, the latest snapshot, pings.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use proto::v1;
use sched::Epochs;
use service::clock::Clock;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time,
};
use tonic::{Status, Streaming};

use crate::{hub::Hub, scheduling::Told, wire};

/// Both sides ping this often.
const PING: Duration = Duration::from_secs(1);
/// A watcher that has sent nothing for this long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// Snapshots are sent at most this often.
const SNAPSHOT_GAP: Duration = Duration::from_millis(10);
/// The names of kept prefixes are sent at most this often.
const LISTING_GAP: Duration = Duration::from_secs(1);
/// Records read from the ring at a time.
const RECORDS_AT_ONCE: usize = 256;

/// What watchers share.
#[derive(Debug)]
pub(crate) struct WatchDesk {
    pub(crate) hub: Arc<Hub>,
    pub(crate) epochs: Mutex<Epochs>,
    pub(crate) clock: Clock,
    pub(crate) instance: String,
    /// How the engine schedules.
    pub(crate) told: Told,
}

impl WatchDesk {
    /// A desk under a fresh instance id. Epochs count from the wall clock, which is above every epoch of an
    /// earlier process.
    pub(crate) fn new(hub: Arc<Hub>, clock: Clock, unix_micros: u64, told: Told) -> Self {
        let instance = uuid::Uuid::now_v7().simple().to_string();
        Self { hub, epochs: Mutex::new(Epochs::new(unix_micros)), clock, instance, told }
    }

    pub(crate) fn epochs(&self) -> std::sync::MutexGuard<'_, Epochs> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `epoch` is in office now.
    pub(crate) fn honours(&self, epoch: u64) -> bool {
        self.epochs().honours(self.clock.now(), epoch)
    }
}

/// The epoch of one stream. Ends with it.
#[derive(Debug)]
struct Office {
    desk: Arc<WatchDesk>,
    /// 0 for an observer.
    epoch: u64,
}

impl Office {
    fn enter(desk: Arc<WatchDesk>, hello: &v1::Hello) -> Result<Self, Status> {
        let epoch = match hello.role() {
            v1::hello::Role::Promiser => {
                let now = desk.clock.now();
                let granted = desk.epochs().grant(now, &hello.instance);
                granted.map_err(|held| Status::failed_precondition(held.to_string()))?
            }
            v1::hello::Role::Observer => 0,
            v1::hello::Role::Unspecified => {
                return Err(Status::invalid_argument("hello.role: missing"));
            }
        };
        tracing::info!(watcher = hello.instance, epoch, "watch begins");
        Ok(Self { desk, epoch })
    }

    /// Says whether the watcher may go on.
    fn ping(&self) -> bool {
        self.epoch == 0 || self.desk.epochs().ping(self.desk.clock.now(), self.epoch)
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        tracing::info!(epoch = self.epoch, "watch ends");
        self.desk.epochs().release(self.epoch);
    }
}

/// Starts a watch: waits for the hello, then sends into the channel that it returns until either
/// side is gone. Keeps its place among the watchers for as long.
pub(crate) async fn start(
    desk: Arc<WatchDesk>,
    place: OwnedSemaphorePermit,
    mut inbound: Streaming<v1::WatchRequest>,
) -> Result<mpsc::Receiver<Result<v1::WatchEvent, Status>>, Status> {
    let hello = match time::timeout(SILENCE_MAX, inbound.message()).await {
        Ok(Ok(Some(v1::WatchRequest {
            message: Some(v1::watch_request::Message::Hello(hello)),
        }))) => hello,
        Ok(Err(status)) => return Err(status),
        Ok(Ok(_)) => return Err(Status::invalid_argument("a watch begins with a hello")),
        Err(_) => return Err(Status::deadline_exceeded("no hello within 3 s")),
    };
    if hello.instance.len() > 256 {
        return Err(Status::invalid_argument("hello.instance: more than 256 bytes"));
    }
    let office = Office::enter(desk.clone(), &hello)?;
    let (outbound, events) = mpsc::channel(64);
    let sent = resume_point(&desk, &hello);
    let watcher = Watcher { sent, listed: None, office, desk, outbound };
    tokio::spawn(async move {
        watcher.run(inbound).await;
        drop(place);
    });
    Ok(events)
}

/// The record after which a watcher can go on, if it can.
fn resume_point(desk: &WatchDesk, hello: &v1::Hello) -> Option<u64> {
    let after = hello.resume_after_record?;
    let same = hello.resume_engine_instance == desk.instance;
    (same && desk.hub.after(after, 0).is_some()).then_some(after)
}

/// The outbound side ended: the watcher left.
struct Gone;

struct Watcher {
    desk: Arc<WatchDesk>,
    office: Office,
    outbound: mpsc::Sender<Result<v1::WatchEvent, Status>>,
    /// The last record that was sent; `None` until a snapshot says where to begin.
    sent: Option<u64>,
    /// When kept prefixes were sent last, and as of which version.
    listed: Option<(time::Instant, u64)>,
}

impl Watcher {
    async fn run(mut self, mut inbound: Streaming<v1::WatchRequest>) {
        let mut latest = self.desk.hub.subscribe();
        let mut pings = time::interval(PING);
        let mut snapshots = time::interval(SNAPSHOT_GAP);
        snapshots.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        let mut heard_at = time::Instant::now();
        let mut fresh = true;
        if self.greet().await.is_err() {
            return;
        }
        loop {
            let told = tokio::select! {
                message = inbound.message() => match message {
                    Ok(Some(_)) if self.office.ping() => { heard_at = time::Instant::now(); Ok(()) }
                    Ok(Some(_)) => self.end(Status::aborted("the epoch has lapsed")).await,
                    Ok(None) | Err(_) => Err(Gone),
                },
                changed = latest.changed() => {
                    fresh = true;
                    let until = latest.borrow_and_update().record;
                    match changed { Ok(()) => self.records(until).await, Err(_) => Err(Gone) }
                }
                _ = snapshots.tick(), if fresh => {
                    fresh = false;
                    self.snapshot().await
                }
                _ = pings.tick() => {
                    if heard_at.elapsed() > SILENCE_MAX { Err(Gone) } else { self.ping().await }
                }
            };
            if told.is_err() {
                return;
            }
        }
    }

    async fn greet(&mut self) -> Result<(), Gone> {
        let granted = v1::Granted {
            epoch: self.office.epoch,
            engine_instance: self.desk.instance.clone(),
            resumed: self.sent.is_some(),
        };
        self.send(v1::watch_event::Event::Granted(granted)).await?;
        self.snapshot().await
    }

    /// Sends every record since the last one, up to number `until`. A watcher that fell behind the ring is
    /// told to begin again: it will get a snapshot.
    async fn records(&mut self, until: u64) -> Result<(), Gone> {
        while let Some(sent) = self.sent.filter(|sent| *sent < until) {
            let Some(records) = self.desk.hub.after(sent, RECORDS_AT_ONCE) else {
                return self.end(Status::out_of_range("the watcher fell behind")).await;
            };
            for record in records.iter().take_while(|record| record.number <= until) {
                self.sent = Some(record.number);
                if let Some(record) = wire::record(record) {
                    self.send(v1::watch_event::Event::Record(record)).await?;
                }
            }
        }
        Ok(())
    }

    /// Sends the latest snapshot, after the records that it includes.
    async fn snapshot(&mut self) -> Result<(), Gone> {
        let published = self.desk.hub.latest();
        self.records(published.record).await?;
        self.sent.get_or_insert(published.record);
        let WatchDesk { instance, told, clock, .. } = &*self.desk;
        let mut snapshot = wire::snapshot(&published, instance, told, clock.now());
        snapshot.prefixes = self.prefixes();
        self.send(v1::watch_event::Event::Snapshot(snapshot)).await
    }

    /// The names of kept prefixes, when they changed and it is time.
    fn prefixes(&mut self) -> Option<v1::PrefixIndex> {
        if self.listed.is_some_and(|(at, _)| at.elapsed() < LISTING_GAP) {
            return None;
        }
        let listing = self.desk.hub.prefixes.listing(self.listed.map(|(_, version)| version))?;
        self.listed = Some((time::Instant::now(), listing.version));
        Some(wire::prefixes(listing))
    }

    async fn ping(&self) -> Result<(), Gone> {
        self.send(v1::watch_event::Event::Ping(v1::Ping {})).await
    }

    async fn end(&self, status: Status) -> Result<(), Gone> {
        let _ = self.outbound.send(Err(status)).await;
        Err(Gone)
    }

    /// A watcher that does not read for [`SILENCE_MAX`] is gone: the ring would outrun it anyway.
    async fn send(&self, event: v1::watch_event::Event) -> Result<(), Gone> {
        let event = Ok(v1::WatchEvent { event: Some(event) });
        match time::timeout(SILENCE_MAX, self.outbound.send(event)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }
}
