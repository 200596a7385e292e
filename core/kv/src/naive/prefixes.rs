//! Kept prefixes of the reference.

use units::{Owner, Token};

use super::{BLOCK, Naive};
use crate::{BlockId, Sketch};

/// A kept prefix. The ones above it are those that its path begins with.
#[derive(Clone, Debug)]
pub(super) struct Prefix {
    /// Prefixes are numbered from 1; 0 is the empty one, which is not in the list.
    pub(super) number: u64,
    /// All its tokens, those above it included.
    pub(super) path: Vec<Token>,
    /// How many of them belong to those above it.
    pub(super) from: usize,
    /// Of its own tokens.
    pub(super) blocks: Vec<BlockId>,
    /// Nobody only in the middle of a publication.
    pub(super) owner: Option<Owner>,
    /// When the last pin was taken from it.
    pub(super) let_go: u64,
    pub(super) answers: Sketch,
}

impl Prefix {
    /// How many tokens its path has in common with these, in whole blocks.
    pub(super) fn common(&self, tokens: &[Token]) -> usize {
        let same = self.path.iter().zip(tokens).take_while(|(one, two)| one == two).count();
        same / BLOCK * BLOCK
    }
}

impl Naive {
    /// Whether a match or a lease pins this prefix or one that goes on from it.
    pub(super) fn is_pinned(&self, prefix: &Prefix) -> bool {
        let mut pinned = self.prefixes.iter().filter(|it| self.pins.contains(&it.number));
        pinned.any(|it| it.path.starts_with(&prefix.path))
    }

    /// Whether another prefix goes on from this one.
    pub(super) fn goes_on(&self, prefix: &Prefix) -> bool {
        let below = |it: &Prefix| it.path.starts_with(&prefix.path);
        self.prefixes.iter().any(|it| it.number != prefix.number && below(it))
    }

    /// The tokens up to the end of a prefix.
    pub(super) fn path_of(&self, number: u64) -> Vec<Token> {
        let prefix = self.prefixes.iter().find(|it| it.number == number);
        prefix.map(|it| it.path.clone()).unwrap_or_default()
    }

    /// The blocks up to the end of a prefix.
    pub(super) fn path_blocks(&self, number: u64) -> Vec<BlockId> {
        let path = self.path_of(number);
        let mut above: Vec<_> =
            self.prefixes.iter().filter(|it| path.starts_with(&it.path)).collect();
        above.sort_by_key(|it| it.from);
        above.into_iter().flat_map(|it| it.blocks.clone()).collect()
    }

    /// The prefix that ends where the kept part of these tokens ends. Splits one, if none does.
    pub(super) fn end_of(&mut self, tokens: &[Token]) -> u64 {
        let longest = self.prefixes.iter().map(|it| it.common(tokens)).max().unwrap_or(0);
        let tokens = &tokens[..longest];
        if tokens.is_empty() {
            return 0;
        }
        if let Some(prefix) = self.prefixes.iter().find(|it| it.path == tokens) {
            return prefix.number;
        }
        self.split(tokens)
    }

    /// Splits the prefix in whose middle these tokens end. The first half is new.
    fn split(&mut self, tokens: &[Token]) -> u64 {
        let number = self.next;
        let inside = |it: &&mut Prefix| it.from < tokens.len() && it.path.starts_with(tokens);
        let lower = self.prefixes.iter_mut().find(inside).expect("some prefix has these tokens");
        let own = (tokens.len() - lower.from) / BLOCK;
        let upper = Prefix {
            number,
            path: tokens.to_vec(),
            blocks: lower.blocks.drain(..own.min(lower.blocks.len())).collect(),
            ..lower.clone()
        };
        lower.from = tokens.len();
        self.prefixes.push(upper);
        self.next += 1;
        self.counters.splits += 1;
        number
    }

    /// Takes a pin back. What nobody pins any more was let go now.
    pub(super) fn unpin(&mut self, number: u64) {
        let at = self.pins.iter().position(|pin| *pin == number).expect("handed back once");
        self.pins.swap_remove(at);
        let path = self.path_of(number);
        for at in 0..self.prefixes.len() {
            let prefix = &self.prefixes[at];
            if path.starts_with(&prefix.path) && !self.is_pinned(prefix) {
                self.prefixes[at].let_go = self.clock;
            }
        }
        self.clock += 1;
    }
}
