//! What an engine will do: its planner, simulated forwards from its last published state.
//!
//! An [`Outlook`] is that state with everything known since: leases that their engine has not reported,
//! ends and steps that records have told of. Simulations start from copies of it.

mod outlook;
mod plan;
mod run;
mod seq;
#[cfg(test)]
mod tests;
mod times;

pub(crate) use outlook::{Outlook, Since, Who};
pub(crate) use run::{Fate, Run, State};
pub(crate) use seq::Seq;
pub(crate) use times::StepTimes;
