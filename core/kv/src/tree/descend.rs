//! Following tokens down the tree.

use units::{BLOCK_TOKENS, Token};

use super::{Index, ROOT, Tree};
use crate::owners::Owners;

const BLOCK: usize = BLOCK_TOKENS as usize;

impl Tree {
    /// The node where the kept part of `tokens` ends that come behind a node. Splits the last one, if it
    /// goes on with something else.
    pub(crate) fn descend(&mut self, from: Index, tokens: &[Token], owners: &mut Owners) -> Index {
        let (mut at, mut rest) = (from, tokens);
        while let Some(child) = self.child(at, rest) {
            let node = &self.nodes[child];
            let common = same_blocks(&node.tokens, rest);
            if common < node.hashes.len() {
                return self.split(child, common, owners);
            }
            (at, rest) = (child, &rest[common * BLOCK..]);
        }
        at
    }

    /// The nodes that the kept part of `tokens` enters, from the top, the root left out.
    pub(super) fn along<'a>(&'a self, tokens: &'a [Token]) -> impl Iterator<Item = Index> + 'a {
        let mut next = Some((ROOT, tokens));
        std::iter::from_fn(move || {
            let (at, rest) = next?;
            let child = self.child(at, rest)?;
            let node = &self.nodes[child];
            let common = same_blocks(&node.tokens, rest);
            next = (common == node.hashes.len()).then(|| (child, &rest[common * BLOCK..]));
            Some(child)
        })
    }

    /// The child of a node that begins with the first block of `tokens`.
    fn child(&self, at: Index, tokens: &[Token]) -> Option<Index> {
        let block = tokens.get(..BLOCK)?;
        let node = &self.nodes[at];
        let hash = node.last_hash().then(block);
        let begins = |child: &Index| same(&self.nodes[*child].tokens[..BLOCK], block);
        node.children.with(hash).find(begins)
    }
}

/// How many whole blocks at the beginning are the same.
pub(crate) fn same_blocks(one: &[Token], two: &[Token]) -> usize {
    let blocks = one.chunks_exact(BLOCK).zip(two.chunks_exact(BLOCK));
    blocks.take_while(|(one, two)| same(one, two)).count()
}

/// Whether two blocks are the same: looks at all of them, which takes a few vector instructions, where
/// comparison with an early end takes a branch for each token.
fn same(one: &[Token], two: &[Token]) -> bool {
    one.iter().zip(two).fold(0, |differences, (one, two)| differences | (one.0 ^ two.0)) == 0
}
