//! Counts of tokens and of KV blocks.

use std::{
    iter::Sum,
    ops::{Add, AddAssign, Sub, SubAssign},
};

/// Tokens that one KV block holds.
pub const BLOCK_TOKENS: u32 = 16;

/// A number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenCount(pub u32);

/// A number of KV blocks of [`BLOCK_TOKENS`] tokens each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockCount(pub u32);

impl TokenCount {
    /// Blocks that hold this many tokens, the last one perhaps partly filled.
    #[must_use]
    pub const fn blocks(self) -> BlockCount {
        BlockCount(self.0.div_ceil(BLOCK_TOKENS))
    }

    /// What is left after `other`; zero when nothing is.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl BlockCount {
    /// Tokens that fit into this many blocks.
    #[must_use]
    pub const fn tokens(self) -> TokenCount {
        TokenCount(self.0.saturating_mul(BLOCK_TOKENS))
    }
}

macro_rules! arithmetic {
    ($count:ident) => {
        impl Add for $count {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl Sub for $count {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl AddAssign for $count {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl SubAssign for $count {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }
        impl Sum for $count {
            fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
                counts.fold(Self(0), Add::add)
            }
        }
    };
}
arithmetic!(TokenCount);
arithmetic!(BlockCount);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partly_filled_block_is_a_block() {
        let blocks = |tokens| TokenCount(tokens).blocks();
        assert_eq!([0, 1, 16, 17].map(blocks), [0, 1, 1, 2].map(BlockCount));
        assert_eq!(BlockCount(2).tokens(), TokenCount(32));
    }
}
