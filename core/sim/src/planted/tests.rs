//! The bugs themselves.

use kv::{Counters, Cut, IndexChange, KvCore, Lease, Match, Sketch, Usage};
use units::{BlockCount, Owner, Token};

use super::Planted;

/// What goes wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A lease is not given back.
    ReleaseSkipped,
    /// A request is queued without its deadline.
    DeadlineIgnored,
    /// A timer is not armed.
    WakeUpLost,
}

/// A bug strikes at its chance of this number.
const CHANCE: u32 = 9;

impl Planted {
    pub(crate) fn with(bug: Bug) -> Self {
        Self { bug: Some(bug), chances: 0 }
    }

    fn strikes(&mut self, bug: Bug) -> bool {
        if self.bug != Some(bug) {
            return false;
        }
        self.chances += 1;
        self.chances == CHANCE
    }

    pub(crate) fn ignores_deadline(&mut self) -> bool {
        self.strikes(Bug::DeadlineIgnored)
    }

    pub(crate) fn loses_wake_up(&mut self) -> bool {
        self.strikes(Bug::WakeUpLost)
    }

    pub(crate) fn core(&mut self, core: Box<dyn KvCore>) -> Box<dyn KvCore> {
        match self.bug {
            Some(Bug::ReleaseSkipped) => Box::new(Leaky { core, releases: 0 }),
            Some(Bug::DeadlineIgnored | Bug::WakeUpLost) | None => core,
        }
    }
}

/// A core that one lease does not come back to.
#[derive(Debug)]
struct Leaky {
    core: Box<dyn KvCore>,
    releases: u32,
}

impl KvCore for Leaky {
    fn lookup(&mut self, prompt: &[Token]) -> Match {
        self.core.lookup(prompt)
    }

    fn forgo(&mut self, found: Match) {
        self.core.forgo(found);
    }

    fn reserve(&mut self, found: Match, blocks: BlockCount) -> Result<Lease, Match> {
        self.core.reserve(found, blocks)
    }

    fn grow(&mut self, lease: &mut Lease, blocks: BlockCount) -> bool {
        self.core.grow(lease, blocks)
    }

    fn publish(&mut self, lease: &mut Lease, tokens: &[Token]) -> Option<Owner> {
        self.core.publish(lease, tokens)
    }

    fn note_answer(&mut self, lease: &Lease, tokens: u32, ended: bool) {
        self.core.note_answer(lease, tokens, ended);
    }

    fn release(&mut self, lease: Lease) {
        self.releases += 1;
        if self.releases == CHANCE {
            std::mem::forget(lease);
        } else {
            self.core.release(lease);
        }
    }

    fn drain_cuts(&mut self) -> Vec<Cut> {
        self.core.drain_cuts()
    }

    fn drain_index(&mut self) -> Vec<IndexChange> {
        self.core.drain_index()
    }

    fn forget(&mut self) {
        self.core.forget();
    }

    fn answers(&self, prompt: &[Token], least: u32) -> &Sketch {
        self.core.answers(prompt, least)
    }

    fn keeps_prefixes(&self) -> bool {
        self.core.keeps_prefixes()
    }

    fn lies_in_pieces(&self) -> bool {
        self.core.lies_in_pieces()
    }

    fn usage(&self) -> Usage {
        self.core.usage()
    }

    fn counters(&self) -> Counters {
        self.core.counters()
    }

    fn check(&self, leases: &[&Lease], matches: &[&Match]) {
        self.core.check(leases, matches);
    }
}
