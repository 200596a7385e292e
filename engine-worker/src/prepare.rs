//! Prepared requests: tokens that wait for their `Generate`.
//!
//! prepare -> keep -> take, or expire. Bounded in number, bytes and time: what was kept first goes first, and
//! whoever comes for it prepares again. Most of it is never taken under overload, since admission refuses
//! after `Prepare`; so a full pantry must not refuse newcomers.

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

/// A prompt is larger than the whole pantry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the prompt takes {bytes} bytes, prepared requests may take {limit} together")]
pub(crate) struct TooLarge {
    bytes: usize,
    limit: usize,
}

impl Pantry {
    pub(crate) fn new(limits: PantryLimits) -> Self {
        Self { limits, kept: BTreeMap::new(), expiries: VecDeque::new(), bytes: 0 }
    }

    /// Keeps tokens under an id, in place of what was kept under it before, and of the oldest where there
    /// is no room.
    ///
    /// # Errors
    /// There could never be room. Nothing was kept, and what was there under this id is gone.
    pub(crate) fn keep(
        &mut self,
        now: Micros,
        id: RequestId,
        tokens: Arc<[Token]>,
    ) -> Result<(), TooLarge> {
        self.expire(now);
        self.remove(id);
        let bytes = size_of_val(&*tokens);
        let limit = self.limits.bytes;
        if bytes > limit {
            return Err(TooLarge { bytes, limit });
        }
        while self.kept.len() >= self.limits.requests || self.bytes + bytes > limit {
            self.drop_oldest();
        }
        let expires_at = now + self.limits.hold;
        self.bytes += bytes;
        self.kept.insert(id, Kept { tokens, expires_at });
        self.expiries.push_back((expires_at, id));
        Ok(())
    }

    fn drop_oldest(&mut self) {
        let Some((expires_at, id)) = self.expiries.pop_front() else { return };
        if self.kept.get(&id).is_some_and(|kept| kept.expires_at == expires_at) {
            self.remove(id);
        }
    }

    /// Takes what is kept under an id, if it has not expired.
    pub(crate) fn take(&mut self, now: Micros, id: RequestId) -> Option<Arc<[Token]>> {
        self.expire(now);
        self.remove(id)
    }

    /// How many are kept at `now`.
    pub(crate) fn len(&mut self, now: Micros) -> usize {
        self.expire(now);
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
        assert_eq!((pantry.len(Micros(1)), pantry.bytes), (0, 0));
    }

    #[test]
    fn what_has_expired_is_not_counted() {
        let mut pantry = Pantry::new(LIMITS);
        assert_eq!(pantry.keep(Micros(0), RequestId(1), tokens(3)), Ok(()));
        assert_eq!(pantry.len(Micros(0)), 1);
        assert_eq!(pantry.len(Micros(0) + LIMITS.hold), 0);
    }

    #[test]
    fn it_is_bounded_in_number_bytes_and_time() {
        let mut pantry = Pantry::new(LIMITS);
        let late = Micros(0) + LIMITS.hold;
        assert_eq!(pantry.keep(Micros(0), RequestId(1), tokens(3)), Ok(()));
        assert!(pantry.keep(Micros(0), RequestId(2), tokens(26)).is_err(), "more than there is");
        assert_eq!(pantry.keep(Micros(0), RequestId(2), tokens(3)), Ok(()));
        assert_eq!(pantry.keep(Micros(0), RequestId(3), tokens(3)), Ok(()));
        assert_eq!(pantry.take(Micros(0), RequestId(1)), None, "number: the oldest went");
        assert_eq!(pantry.keep(Micros(0), RequestId(4), tokens(24)), Ok(()));
        assert_eq!((pantry.len(Micros(0)), pantry.bytes), (1, 96), "bytes: the others went");
        assert_eq!(pantry.take(late, RequestId(4)), None, "time");
        assert_eq!((pantry.len(late), pantry.bytes), (0, 0));
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
