//! What the operator chose.

use units::Span;

use crate::Policy;

/// No end-to-end budget counts for more than this: an entry may have to live for twice as long.
pub const BUDGET_MAX: Span = Span::from_secs(3_600);
/// Nobody is held for longer than this.
pub const PATIENCE_MAX: Span = Span::from_secs(60);

/// Settings of a controller, read once.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Who gets in.
    pub policy: Policy,
    /// How long an admitted request has until its engine must have it.
    pub lease: Span,
    /// Patience of offers that name none. Longer means fewer refusals, told later.
    pub patience: Span,
    /// End-to-end budget of offers that name none.
    pub budget: Span,
    /// Requests that may be held at once; when as many are, whoever does not fit is refused at once.
    pub held_max: usize,
    /// Open entries of callers without an engine.
    pub standalone_max: usize,
}
