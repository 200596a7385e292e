//! What the auditor finds.

use std::fmt;

use units::{Micros, RequestId};

/// Something that must not happen, and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// When.
    pub at: Micros,
    /// To whom, if it was somebody.
    pub request: Option<RequestId>,
    /// What.
    pub rule: Rule,
    /// With the numbers.
    pub what: String,
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A slot is one sequence's, and a sequence that ended has none.
    Slots,
    /// Blocks are held by those who run, and by nobody else.
    Blocks,
    /// A lease ends: its request is submitted, or it is given up.
    Leases,
    /// What an engine accepts ends once, and nothing comes after.
    OneEnd,
    /// A client hears one end of each attempt.
    OneAnswer,
    /// No more run than there are slots, no more wait than may.
    Bounds,
    /// Who was promised is not displaced before its deadline.
    Promises,
    /// Who waits past its deadline ends; who runs past it does as the rules say.
    Deadlines,
    /// Who is held hears within its patience.
    Patience,
    /// Somebody waits and nothing goes on.
    Stuck,
    /// Who is first in the order of the rules goes first.
    Order,
    /// Records come in order and without gaps.
    Records,
    /// No more are let in than the limit says.
    Limits,
    /// An engine refused a plan.
    Plans,
}

impl Rule {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::Blocks => "blocks",
            Self::Leases => "leases",
            Self::OneEnd => "one-end",
            Self::OneAnswer => "one-answer",
            Self::Bounds => "bounds",
            Self::Promises => "promises",
            Self::Deadlines => "deadlines",
            Self::Patience => "patience",
            Self::Stuck => "stuck",
            Self::Order => "order",
            Self::Records => "records",
            Self::Limits => "limits",
            Self::Plans => "plans",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: at {:.6} s", self.rule.name(), self.at.0 as f64 / 1e6)?;
        if let Some(request) = self.request {
            write!(out, ", request {request}")?;
        }
        write!(out, ": {}", self.what)
    }
}
