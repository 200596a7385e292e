//! The process of an engine: what lives and dies with it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use kv::{BlockHash, IndexChange, KvCore};
use sched::{
    Answers, Engine as _, EngineError, Epochs, MockEngine, Scheduler, StepOutcome, StepPlan,
};
use units::{BlockCount, Micros, RequestId, Span, Token};
use workload::Draws;

use super::{
    client::VOCABULARY,
    event::{Process, ToEngine},
    stream,
};
use crate::{EngineSpec, truth::Machine};

/// Records that a watcher may be behind.
const RING: usize = 16_384;
/// A backend that fails so many steps in a row will not recover.
pub(super) const FAILURES_MAX: u32 = 8;

/// A running process.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) instance: Arc<str>,
    pub(super) scheduler: Scheduler,
    pub(super) backend: Backend,
    pub(super) hub: Hub,
    pub(super) epochs: Epochs,
    pub(super) office: Option<Office>,
    /// What the loop has not read yet.
    pub(super) inbox: VecDeque<ToEngine>,
    /// The step under way.
    pub(super) step: Option<(StepPlan, Result<StepOutcome, EngineError>)>,
    /// Numbers the loop's sleeps.
    pub(super) sleep: u64,
    /// Requests whose answers somebody listens to.
    pub(super) outlets: BTreeSet<RequestId>,
    /// Failed steps since the last good one.
    pub(super) failures: u32,
}

/// The stream to a watcher who may promise.
#[derive(Debug)]
pub(super) struct Office {
    pub(super) session: u64,
    pub(super) epoch: u64,
    /// The last record that was sent. Nothing until a snapshot says where to begin.
    pub(super) sent: Option<u64>,
    pub(super) heard_at: Micros,
    /// Something was published since the last snapshot was sent.
    pub(super) is_stale: bool,
    pub(super) snapshot_at: Option<Micros>,
    /// When the stream looks again.
    pub(super) flush_at: Option<Micros>,
    /// Something of it was lost: nothing more arrives.
    pub(super) is_lost: bool,
}

/// What the loop publishes.
#[derive(Debug, Default)]
pub(super) struct Hub {
    records: VecDeque<admit::Event>,
    /// The number of the last record.
    pub(super) last: u64,
    /// When the state was published last, on the engine's clock.
    pub(super) published_at: Micros,
    kept: BTreeSet<BlockHash>,
}

/// A backend made of a cost model, with a machine's noise, whose answers are as long as they are.
#[derive(Debug)]
pub(super) struct Backend {
    mock: MockEngine,
    machine: Machine,
    answers: BTreeMap<RequestId, Answer>,
    /// So many steps from the next one on fail.
    pub(super) failing: u32,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    natural: u32,
    sampled: u32,
}

impl Running {
    pub(super) fn new(
        spec: &EngineSpec,
        cache: Box<dyn KvCore>,
        seed: u64,
        process: Process,
        now: Micros,
    ) -> Self {
        let Process { engine, life } = process;
        let scheduler = Scheduler::new(spec.limits, spec.believed, cache);
        let number = (engine as u64) << 16 | u64::from(life);
        let draws = Draws::new(seed, stream::MACHINES + number);
        Self {
            instance: format!("engine-{engine}-{life}").into(),
            scheduler,
            backend: Backend {
                mock: MockEngine::new(spec.limits.slots, spec.truth.cost, mock_answers()),
                machine: Machine::new(spec.truth.clone(), draws),
                answers: BTreeMap::new(),
                failing: 0,
            },
            hub: Hub { published_at: now, ..Hub::default() },
            epochs: Epochs::new(1 + (u64::from(life) << 32)),
            office: None,
            inbox: VecDeque::new(),
            step: None,
            sleep: 0,
            outlets: BTreeSet::new(),
            failures: 0,
        }
    }
}

/// Answers that never end by themselves: the backend says when.
fn mock_answers() -> Answers {
    Answers { words: 1..VOCABULARY, end: Token(0), tokens: 0 }
}

impl Backend {
    /// An answer will be so long.
    pub(super) fn expect(&mut self, id: RequestId, natural: u32) {
        self.answers.insert(id, Answer { natural, sampled: 0 });
    }

    pub(super) fn forget(&mut self, id: RequestId) {
        self.answers.remove(&id);
    }

    /// Runs a step that begins now. Its outcome is known at once, and is to be told when its time is over.
    pub(super) fn execute(
        &mut self,
        now: Micros,
        plan: &StepPlan,
    ) -> Result<StepOutcome, EngineError> {
        let took = self.machine.time(now, plan.shape);
        // What a step does to kept prefixes is done even if the rest of it fails.
        let mut outcome = self.mock.execute(plan)?;
        if self.failing > 0 {
            self.failing -= 1;
            return Err(EngineError::Backend("as the scenario says".into()));
        }
        for sampled in &mut outcome.sampled {
            let Some(answer) = self.answers.get_mut(&sampled.id) else { continue };
            answer.sampled += 1;
            sampled.stop = answer.sampled >= answer.natural;
        }
        outcome.took = took;
        outcome.spent.decoding = took;
        Ok(outcome)
    }
}

impl Hub {
    pub(super) fn record(&mut self, event: admit::Event) {
        if self.records.len() == RING {
            self.records.pop_front();
        }
        self.last += 1;
        self.records.push_back(event);
    }

    /// The records after number `after`, or nothing if some of them are gone.
    pub(super) fn after(&self, after: u64) -> Option<Vec<admit::Record>> {
        let first = self.last + 1 - self.records.len() as u64;
        if after > self.last || after + 1 < first {
            return None;
        }
        let skip = usize::try_from(after + 1 - first).ok()?;
        let numbers = after + 1..;
        let records = self.records.iter().skip(skip).zip(numbers);
        Some(
            records.map(|(event, number)| admit::Record { number, event: event.clone() }).collect(),
        )
    }

    /// Takes what changed in the index of kept blocks.
    pub(super) fn keep(&mut self, changes: Vec<IndexChange>) {
        for change in changes {
            match change {
                IndexChange::Added(hash) => drop(self.kept.insert(hash)),
                IndexChange::Removed(hash) => drop(self.kept.remove(&hash)),
                IndexChange::Cleared => self.kept.clear(),
                IndexChange::Answered { .. } => {}
            }
        }
    }

    /// Tokens of a prompt that are kept: advice, for they may be gone when it is scheduled.
    pub(super) fn probe(&self, prompt: &[Token]) -> u32 {
        let kept = kv::block_hashes(prompt).take_while(|hash| self.kept.contains(hash));
        let blocks = u32::try_from(kept.count()).unwrap_or(u32::MAX);
        let all = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
        BlockCount(blocks).tokens().0.min(all.saturating_sub(1))
    }
}

impl Office {
    pub(super) fn new(session: u64, epoch: u64, sent: Option<u64>, now: Micros) -> Self {
        Self {
            session,
            epoch,
            sent,
            heard_at: now,
            is_stale: true,
            snapshot_at: None,
            flush_at: None,
            is_lost: false,
        }
    }
}

/// Snapshots are sent at most this often.
pub(super) const SNAPSHOT_GAP: Span = Span::from_millis(10);
