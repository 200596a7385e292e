//! What steps cost, learnt from those that were made.
//!
//! [`Rls`] corrects the engine's own model, [`Learner`] puts a fast gain on top and keeps
//! [`Residuals`]: how far predictions made a moment ago were off. They do not depend on who was let in.

mod learner;
mod residuals;
mod rls;

pub(crate) use learner::Learner;
pub use learner::{Composition, Speed};
