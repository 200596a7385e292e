//! How long answers will be.
//!
//! [`Seen`] counts how they ended or where their observation broke off; a [`Law`] is the Kaplan-Meier
//! estimate of these counts: the share of answers that go on after so many tokens. A request whose prompt
//! begins with a prefix that has a count of its own gets a law in between.

mod law;
mod seen;

pub use law::AnswerBucket;
pub(crate) use law::Law;
pub(crate) use seen::Seen;
