//! Blocks wherever they are free, and a radix tree of kept prefixes.

mod check;
mod publish;
mod room;

use units::{BLOCK_TOKENS, BlockCount, Owner, Token};

use crate::{
    Counters, Cut, IndexChange, KvCore, Layout, Lease, Match, Options, Sketch, Usage,
    found::Found,
    owners::Owners,
    pool::{BlockId, Pool},
    tree::{Index, ROOT, Tree},
};

/// The core for production. A lookup allocates nothing but where it splits a node, and takes time by the
/// tokens that it finds; a lease takes time by its blocks, an eviction by the node.
#[derive(Debug)]
pub(crate) struct Paged {
    pool: Pool,
    tree: Tree,
    owners: Owners,
    /// Whether leases and nodes share blocks.
    shares: bool,
    prefixes: bool,
    /// What happened; what is kept now is counted elsewhere.
    counters: Counters,
    index: Vec<IndexChange>,
}

impl Paged {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            pool: Pool::new(options.blocks),
            tree: Tree::new(),
            owners: Owners::new(options),
            shares: options.layout == Layout::Unified,
            prefixes: options.prefixes && options.owners > 0,
            counters: Counters::default(),
            index: Vec::new(),
        }
    }

    /// The whole blocks of some tokens that might be kept.
    fn whole<'a>(&self, tokens: &'a [Token]) -> &'a [Token] {
        let whole = if self.prefixes { tokens.len() / BLOCK_TOKENS as usize } else { 0 };
        &tokens[..whole * BLOCK_TOKENS as usize]
    }

    /// The first blocks of the path to a node, with space for further ones.
    fn path_blocks(&self, at: Index, shared: BlockCount, space: BlockCount) -> Vec<BlockId> {
        let mut blocks = Vec::with_capacity(shared.0.max(space.0) as usize);
        blocks.resize(shared.0 as usize, BlockId(0));
        for node in self.tree.path(at) {
            let from = node.depth.0 as usize - node.blocks.len();
            let to = blocks.len().min(from + node.blocks.len());
            if from < to {
                blocks[from..to].copy_from_slice(&node.blocks[..to - from]);
            }
        }
        blocks
    }
}

impl KvCore for Paged {
    fn lookup(&mut self, prompt: &[Token]) -> Match {
        let at = self.tree.descend(ROOT, self.whole(prompt), &mut self.owners);
        let reclaimable = self.tree.reclaimable;
        self.tree.pin(at, &mut self.owners);
        let node = &self.tree.nodes[at];
        let found = Found::new(prompt, node.depth, self.shares);
        Match {
            pin: self.tree.nodes.handle(at),
            owner: node.owner,
            withheld: reclaimable - self.tree.reclaimable,
            found,
        }
    }

    fn forgo(&mut self, found: Match) {
        if let Some(at) = self.tree.find(found.pin) {
            self.tree.unpin(at, &mut self.owners);
        }
    }

    fn reserve(&mut self, found: Match, blocks: BlockCount) -> Result<Lease, Match> {
        let at = self.tree.find(found.pin);
        let brought = if at.is_some() { found.found } else { found.found.forgotten() };
        let fresh = BlockCount(blocks.0.saturating_sub(brought.shared.0));
        if !self.make_room(fresh) {
            return Err(found);
        }
        let mut table = self.path_blocks(at.unwrap_or(ROOT), brought.shared, blocks);
        self.pool.share(&table);
        self.pool.take(fresh, &mut table);
        brought.count(&mut self.counters);
        let owner = self.tree.nodes[at.unwrap_or(ROOT)].owner;
        Ok(Lease::new(table, found.pin, owner, brought))
    }

    fn grow(&mut self, lease: &mut Lease, blocks: BlockCount) -> bool {
        let fits = self.make_room(blocks);
        if fits {
            self.pool.take(blocks, &mut lease.blocks);
        }
        fits
    }

    fn publish(&mut self, lease: &mut Lease, tokens: &[Token]) -> Option<Owner> {
        self.keep(lease, tokens)
    }

    fn note_answer(&mut self, lease: &Lease, tokens: u32, ended: bool) {
        let at = self.tree.find(lease.pin).unwrap_or(ROOT);
        self.tree.note_answer(at, tokens, ended, &mut self.index);
    }

    fn release(&mut self, lease: Lease) {
        if let Some(at) = self.tree.find(lease.pin) {
            self.tree.unpin(at, &mut self.owners);
        }
        self.pool.give_back(&lease.blocks);
    }

    fn drain_cuts(&mut self) -> Vec<Cut> {
        std::mem::take(&mut self.owners.cuts)
    }

    fn drain_index(&mut self) -> Vec<IndexChange> {
        std::mem::take(&mut self.index)
    }

    fn forget(&mut self) {
        let mut blocks: Vec<_> =
            self.tree.clear().into_iter().flat_map(|node| node.blocks).collect();
        blocks.sort_unstable();
        self.pool.give_back(&blocks);
        self.owners.clear();
        self.index.push(IndexChange::Cleared);
    }

    fn answers(&self, prompt: &[Token], least: u32) -> &Sketch {
        self.tree.answers(self.whole(prompt), least)
    }

    fn keeps_prefixes(&self) -> bool {
        self.prefixes
    }

    fn lies_in_pieces(&self) -> bool {
        true
    }

    fn usage(&self) -> Usage {
        let (total, free) = (self.pool.total(), self.pool.free());
        let reclaimable = self.tree.reclaimable;
        let available = free + reclaimable;
        Usage { total, held: total - available, reclaimable, free, largest: available }
    }

    fn counters(&self) -> Counters {
        Counters {
            splits: self.tree.splits,
            nodes: self.tree.nodes.len() as u64,
            tokens_kept: self.tree.tokens,
            owners: self.owners.all.owners.into(),
            bytes: self.owners.all.bytes,
            ..self.counters
        }
    }

    fn check(&self, leases: &[&Lease], matches: &[&Match]) {
        self.check_all(leases, matches);
    }
}
