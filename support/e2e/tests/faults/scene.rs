//! One fault with clients before, during and after it, and what holds for every fault.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use e2e::{Answer, Chat, Gauges, LeftOver, Spec, Stack};
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

/// Everything is well again this soon after a fault's cause has ended, and nothing is left over this soon
/// after the last client has gone.
pub(crate) const RECOVERY: Duration = Duration::from_secs(5);
/// No client waits longer, whatever happens.
const ANSWER_MAX: Duration = Duration::from_secs(12);
/// Streams that run when the fault begins.
const STREAMS: usize = 8;
/// A new client comes this often while the fault lasts.
const ARRIVAL: Duration = Duration::from_millis(100);

/// A stack and what it holds when it is idle.
pub(crate) struct Scene {
    pub(crate) stack: Stack,
    idle: Gauges,
}

/// What became of the clients.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Of the streams that ran when the fault began.
    pub(crate) streams: Tally,
    /// Of those who came during the fault.
    pub(crate) arrivals: Tally,
}

/// How many answers of each kind there were.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) complete: usize,
    /// 503, with a time to come back.
    pub(crate) refused: usize,
    /// An error in band.
    pub(crate) broken: usize,
    /// Nobody was there to answer, or the connection was lost with the gateway.
    pub(crate) lost: usize,
}

/// A stack for faults: steps of 5 ms, and room for every client.
pub(crate) fn spec() -> Spec {
    // What a lost client has prepared is kept for a while; a second is long enough here.
    Spec::mock(5_000, 200)
        .engine(&["--slots", "16", "--prepared-ms", "1000"])
        .admission(&["--limit-requests", "64"])
}

impl Scene {
    pub(crate) async fn set(spec: Spec) -> Self {
        let stack = Stack::start(spec).await;
        let warm = Chat::new("warm up", 4).ask(&stack, 0).await;
        assert!(warm.is_complete(), "{warm:?}");
        let idle = settled(&stack).await;
        Self { stack, idle }
    }

    /// Runs a fault: `cause` makes it, waits and mends it. Clients run before it, come during it and
    /// afterwards; all that holds for every fault is checked.
    ///
    /// # Panics
    /// A client is not answered as it should be, the stack does not recover, or something is left over.
    pub(crate) async fn play<C>(&mut self, name: &str, cause: C) -> Outcome
    where
        C: AsyncFnOnce(&mut Stack),
    {
        eprintln!("--- {name}");
        let streams: Vec<_> = (0..STREAMS).map(|number| self.client(number, 250)).collect();
        sleep(Duration::from_millis(300)).await;
        let arrivals = Arrivals::begin(self);
        cause(&mut self.stack).await;
        let mended_at = Instant::now();

        self.recovered(name, mended_at).await;
        let mut outcome = Outcome::default();
        outcome.arrivals.add_all(name, arrivals.end().await);
        let mut ended = Vec::new();
        for stream in streams {
            ended.push(stream.await.expect("a client does not panic"));
        }
        outcome.streams.add_all(name, ended);
        self.nothing_is_left(name).await;
        eprintln!("{outcome:?}");
        outcome
    }

    /// A client that asks now, on its own task.
    fn client(&self, number: usize, tokens: u32) -> JoinHandle<Answer> {
        tokio::spawn(ask(self.stack.http().clone(), self.url(), number, tokens))
    }

    fn url(&self) -> String {
        self.stack.url(0, "/v1/chat/completions")
    }

    async fn recovered(&self, name: &str, mended_at: Instant) {
        // Right after a restart the gateway may not have noticed yet, and say that all is well.
        while !self.is_well().await {
            let waited = mended_at.elapsed();
            assert!(waited < RECOVERY, "{name}: not well {waited:?} after it was mended");
            sleep(Duration::from_millis(20)).await;
        }
        eprintln!("recovered after {:?}", mended_at.elapsed());
    }

    async fn is_well(&self) -> bool {
        self.stack.is_healthy(0).await
            && Chat::new("all is well", 4).ask(&self.stack, 0).await.is_complete()
    }

    /// # Panics
    /// A gauge does not return to its idle value.
    pub(crate) async fn nothing_is_left(&self, name: &str) {
        let left = self.left_over(RECOVERY).await;
        assert!(left.is_empty(), "{name} left something over:\n{left}");
    }

    async fn left_over(&self, patience: Duration) -> LeftOver {
        let deadline = Instant::now() + patience;
        loop {
            let gauges = self.stack.gauges().await.expect("every process answers");
            let left = gauges.left_over(&self.idle);
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The gauges once they stand still: the engine sets its own twice a second.
async fn settled(stack: &Stack) -> Gauges {
    let mut last = Gauges::default();
    for _ in 0..20 {
        sleep(Duration::from_millis(700)).await;
        let gauges = stack.gauges().await.expect("every process answers");
        if gauges == last && stack.is_idle().await {
            return gauges;
        }
        last = gauges;
    }
    panic!("the stack does not come to rest");
}

async fn ask(http: reqwest::Client, url: String, number: usize, tokens: u32) -> Answer {
    let chat = Chat::new(&format!("client {number}"), tokens);
    let chat = if number.is_multiple_of(2) { chat } else { chat.whole() };
    let answer = timeout(ANSWER_MAX, chat.ask_url(&http, &url)).await;
    answer.unwrap_or_else(|_| panic!("client {number} had no answer within {ANSWER_MAX:?}"))
}

/// Clients that come one after the other.
struct Arrivals {
    stop: watch::Sender<bool>,
    clients: JoinHandle<Vec<Answer>>,
}

impl Arrivals {
    fn begin(scene: &Scene) -> Self {
        let (http, url) = (scene.stack.http().clone(), scene.url());
        let (stop, mut stopped) = watch::channel(false);
        let clients = tokio::spawn(async move {
            let mut clients = JoinSet::new();
            while timeout(ARRIVAL, stopped.wait_for(|stop| *stop)).await.is_err() {
                clients.spawn(ask(http.clone(), url.clone(), clients.len(), 8));
            }
            clients.join_all().await
        });
        Self { stop, clients }
    }

    async fn end(self) -> Vec<Answer> {
        self.stop.send_replace(true);
        self.clients.await.expect("no client panics")
    }
}

impl Tally {
    fn add_all(&mut self, name: &str, answers: Vec<Answer>) {
        answers.iter().for_each(|answer| self.add(name, answer));
    }

    fn add(&mut self, name: &str, answer: &Answer) {
        let count = if answer.is_complete() {
            &mut self.complete
        } else if answer.is_refused() {
            &mut self.refused
        } else if answer.is_broken() {
            &mut self.broken
        } else if answer.error.is_none() && answer.finish.is_none() && !answer.done {
            eprintln!("{name}: lost after {:?}: {:?}", answer.took, answer.lost);
            &mut self.lost
        } else {
            panic!("{name}: neither an answer nor an honest failure: {answer:?}");
        };
        *count += 1;
    }

    pub(crate) fn total(&self) -> usize {
        self.complete + self.refused + self.broken + self.lost
    }
}
