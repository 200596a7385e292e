//! A number that identifies a run.

use units::RequestId;

/// A running hash of everything that happened. Two runs with the same digest were, but for chance, the
/// same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub u64);

impl Digest {
    /// Of a run in which nothing has happened.
    pub(crate) const NEW: Self = Self(0x5349_4d00_0000_0001);

    /// Takes in the next number. Each round is a bijection of the state, so that nothing is lost.
    pub(crate) fn take(&mut self, word: u64) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let product = (self.0 ^ word).wrapping_mul(ODD);
        self.0 = product ^ product >> 29;
    }

    /// Takes in several.
    pub(crate) fn take_all(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.take(*word));
    }
}

/// An id as a word: the half of it that differs between the requests of a run.
pub(crate) fn word(id: RequestId) -> u64 {
    let half = id.0 & u128::from(u64::MAX);
    u64::try_from(half).expect("it was cut to 64 bits")
}

impl std::fmt::Display for Digest {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_number_of_words_count() {
        let of = |words: &[u64]| {
            let mut digest = Digest::NEW;
            digest.take_all(words);
            digest
        };
        assert_eq!(of(&[1, 2]), of(&[1, 2]));
        let all = [of(&[1, 2]), of(&[2, 1]), of(&[1]), of(&[1, 2, 0]), of(&[])];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{one}");
        }
    }
}
