//! One promiser an engine.
//!
//! vacant -> granted -> (pinged ...) -> released or lapsed -> vacant. Only requests that carry the
//! epoch in office count as leased; a promiser that lost touch can promise nothing any more.

use units::{Micros, Span};

/// A grant lapses this long after the holder's last ping.
pub const LAPSE: Span = Span::from_secs(3);

/// Grants the epoch to one holder at a time.
#[derive(Debug)]
pub struct Epochs {
    next: u64,
    office: Option<Office>,
}

#[derive(Debug)]
struct Office {
    epoch: u64,
    holder: String,
    lapses_at: Micros,
}

/// Somebody else holds the epoch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{holder:?} holds the epoch for another {lapses_in} unless it pings")]
pub struct Held {
    /// Who.
    pub holder: String,
    /// When it lapses without a ping.
    pub lapses_in: Span,
}

impl Epochs {
    /// Nobody holds anything. Epochs count up from `first`, which must be above every epoch that
    /// an earlier engine process may have granted, and not 0.
    #[must_use]
    pub fn new(first: u64) -> Self {
        Self { next: first.max(1), office: None }
    }

    /// Gives the next epoch to `holder`, also in place of its own: it has come back before the loss of
    /// its connection was noticed. So holders need names that no two of them share.
    ///
    /// # Errors
    /// Somebody else holds one that has not lapsed.
    pub fn grant(&mut self, now: Micros, holder: &str) -> Result<u64, Held> {
        let rival = |office: &&Office| now < office.lapses_at && office.holder != holder;
        if let Some(office) = self.office.as_ref().filter(rival) {
            let lapses_in = office.lapses_at.until(now);
            return Err(Held { holder: office.holder.clone(), lapses_in });
        }
        let epoch = self.next;
        self.next += 1;
        self.office = Some(Office { epoch, holder: holder.into(), lapses_at: now + LAPSE });
        Ok(epoch)
    }

    /// The holder is alive. Says whether it still is the holder.
    pub fn ping(&mut self, now: Micros, epoch: u64) -> bool {
        let current = self.honours(now, epoch);
        if let Some(office) = self.office.as_mut().filter(|_| current) {
            office.lapses_at = now + LAPSE;
        }
        current
    }

    /// The holder is gone. An old epoch releases nothing.
    pub fn release(&mut self, epoch: u64) {
        if self.office.as_ref().is_some_and(|office| office.epoch == epoch) {
            self.office = None;
        }
    }

    /// Whether `epoch` is the one in office.
    #[must_use]
    pub fn honours(&self, now: Micros, epoch: u64) -> bool {
        self.office.as_ref().is_some_and(|office| office.epoch == epoch && now < office.lapses_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Micros = Micros(1_000);

    #[test]
    fn a_second_promiser_is_refused_until_the_first_lapses() {
        let mut epochs = Epochs::new(7);
        assert_eq!(epochs.grant(START, "a"), Ok(7));
        let held = epochs.grant(START + Span::from_secs(1), "b").expect_err("held");
        assert_eq!(held.to_string(), "\"a\" holds the epoch for another 2000 ms unless it pings");
        assert!(epochs.ping(START + Span::from_secs(2), 7));
        assert!(epochs.honours(START + Span::from_secs(4), 7));
        assert!(!epochs.honours(START + Span::from_secs(5), 7));
        assert_eq!(epochs.grant(START + Span::from_secs(5), "b"), Ok(8));
        assert!(!epochs.ping(START + Span::from_secs(5), 7), "a late ping revives nothing");
    }

    #[test]
    fn who_comes_back_replaces_itself() {
        let mut epochs = Epochs::new(1);
        assert_eq!(epochs.grant(START, "a"), Ok(1));
        assert_eq!(epochs.grant(START, "a"), Ok(2));
        assert!(!epochs.honours(START, 1) && epochs.honours(START, 2));
    }

    #[test]
    fn an_old_epoch_releases_nothing() {
        let mut epochs = Epochs::new(1);
        assert_eq!(epochs.grant(START, "a"), Ok(1));
        epochs.release(1);
        assert_eq!(epochs.grant(START, "b"), Ok(2));
        epochs.release(1);
        assert!(epochs.honours(START, 2));
    }

    #[test]
    fn nobody_in_office_honours_nothing() {
        assert!(!Epochs::new(0).honours(START, 0));
    }
}
