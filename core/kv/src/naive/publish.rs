//! Publishing, and the owners of the reference.

use units::{BlockCount, Owner, Token};

use super::{BLOCK, Naive, prefixes::Prefix};
use crate::{Cut, IndexChange, Layout, Lease, Sketch, hash::block_hashes, pool::count};

impl Naive {
    pub(super) fn keep(&mut self, lease: &mut Lease, tokens: &[Token]) -> Option<Owner> {
        if !self.lives(lease.pin) {
            return None;
        }
        let whole = self.whole(tokens);
        let whole = &whole[..whole.len().min(lease.blocks.len() * BLOCK)];
        let more = whole.get(lease.kept.0 as usize * BLOCK..)?;
        let path = [self.path_of(lease.pin.generation), more.to_vec()].concat();
        self.follow(lease, &path);
        if lease.kept.0 as usize * BLOCK == path.len() {
            return None;
        }
        if self.shares() && lease.shared < lease.kept {
            return None;
        }
        let bytes = self.bytes_of(tokens);
        let mut trial = self.clone();
        let owner = trial.take_owner(lease.pin.generation, bytes)?;
        trial.insert(lease, path, owner);
        *self = trial;
        Some(owner)
    }

    /// Moves the pin of a lease to where the kept part of its tokens ends.
    fn follow(&mut self, lease: &mut Lease, path: &[Token]) {
        let number = self.end_of(path);
        let old = self.pins.iter_mut().find(|pin| **pin == lease.pin.generation);
        *old.expect("a lease's pin is in the list") = number;
        lease.pin.generation = number;
        lease.kept = count(self.path_of(number).len() / BLOCK);
    }

    fn bytes_of(&self, tokens: &[Token]) -> u64 {
        match self.options.layout {
            Layout::Unified => 0,
            Layout::Streams { token_bytes, .. } => token_bytes.saturating_mul(tokens.len() as u64),
        }
    }

    /// A new owner for the prefix and those above it. `None` if there is no room for one, with half of
    /// the work done.
    fn take_owner(&mut self, number: u64, bytes: u64) -> Option<Owner> {
        let path = self.path_of(number);
        let mut above: Vec<usize> = (0..self.prefixes.len())
            .filter(|at| path.starts_with(&self.prefixes[*at].path))
            .collect();
        above.sort_by_key(|at| std::cmp::Reverse(self.prefixes[*at].from));
        for at in above {
            let owner = self.prefixes[at].owner.take().expect("every prefix has an owner");
            self.settle(owner);
        }
        while !self.has_room(bytes) {
            if !self.evict() {
                return None;
            }
        }
        let owner = self.free_owners.pop().expect("there is room");
        self.states.push((owner, bytes));
        for prefix in &mut self.prefixes {
            prefix.owner = prefix.owner.or(Some(owner));
        }
        Some(owner)
    }

    fn has_room(&self, bytes: u64) -> bool {
        let bytes_max = match self.options.layout {
            Layout::Unified => 0,
            Layout::Streams { bytes_max, .. } => bytes_max,
        };
        let used: u64 = self.states.iter().map(|(_, bytes)| bytes).sum();
        !self.free_owners.is_empty() && used.saturating_add(bytes) <= bytes_max
    }

    fn insert(&mut self, lease: &mut Lease, path: Vec<Token>, owner: Owner) {
        let (from, to) = (lease.kept.0 as usize, path.len() / BLOCK);
        self.index.extend(block_hashes(&path).skip(from).map(IndexChange::Added));
        let blocks = if self.shares() { lease.blocks[from..to].to_vec() } else { Vec::new() };
        let number = self.next;
        self.next += 1;
        self.prefixes.push(Prefix {
            number,
            path,
            from: from * BLOCK,
            blocks,
            owner: Some(owner),
            let_go: 0,
            answers: Sketch::default(),
        });
        let old = self.pins.iter_mut().find(|pin| **pin == lease.pin.generation);
        *old.expect("a lease's pin is in the list") = number;
        lease.pin.generation = number;
        lease.kept = count(to);
        lease.shared = if self.shares() { lease.kept } else { BlockCount(0) };
    }

    /// Gives an owner up if no prefix names it any more.
    pub(super) fn settle(&mut self, owner: Owner) {
        let named = self.prefixes.iter().any(|it| it.owner == Some(owner));
        if !named {
            self.states.retain(|(other, _)| *other != owner);
            self.free_owners.push(owner);
            self.cuts.push(Cut { owner, tokens: 0 });
        }
    }
}
