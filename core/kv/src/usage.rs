//! How a pool is used.

use units::BlockCount;

/// How a pool is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All blocks.
    pub total: BlockCount,
    /// Held by leases, or pinned by a lease or a match.
    pub held: BlockCount,
    /// Held by nobody but kept for reuse.
    pub reclaimable: BlockCount,
    /// The rest.
    pub free: BlockCount,
    /// The most that one new lease can get. Less than what is free or reclaimable where a lease has to
    /// lie in one piece.
    pub largest: BlockCount,
}

impl Usage {
    /// The share of what is free or reclaimable that one lease cannot get: 0 where blocks may lie
    /// anywhere, up to 1.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        let available = f64::from((self.free + self.reclaimable).0);
        if available == 0.0 { 0.0 } else { 1.0 - f64::from(self.largest.0) / available }
    }
}
