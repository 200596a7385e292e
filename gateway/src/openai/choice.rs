//! One choice, in the shapes of both endpoints, whole and in pieces.

use serde::Serialize;

use super::logprobs::{ChatLogprobs, TextLogprobs};

/// A whole chat answer.
#[derive(Debug, Serialize)]
pub(super) struct ChatChoice<'a> {
    pub(super) index: usize,
    pub(super) message: Message<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs: Option<ChatLogprobs<'a>>,
    pub(super) finish_reason: &'static str,
}

/// What the model said.
#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    role: &'static str,
    content: &'a str,
    refusal: Option<&'static str>,
}

impl<'a> Message<'a> {
    pub(super) fn new(content: &'a str) -> Self {
        Self { role: "assistant", content, refusal: None }
    }
}

/// What a chunk adds to a chat answer.
#[derive(Debug, Serialize)]
pub(super) struct ChatPiece<'a> {
    pub(super) index: usize,
    pub(super) delta: Delta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs: Option<ChatLogprobs<'a>>,
    pub(super) finish_reason: Option<&'static str>,
}

/// What a chunk adds to a message.
#[derive(Debug, Default, Serialize)]
pub(super) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
}

/// A completion, or what a chunk adds to it.
#[derive(Debug, Serialize)]
pub(super) struct TextChoice<'a> {
    pub(super) text: &'a str,
    pub(super) index: usize,
    pub(super) logprobs: Option<TextLogprobs<'a>>,
    pub(super) finish_reason: Option<&'static str>,
}
