//! What is asked of a server, and when.
//!
//! [`Arrivals`] say when, a [`Source`] says what, a [`trace`] says both, and an [`Slo`] says what of it
//! was in time. All of it is a function of a seed, and the same on every machine: the generator is
//! ChaCha8, logarithms come from a library of ours and not the system's, and the content of request *n*
//! depends on the seed and on *n* alone, so that another rate asks the same things at other times.
//!
//! A prompt is a list of passages with identities. The load generator turns it into text, the simulator
//! into token ids; what shares a prefix in one shares it in the other.

mod arrival;
mod draws;
mod ks;
mod length;
mod mix;
mod prompt;
mod prose;
mod sdk;
mod slo;
mod source;
mod stretch;
pub mod trace;

pub use arrival::{ARRIVALS_MAX, ArrivalError, Arrivals};
pub use draws::Draws;
pub use ks::{Ks, exponential as ks_exponential};
pub use length::Lengths;
pub use mix::Mix;
pub use prompt::{Content, Part, Passage, Prompt, Role};
pub use prose::Style;
pub use sdk::{SDK_ATTEMPTS, sdk_wait};
pub use slo::{Budgets, Observed, ParseSloError, Slo, Verdict};
pub use source::{Ask, Given, Source};
pub use stretch::Stretch;
