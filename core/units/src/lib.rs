//! Numbers with their units, and ids: the vocabulary that every other crate speaks.
//!
//! Time is integer microseconds on a clock that somebody else reads. Nothing here knows what time it
//! is, allocates or fails, except the parsing of an id.

mod count;
mod id;
mod time;

pub use count::{BLOCK_TOKENS, BlockCount, TokenCount};
pub use id::{Owner, ParseRequestIdError, RequestId, Slot, Token};
pub use time::{Micros, Span};
