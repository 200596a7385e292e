//! The OpenAI wire format: requests in, responses out.

mod fields;
mod json;
mod messages;
mod request;
mod response;
mod unsupported;

pub(crate) use request::ChatRequest;
pub(crate) use response::{
    ChatCompletion, Chunk, ChunkChoice, Delta, Head, Model, ModelList, Usage, finish_reason,
};
