//! The services behind the gateway, as the rest of it sees them: requests in, our own errors out.

mod admission;
mod engine;

pub(crate) use admission::{Admission, Question, Verdict, ran_out, refusal};
pub(crate) use engine::{Engine, failure};
