//! The reference: the same answers as the production core, from lists and scans.
//!
//! Every question is answered from first principles: who holds a block is whoever has it in a list, who
//! is pinned is whoever lies on the way to a pin, whether something fits is tried on a copy. Nothing is
//! counted twice, so nothing can disagree.

mod blocks;
mod prefixes;
mod publish;

use units::{BLOCK_TOKENS, BlockCount, Owner, Token};

use crate::{
    BlockId, Counters, Cut, IndexChange, KvCore, Layout, Lease, Match, Options, Sketch, Usage,
    found::Found, handle::Handle, hash::block_hashes, pool::count,
};
use prefixes::Prefix;

const BLOCK: usize = BLOCK_TOKENS as usize;

/// The reference. Slow: an operation looks at all kept tokens, some several times.
#[derive(Clone, Debug)]
pub(crate) struct Naive {
    options: Options,
    /// Free blocks, the next one last.
    free: Vec<BlockId>,
    /// Blocks of leases, each once for every lease that holds it.
    leased: Vec<BlockId>,
    prefixes: Vec<Prefix>,
    /// Prefixes that matches and leases pin, each once for every pin.
    pins: Vec<u64>,
    /// Owners that keep nothing, the next one last.
    free_owners: Vec<Owner>,
    /// What the saved states of owners take.
    states: Vec<(Owner, u64)>,
    /// The number of the next prefix, and when something is let go next.
    next: u64,
    clock: u64,
    answers: Sketch,
    counters: Counters,
    cuts: Vec<Cut>,
    index: Vec<IndexChange>,
}

impl Naive {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            free: (0..options.blocks.0).rev().map(BlockId).collect(),
            leased: Vec::new(),
            prefixes: Vec::new(),
            pins: Vec::new(),
            free_owners: (0..options.owners).rev().map(Owner).collect(),
            states: Vec::new(),
            next: 1,
            clock: 0,
            answers: Sketch::default(),
            counters: Counters::default(),
            cuts: Vec::new(),
            index: Vec::new(),
        }
    }

    /// Whether leases and kept prefixes share blocks.
    fn shares(&self) -> bool {
        self.options.layout == Layout::Unified
    }

    /// The whole blocks of some tokens that might be kept.
    fn whole<'a>(&self, tokens: &'a [Token]) -> &'a [Token] {
        let whole = if self.options.prefixes { tokens.len() / BLOCK } else { 0 };
        &tokens[..whole * BLOCK]
    }

    /// Whether a handle names the empty prefix or one that is kept.
    fn lives(&self, handle: Handle) -> bool {
        handle == Handle::ROOT || self.prefixes.iter().any(|it| it.number == handle.generation)
    }

    /// Takes back what a match or a lease pins.
    fn let_go(&mut self, pin: Handle) {
        if self.lives(pin) {
            self.unpin(pin.generation);
        }
    }
}

impl KvCore for Naive {
    fn lookup(&mut self, prompt: &[Token]) -> Match {
        let before = self.reclaimable();
        let number = self.end_of(self.whole(prompt));
        self.pins.push(number);
        let last = self.prefixes.iter().find(|it| it.number == number);
        let kept = count(last.map_or(0, |it| it.path.len() / BLOCK));
        Match {
            pin: Handle { index: 0, generation: number },
            owner: last.and_then(|it| it.owner),
            withheld: before - self.reclaimable(),
            found: Found::new(prompt, kept, self.shares()),
        }
    }

    fn forgo(&mut self, found: Match) {
        self.let_go(found.pin);
    }

    fn reserve(&mut self, found: Match, blocks: BlockCount) -> Result<Lease, Match> {
        let lives = self.lives(found.pin);
        let brought = if lives { found.found } else { found.found.forgotten() };
        let mut table = self.path_blocks(found.pin.generation);
        table.truncate(brought.shared.0 as usize);
        self.leased.extend(&table);
        let fresh = (blocks.0 as usize).saturating_sub(table.len());
        if !self.take(count(fresh), &mut table) {
            self.give_back(&table);
            return Err(found);
        }
        brought.count(&mut self.counters);
        let last = self.prefixes.iter().find(|it| it.number == found.pin.generation);
        Ok(Lease::new(table, found.pin, last.and_then(|it| it.owner), brought))
    }

