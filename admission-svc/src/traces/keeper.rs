//! The thread that owns the store, and the queue in front of it.
//!
//! The queue is bounded and nobody waits for it: who finds it full drops the row and counts it. A store
//! that fails, or a folder that cannot be opened, is tried again every second, and rows that come meanwhile are dropped and counted.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    thread,
    time::{Duration, Instant},
};

use admit::Trace;
use tokio::sync::oneshot;

pub(crate) use super::row::Origin;
use super::{Caps, Disk, Page, Ring, StoreError, TraceStore, row::row};
use crate::metrics::{Dropped, TraceMetrics};

/// Rows that may wait for the thread: some seconds of a busy service, a few megabytes.
const QUEUE: usize = 8_192;
/// Rows that are stored at once.
const BATCH: usize = 256;
/// Rows that may wait for a flush.
const UNFLUSHED_MAX: usize = 1_000;
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// How long a predecessor may take to let the folder go.
const LOCK_WITHIN: Duration = Duration::from_secs(10);
const LOCK_EVERY: Duration = Duration::from_millis(100);

/// What the thread is asked for.
enum Request {
    Keep(Box<Trace>),
    Page { after: u64, limit: usize, answer: Answer },
}

type Answer = oneshot::Sender<Result<Reading, StoreError>>;

/// A page, and how far the rows went when it was read.
pub(crate) struct Reading {
    pub(crate) page: Page,
    /// The number of the latest row.
    pub(crate) numbered: u64,
}

/// Where closed decisions go.
#[derive(Clone)]
pub(crate) struct Recorder {
    queue: SyncSender<Request>,
    metrics: TraceMetrics,
}

impl Recorder {
    /// Hands a row over. Never waits.
    pub(crate) fn keep(&self, trace: Box<Trace>) {
        match self.queue.try_send(Request::Keep(trace)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.metrics.dropped(Dropped::QueueFull, 1),
            Err(TrySendError::Disconnected(_)) => self.metrics.dropped(Dropped::Ended, 1),
        }
    }

    /// Asks for rows, after all that was handed over before. An answer that is dropped says that the
    /// queue is full.
    pub(crate) fn page(&self, after: u64, limit: usize, answer: Answer) {
        // Dropping the request drops the answer.
        let _ = self.queue.try_send(Request::Page { after, limit, answer });
    }
}

/// What to keep, and where.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    /// The folder; absent keeps the latest rows in memory.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) caps: Caps,
    /// Rows in memory, when there is no folder.
    pub(crate) ring_rows: usize,
    /// How long a row may wait for its flush.
    pub(crate) flush_every: Duration,
    pub(crate) origin: Origin,
}

impl Keeper {
    /// Starts the thread. It ends, and flushes first, when every recorder is gone.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start(self) -> std::io::Result<(Recorder, thread::JoinHandle<()>)> {
        let (queue, requests) = sync_channel(QUEUE);
        let metrics = TraceMetrics::new();
        let recorder = Recorder { queue, metrics: metrics.clone() };
        let body = move || {
            let (store, opening) = self.store(&metrics);
            let worker = Worker {
                store,
                opening,
                origin: self.origin,
                flush_every: self.flush_every,
                metrics,
                batch: Vec::new(),
                unflushed: 0,
                flush_at: None,
                retry_at: None,
                failing: false,
            };
            worker.run(&requests);
        };
        Ok((recorder, thread::Builder::new().name("traces".into()).spawn(body)?))
    }

    /// Memory when no folder is set. A folder that cannot be had within some seconds is what the worker
    /// goes on trying to open.
    fn store(&self, metrics: &TraceMetrics) -> (Option<Box<dyn TraceStore>>, Option<Opening>) {
        metrics.on_disk(false);
        let Some(dir) = self.dir.clone() else {
            tracing::info!(rows = self.ring_rows, "traces stay in memory: no trace-dir is set");
            return (Some(Box::new(Ring::new(self.ring_rows))), None);
        };
        let opening = Opening { dir, caps: self.caps };
        let deadline = Instant::now() + LOCK_WITHIN;
        loop {
            match opening.open(metrics) {
                Err(StoreError::InUse { .. }) if Instant::now() < deadline => {
                    thread::sleep(LOCK_EVERY);
                }
                Ok(store) => return (Some(store), None),
                // The worker tells of it.
                Err(_) => return (None, Some(opening)),
            }
        }
    }
}

/// A folder that is to be opened.
struct Opening {
    dir: PathBuf,
    caps: Caps,
}

impl Opening {
    fn open(&self, metrics: &TraceMetrics) -> Result<Box<dyn TraceStore>, StoreError> {
        let disk = Disk::open(&self.dir, self.caps)?;
        metrics.on_disk(true);
        Ok(Box::new(disk))
    }
}

