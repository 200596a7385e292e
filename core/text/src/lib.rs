//! Everything between text and tokens that needs no model.
//!
//! In: messages -> [`ChatTemplate::render`] -> segments -> [`encode`] -> token ids. Out: token ids ->
//! [`Transcript::push`] -> text that is valid UTF-8, free of control tokens and cut at the stop string.
//!
//! The promise: text that a user wrote never becomes a control token. It is kept apart from the
//! template's own text in every step from the message to the tokens, so nothing needs to be escaped
//! and nothing can be forgotten.
//!
//! The limits: rendering has a budget of work and of output, so that a hostile template cannot hang
//! it; a [`Transcript`] holds back no more than the longest stop string and one character, an [`Annotated`]
//! one the tokens that these lie in.

mod annotated;
mod encode;
#[cfg(test)]
mod fake;
mod stop;
mod template;
mod tokenizer;
mod transcript;
mod utf8;
mod vocabulary;

pub use annotated::{Annotated, Piece};
pub use encode::encode;
pub use stop::StopMatcher;
pub use template::{ChatTemplate, Message, Segment, TemplateError};
pub use tokenizer::Tokenizer;
pub use transcript::{Pushed, Transcript};
pub use utf8::Utf8Stream;
pub use vocabulary::{Entry, Kind, Vocabulary, VocabularyBuilder};