    fn grow(&mut self, lease: &mut Lease, blocks: BlockCount) -> bool {
        self.take(blocks, &mut lease.blocks)
    }

    fn publish(&mut self, lease: &mut Lease, tokens: &[Token]) -> Option<Owner> {
        self.keep(lease, tokens)
    }

    fn note_answer(&mut self, lease: &Lease, tokens: u32, ended: bool) {
        let path = self.path_of(lease.pin.generation);
        let mut above: Vec<_> =
            self.prefixes.iter_mut().filter(|it| path.starts_with(&it.path)).collect();
        above.sort_by_key(|it| std::cmp::Reverse(it.path.len()));
        for prefix in above {
            prefix.answers.observe(tokens, ended);
            self.index.push(IndexChange::Answered {
                under: block_hashes(&prefix.path).last(),
                answers: Box::new(prefix.answers.clone()),
            });
        }
        self.answers.observe(tokens, ended);
        let answers = Box::new(self.answers.clone());
        self.index.push(IndexChange::Answered { under: None, answers });
    }

    fn release(&mut self, lease: Lease) {
        self.let_go(lease.pin);
        self.give_back(&lease.blocks);
    }

    fn drain_cuts(&mut self) -> Vec<Cut> {
        std::mem::take(&mut self.cuts)
    }

    fn drain_index(&mut self) -> Vec<IndexChange> {
        std::mem::take(&mut self.index)
    }

    fn forget(&mut self) {
        let owners = (0..self.options.owners).map(Owner);
        let kept = owners.clone().filter(|owner| !self.free_owners.contains(owner));
        self.cuts.extend(kept.map(|owner| Cut { owner, tokens: 0 }));
        self.free_owners = owners.rev().collect();
        self.states.clear();
        self.pins.retain(|number| *number == 0);
        let prefixes = std::mem::take(&mut self.prefixes);
        let mut blocks: Vec<_> = prefixes.into_iter().flat_map(|it| it.blocks).collect();
        blocks.sort_unstable();
        self.free_unheld(&blocks);
        self.index.push(IndexChange::Cleared);
    }

    fn answers(&self, prompt: &[Token], least: u32) -> &Sketch {
        let whole = self.whole(prompt);
        let entered = self.prefixes.iter().filter(|it| it.common(whole) > it.from);
        let counted = entered.filter(|it| it.answers.total() >= least);
        counted.max_by_key(|it| it.path.len()).map_or(&self.answers, |it| &it.answers)
    }

    fn keeps_prefixes(&self) -> bool {
        self.options.prefixes && self.options.owners > 0
    }

    fn lies_in_pieces(&self) -> bool {
        true
    }

    fn usage(&self) -> Usage {
        let (total, free) = (self.options.blocks, count(self.free.len()));
        let reclaimable = self.reclaimable();
        let largest = free + reclaimable;
        Usage { total, held: total - largest, reclaimable, free, largest }
    }

    fn counters(&self) -> Counters {
        let tokens = self.prefixes.iter().map(|it| it.path.len() - it.from);
        Counters {
            nodes: self.prefixes.len() as u64,
            tokens_kept: tokens.sum::<usize>() as u64,
            owners: self.options.owners as u64 - self.free_owners.len() as u64,
            bytes: self.states.iter().map(|(_, bytes)| bytes).sum(),
            ..self.counters
        }
    }

    fn check(&self, leases: &[&Lease], matches: &[&Match]) {
        let sorted = |mut blocks: Vec<BlockId>| {
            blocks.sort_unstable();
            blocks
        };
        let leased = leases.iter().flat_map(|lease| lease.blocks.clone()).collect();
        assert_eq!(sorted(self.leased.clone()), sorted(leased), "KV-3: blocks of leases");
        let held = self.leased.iter().chain(self.prefixes.iter().flat_map(|it| &it.blocks));
        let mut all = sorted(held.copied().collect());
        all.dedup();
        all.extend(&self.free);
        let every: Vec<_> = (0..self.options.blocks.0).map(BlockId).collect();
        assert_eq!(sorted(all), every, "KV-1: a block is free or held");
        let pins = leases.iter().map(|lease| lease.pin).chain(matches.iter().map(|it| it.pin));
        let live = pins.filter(|pin| self.lives(*pin)).count();
        assert_eq!(live, self.pins.len(), "KV-6: pins");
    }
}
