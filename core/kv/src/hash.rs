//! Names of blocks that every engine agrees on.

use units::{BLOCK_TOKENS, Token};

/// Names a block of tokens together with all that come before it.
///
/// The function is fixed for ever: different processes compare these. It is not meant to withstand
/// those who look for collisions, so nothing is reused on the strength of a hash alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub u64);

impl BlockHash {
    /// Before the first block.
    pub(crate) const ROOT: Self = Self(0x6361_6465_6e63_6501);

    /// The hash of a block behind the one with this hash. Two tokens at a time; each round is a bijection
    /// of the state, so that no block loses what came before it.
    pub(crate) fn then(self, block: &[Token]) -> Self {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let round = |state: u64, word: u64| {
            let product = (state ^ word).wrapping_mul(ODD);
            product ^ product >> 29
        };
        let word = |pair: &[Token]| {
            pair.iter().fold(0, |word: u64, token| word << 32 | u64::from(token.0))
        };
        Self(round(block.chunks(2).map(word).fold(self.0, round), ODD))
    }
}

/// The hashes of the whole blocks of `tokens`, in order.
pub fn block_hashes(tokens: &[Token]) -> impl Iterator<Item = BlockHash> {
    hashes_from(BlockHash::ROOT, tokens)
}

/// The same, of tokens that come behind a block with the hash `before`.
pub(crate) fn hashes_from(
    mut before: BlockHash,
    tokens: &[Token],
) -> impl Iterator<Item = BlockHash> {
    tokens.chunks_exact(BLOCK_TOKENS as usize).map(move |block| {
        before = before.then(block);
        before
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hashes(tokens: impl IntoIterator<Item = u32>) -> Vec<u64> {
        let tokens: Vec<_> = tokens.into_iter().map(Token).collect();
        block_hashes(&tokens).map(|hash| hash.0).collect()
    }

    #[test]
    fn hashes_are_fixed_for_ever() {
        expect_test::expect!["[1f4d7cce36c03615, 1f733840cb7e4b5a, e0bff688e5747434]"]
            .assert_eq(&format!("{:x?}", hashes(0..50)));
    }

    #[test]
    fn a_hash_names_the_order_and_all_that_came_before() {
        let [one, two] = [hashes(0..32), hashes((0..32).rev())];
        assert!(one.iter().all(|hash| !two.contains(hash)));
        let other_beginning = hashes([99].into_iter().chain(1..32));
        assert_ne!(one[1], other_beginning[1]);
        assert_eq!(hashes(0..15), [0; 0]);
    }

    proptest! {
        #[test]
        fn one_changed_token_changes_every_hash_behind_it(
            tokens in prop::collection::vec(0u32..4, 48), at in 0usize..48, by in 1u32..4,
        ) {
            let before = hashes(tokens.clone());
            let mut tokens = tokens;
            tokens[at] += by;
            let after = hashes(tokens);
            for block in 0..3 {
                prop_assert_eq!(before[block] == after[block], block < at / 16);
            }
        }
    }
}