/// The thread.
struct Worker {
    /// Absent while the folder cannot be opened.
    store: Option<Box<dyn TraceStore>>,
    /// The folder, while it is not open.
    opening: Option<Opening>,
    origin: Origin,
    flush_every: Duration,
    metrics: TraceMetrics,
    batch: Vec<proto::v1::TraceRow>,
    unflushed: usize,
    flush_at: Option<Instant>,
    /// Not before then.
    retry_at: Option<Instant>,
    /// Whether the store's failure was told.
    failing: bool,
}

impl Worker {
    fn run(mut self, requests: &Receiver<Request>) {
        // Recovery before the first row, so that what was lost is told at the start.
        self.is_ready();
        // The store contains what sled does; whatever else breaks must not end the keeping either.
        while catch_unwind(AssertUnwindSafe(|| self.serve(requests))).is_err() {
            let lost = std::mem::take(&mut self.batch).len();
            self.metrics.dropped(Dropped::Disk, lost as u64);
            tracing::error!(lost, "keeping traces panicked, and goes on");
        }
    }

    /// Returns when every recorder is gone.
    fn serve(&mut self, requests: &Receiver<Request>) {
        loop {
            match self.next(requests) {
                Ok(request) => {
                    self.take(request);
                    requests.try_iter().take(BATCH).for_each(|request| self.take(request));
                    self.store_batch();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.flush(),
            }
            let is_due = self.flush_at.is_some_and(|at| at <= Instant::now());
            if is_due || self.unflushed >= UNFLUSHED_MAX {
                self.flush();
            }
        }
    }

    fn next(&self, requests: &Receiver<Request>) -> Result<Request, RecvTimeoutError> {
        match self.flush_at {
            Some(at) => requests.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Keep(trace) => self.batch.push(row(&trace, &self.origin)),
            Request::Page { after, limit, answer } => {
                self.store_batch();
                let page = self.page(after, limit);
                // Whoever asked may have gone.
                let _ = answer.send(page);
            }
        }
    }

    fn page(&mut self, after: u64, limit: usize) -> Result<Reading, StoreError> {
        self.is_ready();
        let Some(store) = &mut self.store else {
            return Err(StoreError::Io {
                doing: "cannot read traces",
                reason: "the trace folder could not be opened yet".into(),
            });
        };
        let page = store.page(after, limit);
        let facts = store.facts();
        self.metrics.show(facts);
        let page = page?;
        self.metrics.skipped(page.skipped);
        Ok(Reading { page, numbered: facts.numbered })
    }

    fn store_batch(&mut self) {
        let rows = std::mem::take(&mut self.batch);
        let count = rows.len();
        if count == 0 {
            return;
        }
        let is_ready = self.is_ready();
        let Some(store) = self.store.as_mut().filter(|_| is_ready) else {
            return self.metrics.dropped(Dropped::Disk, count as u64);
        };
        // Rows of a failed batch have numbers: recovery counts them as lost.
        if let Err(error) = store.append(rows) {
            return self.failed(&error);
        }
        self.metrics.stored(count as u64);
        self.unflushed += count;
        self.flush_at.get_or_insert_with(|| Instant::now() + self.flush_every);
    }

    fn is_ready(&mut self) -> bool {
        if self.retry_at.is_some_and(|at| at > Instant::now()) {
            return false;
        }
        if let Err(error) = self.readied() {
            self.failed(&error);
            return false;
        }
        if std::mem::take(&mut self.failing) {
            tracing::info!("traces are written again");
        }
        self.retry_at = None;
        true
    }

    /// Opens the folder, if it still has to be, and what is in it.
    fn readied(&mut self) -> Result<(), StoreError> {
        if let Some(opening) = &self.opening {
            self.store = Some(opening.open(&self.metrics)?);
            self.opening = None;
        }
        let Some(store) = &mut self.store else { return Ok(()) };
        store.ready()?;
        self.metrics.show(store.facts());
        Ok(())
    }

    fn flush(&mut self) {
        self.unflushed = 0;
        self.flush_at = None;
        let Some(store) = &mut self.store else { return };
        match store.flush() {
            Ok(()) => self.metrics.show(store.facts()),
            Err(error) => self.failed(&error),
        }
    }

    /// Told once for each outage.
    fn failed(&mut self, error: &StoreError) {
        self.retry_at = Some(Instant::now() + RETRY_EVERY);
        if !std::mem::replace(&mut self.failing, true) {
            tracing::error!("traces are not written, rows are dropped and counted: {error}");
        }
    }
}
