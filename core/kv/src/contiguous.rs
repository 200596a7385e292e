//! Each lease in one piece.

use units::{BlockCount, Owner, Token};

use crate::{
    BlockId, Counters, Cut, IndexChange, KvCore, Lease, Match, Options, Sketch, Usage,
    found::Found,
    handle::Handle,
    slab::{Run, Slab},
};

/// The core without paging: first fit, and nothing kept. What a lease cannot have in one piece it does not
/// get, however much is free.
#[derive(Debug)]
pub(crate) struct Contiguous {
    slab: Slab,
    answers: Sketch,
    counters: Counters,
}

impl Contiguous {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            slab: Slab::new(options.blocks),
            answers: Sketch::default(),
            counters: Counters::default(),
        }
    }
}

impl KvCore for Contiguous {
    fn lookup(&mut self, prompt: &[Token]) -> Match {
        let none = BlockCount(0);
        let found = Found::new(prompt, none, false);
        Match { pin: Handle::ROOT, owner: None, withheld: none, found }
    }

    fn forgo(&mut self, _: Match) {}

    fn reserve(&mut self, found: Match, blocks: BlockCount) -> Result<Lease, Match> {
        let Some(run) = self.slab.take(blocks) else { return Err(found) };
        found.found.count(&mut self.counters);
        Ok(Lease::new(blocks_of(run).collect(), found.pin, None, found.found))
    }

    fn grow(&mut self, lease: &mut Lease, blocks: BlockCount) -> bool {
        let more = match lease.blocks.last() {
            Some(last) => {
                let run = Run { start: last.0 + 1, len: blocks.0 };
                (run.len == 0 || self.slab.take_at(run)).then_some(run)
            }
            None => self.slab.take(blocks),
        };
        lease.blocks.extend(more.into_iter().flat_map(blocks_of));
        more.is_some()
    }

    fn publish(&mut self, _: &mut Lease, _: &[Token]) -> Option<Owner> {
        None
    }

    fn note_answer(&mut self, _: &Lease, tokens: u32, ended: bool) {
        self.answers.observe(tokens, ended);
    }

    fn release(&mut self, lease: Lease) {
        let start = lease.blocks.first().map_or(0, |block| block.0);
        self.slab.give_back(Run { start, len: lease.len().0 });
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

    fn keeps_prefixes(&self) -> bool {
        false
    }

    fn lies_in_pieces(&self) -> bool {
        false
    }

    fn usage(&self) -> Usage {
        let (total, free) = (self.slab.total, self.slab.free());
        let largest = self.slab.largest();
        Usage { total, held: total - free, reclaimable: BlockCount(0), free, largest }
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn check(&self, leases: &[&Lease], _: &[&Match]) {
        let mut holders = vec![0; self.slab.total.0 as usize];
        for lease in leases {
            let mut pairs = lease.blocks.windows(2);
            assert!(pairs.all(|pair| pair[0].0 + 1 == pair[1].0), "KV-14: {:?}", lease.blocks);
            lease.blocks.iter().for_each(|block| holders[block.index()] += 1);
        }
        for block in self.slab.runs.iter().flat_map(|run| blocks_of(*run)) {
            assert_eq!(holders[block.index()], 0, "KV-1: {block:?} is free and held");
            holders[block.index()] = 1;
        }
        assert!(holders.iter().all(|holders| *holders == 1), "KV-3: {holders:?}");
    }
}

fn blocks_of(run: Run) -> impl Iterator<Item = BlockId> {
    (run.start..run.start + run.len).map(BlockId)
}
