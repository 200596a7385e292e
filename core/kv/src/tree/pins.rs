//! Pinning paths.

use super::{Index, ROOT, Tree};
use crate::owners::Owners;

impl Tree {
    /// Pins a node, and thereby all above it. A pin of the root pins nothing.
    pub(crate) fn pin(&mut self, at: Index, owners: &mut Owners) {
        self.pin_below(ROOT, at, owners);
    }

    /// Moves a pin from a node down to one below it, or to itself.
    pub(crate) fn pin_below(&mut self, from: Index, to: Index, owners: &mut Owners) {
        let mut index = to;
        while index != from {
            let node = &mut self.nodes[index];
            node.pins += 1;
            let (pins, parent, owner) = (node.pins, node.parent, node.owner);
            if pins == 1 {
                self.wake(index);
                owners.pin(owner.expect("only the root has no owner"));
            }
            index = parent;
        }
    }

    /// Takes a pin back. Nodes that nobody pins any more are the last to be evicted.
    pub(crate) fn unpin(&mut self, at: Index, owners: &mut Owners) {
        let mut index = at;
        while index != ROOT {
            let node = &mut self.nodes[index];
            node.pins -= 1;
            let (pins, parent, owner) = (node.pins, node.parent, node.owner);
            if pins == 0 {
                self.lay(index);
                owners.unpin(owner.expect("only the root has no owner"));
            }
            index = parent;
        }
    }
}
