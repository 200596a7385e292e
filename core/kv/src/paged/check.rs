//! The invariants, checked from outside the hot path.

use units::{BLOCK_TOKENS, BlockCount};

use super::Paged;
use crate::{
    Lease, Match,
    hash::hashes_from,
    owners::{Record, Room},
    pool::count,
    tree::{Index, Node, ROOT, same_blocks},
};

impl Paged {
    /// # Panics
    /// An invariant of `docs/INVARIANTS.md` is broken; the message names it.
    pub(super) fn check_all(&self, leases: &[&Lease], matches: &[&Match]) {
        self.check_blocks(leases);
        self.tree.nodes.iter().for_each(|(index, node)| self.check_node(index, node));
        self.check_pins(leases, matches);
        self.check_idle();
        self.check_owners();
        leases.iter().for_each(|lease| self.check_lease(lease));
    }

    fn check_blocks(&self, leases: &[&Lease]) {
        let mut holders = vec![0; self.pool.holders.len()];
        let nodes = self.tree.nodes.iter().flat_map(|(_, node)| &node.blocks);
        for block in leases.iter().flat_map(|lease| &lease.blocks).chain(nodes) {
            holders[block.index()] += 1;
        }
        assert_eq!(self.pool.holders, holders, "KV-3: holders of blocks");
        let mut free = vec![false; holders.len()];
        for block in &self.pool.free {
            assert!(!free[block.index()], "KV-2: {block:?} is free twice");
            free[block.index()] = true;
        }
        for (block, holders) in holders.iter().enumerate() {
            assert_eq!(free[block], *holders == 0, "KV-1: block {block} has {holders} holders");
        }
    }

    fn check_node(&self, index: Index, node: &Node) {
        let above = &self.tree.nodes[node.parent];
        let blocks = node.tokens.len() / BLOCK_TOKENS as usize;
        let hashes: Vec<_> = hashes_from(above.last_hash(), &node.tokens).collect();
        assert!(blocks > 0 && node.tokens.len() == blocks * BLOCK_TOKENS as usize, "KV-4");
        assert_eq!((node.depth, &node.hashes), (above.depth + count(blocks), &hashes), "KV-4");
        assert_eq!(node.blocks.len(), if self.shares { blocks } else { 0 }, "KV-4");
        let alike = |other: Index| same_blocks(&self.tree.nodes[other].tokens, &node.tokens) > 0;
        let alike: Vec<_> = above.children.iter().filter(|other| alike(*other)).collect();
        assert_eq!(alike, [index], "KV-5: children that begin with the same block");
    }

    fn check_pins(&self, leases: &[&Lease], matches: &[&Match]) {
        let mut pins = vec![0; self.tree.nodes.places()];
        let handles = leases.iter().map(|lease| lease.pin);
        for handle in handles.chain(matches.iter().map(|found| found.pin)) {
            let old = handle.generation < self.tree.nodes.cleared;
            let found = self.tree.find(handle);
            assert!(found.is_some() || old, "KV-7: {handle:?} was pinned, and is gone");
            let mut index = found.unwrap_or(ROOT);
            while index != ROOT {
                pins[index as usize] += 1;
                index = self.tree.nodes[index].parent;
            }
        }
        for (index, node) in self.tree.nodes.iter() {
            assert_eq!(node.pins, pins[index as usize], "KV-6: pins of {node:?}");
        }
    }

    fn check_idle(&self) {
        let mut place = vec![None; self.tree.nodes.places()];
        let mut reclaimable = BlockCount(0);
        for (at, index) in self.tree.idle().enumerate() {
            place[index as usize] = Some(at);
            let node = &self.tree.nodes[index];
            reclaimable += count(node.blocks.len());
            let sole = |block: &crate::BlockId| self.pool.holders[block.index()] == 1;
            assert!(node.blocks.iter().all(sole), "KV-9: a lease holds a block of an idle node");
        }
        assert_eq!(self.tree.reclaimable, reclaimable, "KV-9: blocks of idle nodes");
        for (index, node) in self.tree.nodes.iter() {
            let (own, above) = (place[index as usize], place[node.parent as usize]);
            assert_eq!(own.is_some(), node.pins == 0, "KV-8: {node:?} is idle or pinned");
            assert!(above.is_none() || own < above, "KV-8: a parent comes before {node:?}");
        }
    }

    fn check_owners(&self) {
        let mut records = vec![Record::default(); self.owners.records.len()];
        let mut tops = vec![0; records.len()];
        for (_, node) in self.tree.nodes.iter() {
            let owner = node.owner.expect("KV-11: a node without an owner").0 as usize;
            records[owner].names += 1;
            records[owner].pinned += u32::from(node.pins > 0);
            tops[owner] += u32::from(self.tree.nodes[node.parent].owner != node.owner);
            let same = |child: &Index| self.tree.nodes[*child].owner == node.owner;
            assert!(
                node.children.iter().filter(same).count() <= 1,
                "KV-11: {:?} forks",
                node.owner
            );
        }
        assert!(tops.iter().all(|tops| *tops <= 1), "KV-11: an owner's nodes lie apart: {tops:?}");
        let (mut all, mut idle) = (Room::default(), Room::default());
        for (at, (record, counted)) in self.owners.records.iter().zip(&records).enumerate() {
            let counts = |record: &Record| (record.names, record.pinned);
            assert_eq!(counts(record), counts(counted), "KV-10: owner {at}");
            let kept = record.names > 0;
            let free = self.owners.free.iter().filter(|owner| owner.0 as usize == at).count();
            assert_eq!(free, usize::from(!kept), "KV-10: owner {at} is free {free} times");
            all = if kept { all.and(record) } else { all };
            idle = if kept && record.pinned == 0 { idle.and(record) } else { idle };
        }
        assert_eq!((self.owners.all, self.owners.idle), (all, idle), "KV-12: what owners take");
        assert!(all.bytes <= self.owners.bytes_max, "KV-12: {} bytes are too many", all.bytes);
    }

    fn check_lease(&self, lease: &Lease) {
        let Some(at) = self.tree.find(lease.pin) else { return };
        assert_eq!(lease.kept, self.tree.nodes[at].depth, "KV-13: depth of a lease's pin");
        let path = self.path_blocks(at, lease.shared, BlockCount(0));
        assert_eq!(lease.blocks[..path.len()], path, "KV-13: shared blocks of a lease");
    }
}
