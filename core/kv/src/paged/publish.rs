//! Publishing.
//!
//! What a lease publishes goes under a new owner, who keeps the lease's whole path. So the nodes on that
//! path are renamed to it, and the owner of an earlier, shorter part of the same conversation is given up.
//!
//! Where blocks are shared, this is exact only if the path consists of the very blocks of the lease;
//! otherwise the new owner would keep further cells than the path counts. Such a lease has computed what
//! another had published meanwhile, or has a copy of its own of the last block of what it found. It
//! publishes nothing: its duplicates stay with it, and the tree keeps the first.

use units::{BLOCK_TOKENS, BlockCount, Owner, Token};

use super::Paged;
use crate::{
    IndexChange, Lease,
    owners::Room,
    pool::count,
    tree::{Index, ROOT},
};

const BLOCK: usize = BLOCK_TOKENS as usize;

impl Paged {
    pub(super) fn keep(&mut self, lease: &mut Lease, tokens: &[Token]) -> Option<Owner> {
        let from = self.tree.find(lease.pin)?;
        let whole = self.whole(tokens);
        let whole = &whole[..whole.len().min(lease.blocks.len() * BLOCK)];
        let more = whole.get(lease.kept.0 as usize * BLOCK..)?;
        let at = self.follow(lease, from, more);
        let new = &whole[lease.kept.0 as usize * BLOCK..];
        if new.is_empty() || self.shares && lease.shared < lease.kept {
            return None;
        }
        let owner = self.take_owner(at, self.owners.bytes_of(tokens))?;
        self.insert(lease, at, new, owner);
        Some(owner)
    }

    /// Moves the pin of a lease down to where the kept part of its further tokens ends.
    fn follow(&mut self, lease: &mut Lease, from: Index, more: &[Token]) -> Index {
        let at = self.tree.descend(from, more, &mut self.owners);
        self.tree.pin_below(from, at, &mut self.owners);
        lease.pin = self.tree.nodes.handle(at);
        lease.kept = self.tree.nodes[at].depth;
        at
    }

    /// A new owner for the path to a node, if room can be made for one.
    fn take_owner(&mut self, at: Index, bytes: u64) -> Option<Owner> {
        if !self.owners.can_have_room(bytes, self.only_pinned_above(at)) {
            return None;
        }
        let mut index = at;
        while index != ROOT {
            let node = &self.tree.nodes[index];
            self.owners.unname(node.owner.expect("only the root has no owner"), true);
            index = node.parent;
        }
        while !self.owners.has_room(bytes) {
            self.evict();
        }
        let owner = self.owners.take(bytes);
        self.tree.rename(at, owner, &mut self.owners);
        Some(owner)
    }

    /// Owners that could be given up if the nodes of a pinned path did not name them: none of their others
    /// is pinned. The nodes of an owner follow each other.
    fn only_pinned_above(&self, at: Index) -> Room {
        let mut room = Room::default();
        let mut run = 0;
        let mut path = self.tree.path(at).filter_map(|node| node.owner).peekable();
        while let Some(owner) = path.next() {
            run += 1;
            if path.peek() != Some(&owner) {
                let record = &self.owners.records[owner.0 as usize];
                if record.pinned == run {
                    room.add(record);
                }
                run = 0;
            }
        }
        room
    }

    /// Hangs the further blocks of a lease under the node that it pins.
    fn insert(&mut self, lease: &mut Lease, at: Index, new: &[Token], owner: Owner) {
        let (from, to) = (lease.kept, lease.kept + count(new.len() / BLOCK));
        let blocks = if self.shares { &lease.blocks[from.0 as usize..to.0 as usize] } else { &[] };
        self.pool.share(blocks);
        let index = self.tree.insert(at, new, blocks, owner);
        self.owners.name(owner, true);
        let node = &self.tree.nodes[index];
        self.index.extend(node.hashes.iter().map(|hash| IndexChange::Added(*hash)));
        lease.pin = self.tree.nodes.handle(index);
        lease.kept = to;
        lease.shared = if self.shares { to } else { BlockCount(0) };
    }
}
