//! The OpenAI wire format: requests in, responses out.
//!
//! Two endpoints, one kind of request behind both: `/v1/chat/completions` and `/v1/completions` differ in
//! what is read (`chat`, `completion`) and in the shape of what is written (`choice`).

mod chat;
mod choice;
mod completion;
mod fields;
#[cfg(test)]
mod fuzz;
mod json;
mod logprobs;
mod messages;
mod models;
mod records;
mod request;
mod response;
mod sampling;
mod unsupported;

pub(crate) use models::{Model, ModelList};
pub(crate) use records::{Records, error_record};
pub(crate) use request::{Request, Terms};
pub(crate) use response::{Head, Said, Usage, finish_reason, whole};

/// By which path a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
}

impl Endpoint {
    /// What the prompt is called.
    pub(crate) fn prompt(self) -> &'static str {
        match self {
            Self::Chat => "messages",
            Self::Completions => "prompt",
        }
    }

    /// What the ids of its answers begin with.
    pub(crate) fn id_prefix(self) -> &'static str {
        match self {
            Self::Chat => "chatcmpl",
            Self::Completions => "cmpl",
        }
    }
}
