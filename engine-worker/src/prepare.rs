//! Prepared requests: tokens that wait for their `Generate`.
//!
//! prepare -> keep -> take, or expire. Bounded in number, bytes and time.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use units::{Micros, RequestId, Span, Token};

/// Bounds of the [`Pantry`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PantryLimits {
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
    pub(crate) hold: Span,
}

/// The prepared requests.
#[derive(Debug)]
pub(crate) struct Pantry {
    limits: PantryLimits,
    kept: BTreeMap<RequestId, Kept>,
    /// In the order of expiry. May name requests that were taken or replaced since.
    expiries: VecDeque<(Micros, RequestId)>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    tokens: Arc<[Token]>,
    expires_at: Micros,
}

/// There is no room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{requests} prepared requests with {bytes} bytes wait already")]
pub(crate) struct Full {
    requests: usize,
    bytes: usize,
}

impl Pantry {
    pub(crate) fn new(limits: PantryLimits) -> Self {
        Self { limits, kept: BTreeMap::new(), expiries: VecDeque::new(), bytes: 0 }
    }

    /// Keeps tokens under an id, in place of what was kept under it before.
    ///
    /// # Errors
    /// Nothing was kept, and what was there is gone.
    pub(crate) fn keep(
        &mut self,
        now: Micros,
        id: RequestId,
        tokens: Arc<[Token]>,
    ) -> Result<(), Full> {
        self.expire(now);
        self.remove(id);
        let size = size_of_val(&*tokens);
        let full = self.kept.len() >= self.limits.requests
            || self.bytes.saturating_add(size) > self.limits.bytes;
        if full {
            return Err(Full { requests: self.kept.len(), bytes: self.bytes });
        }
        let expires_at = now + self.limits.hold;
        self.bytes += size;
        self.kept.insert(id, Kept { tokens, expires_at });
        self.expiries.push_back((expires_at, id));
        Ok(())
    }

    /// Takes what is kept under an id, if it has not expired.
    pub(crate) fn take(&mut self, now: Micros, id: RequestId) -> Option<Arc<[Token]>> {
        self.expire(now);
        self.remove(id)
    }

    /// How many are kept.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    fn expire(&mut self, now: Micros) {
        while let Some(&(expires_at, id)) = self.expiries.front() {
            let current = self.kept.get(&id).is_some_and(|kept| kept.expires_at == expires_at);
            if current && now < expires_at {
                return;
            }
            self.expiries.pop_front();
            if current {
                self.remove(id);
            }
        }
    }

    fn remove(&mut self, id: RequestId) -> Option<Arc<[Token]>> {
        let kept = self.kept.remove(&id)?;
        self.bytes -= size_of_val(&*kept.tokens);
        Some(kept.tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PantryLimits =
        PantryLimits { requests: 2, bytes: 100, hold: Span::from_secs(10) };

    fn tokens(count: u32) -> Arc<[Token]> {
        (0..count).map(Token).collect()
    }

    #[test]
    fn what_is_kept_can_be_taken_once() {
        let mut pantry = Pantry::new(LIMITS);
        assert_eq!(pantry.keep(Micros(0), RequestId(1), tokens(3)), Ok(()));
        assert_eq!(pantry.take(Micros(1), RequestId(1)), Some(tokens(3)));
        assert_eq!(pantry.take(Micros(1), RequestId(1)), None);
        assert_eq!((pantry.len(), pantry.bytes), (0, 0));
    }

    #[test]
    fn it_is_bounded_in_number_bytes_and_time() {
        let mut pantry = Pantry::new(LIMITS);
        let late = Micros(0) + LIMITS.hold;
        assert_eq!(pantry.keep(Micros(0), RequestId(1), tokens(3)), Ok(()));
        assert!(pantry.keep(Micros(0), RequestId(2), tokens(24)).is_err(), "bytes");
        assert_eq!(pantry.keep(Micros(0), RequestId(2), tokens(3)), Ok(()));
        let full = pantry.keep(Micros(0), RequestId(3), tokens(3)).expect_err("number");
        assert_eq!(full.to_string(), "2 prepared requests with 24 bytes wait already");
        assert_eq!(pantry.keep(late, RequestId(3), tokens(3)), Ok(()), "time");
        assert_eq!((pantry.take(late, RequestId(1)), pantry.len()), (None, 1));
    }

    #[test]
    fn preparing_again_replaces_and_renews() {
        let mut pantry = Pantry::new(LIMITS);
        let half = Micros(LIMITS.hold.0 / 2);
        for _ in 0..5 {
            assert_eq!(pantry.keep(Micros(0), RequestId(1), tokens(3)), Ok(()));
        }
        assert_eq!(pantry.keep(half, RequestId(1), tokens(4)), Ok(()));
        assert_eq!(pantry.take(Micros(0) + LIMITS.hold, RequestId(1)), Some(tokens(4)));
        assert_eq!(pantry.bytes, 0);
    }
}
