//! Blocks wherever they are free.

use units::{BlockCount, Owner, Token};

use crate::{
    Counters, Cut, IndexChange, KvCore, Lease, Match, Options, Pool, Sketch, Usage, handle::Handle,
};

/// Blocks wherever they are free.
#[derive(Debug)]
pub(crate) struct Paged {
    pool: Pool,
    answers: Sketch,
    counters: Counters,
}

impl Paged {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            pool: Pool::new(options.blocks),
            answers: Sketch::default(),
            counters: Counters::default(),
        }
    }
}

impl KvCore for Paged {
    fn lookup(&mut self, prompt: &[Token]) -> Match {
        Match {
            pin: Handle::ROOT,
            asked: u32::try_from(prompt.len()).expect("a prompt counts its tokens in 32 bits"),
            tokens: 0,
            owner: None,
            kept: BlockCount(0),
            shared: BlockCount(0),
            withheld: BlockCount(0),
        }
    }

    fn forgo(&mut self, _: Match) {}

    fn reserve(&mut self, found: Match, blocks: BlockCount) -> Result<Lease, Match> {
        let lease = self.pool.reserve(blocks);
        if lease.is_some() {
            self.counters.tokens_asked += u64::from(found.asked);
        }
        lease.ok_or(found)
    }

    fn grow(&mut self, lease: &mut Lease, blocks: BlockCount) -> bool {
        self.pool.extend(lease, blocks)
    }

    fn publish(&mut self, _: &mut Lease, _: &[Token]) -> Option<Owner> {
        None
    }

    fn note_answer(&mut self, _: &Lease, tokens: u32, ended: bool) {
        self.answers.observe(tokens, ended);
    }

    fn release(&mut self, lease: Lease) {
        self.pool.release(lease);
    }

    fn drain_cuts(&mut self) -> Vec<Cut> {
        Vec::new()
    }

    fn drain_index(&mut self) -> Vec<IndexChange> {
        Vec::new()
    }

    fn forget(&mut self) {}

    fn answers(&self, _: &[Token], _: u32) -> &Sketch {
        &self.answers
    }

    fn usage(&self) -> Usage {
        self.pool.usage()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn check(&self, leases: &[&Lease], _: &[&Match]) {
        self.pool.check(leases.iter().copied());
    }
}
