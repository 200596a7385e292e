//! What goes back to the client.

use proto::v1::FinishReason;
use serde::Serialize;

/// What all chunks of one answer share.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) id: String,
    /// Unix seconds.
    pub(crate) created: u64,
    pub(crate) model: String,
    /// Names the build and the model file.
    pub(crate) fingerprint: String,
}

/// A whole answer.
#[derive(Debug, Serialize)]
pub(crate) struct ChatCompletion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'a str,
    choices: [Choice<'a>; 1],
    usage: Usage,
}

#[derive(Debug, Serialize)]
struct Choice<'a> {
    index: u32,
    message: Message<'a>,
    finish_reason: &'static str,
}

#[derive(Debug, Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
    refusal: Option<&'static str>,
}

impl<'a> ChatCompletion<'a> {
    pub(crate) fn new(
        head: &'a Head,
        content: &'a str,
        finish_reason: &'static str,
        usage: Usage,
    ) -> Self {
        let message = Message { role: "assistant", content, refusal: None };
        Self {
            id: &head.id,
            object: "chat.completion",
            created: head.created,
            model: &head.model,
            system_fingerprint: &head.fingerprint,
            choices: [Choice { index: 0, message, finish_reason }],
            usage,
        }
    }
}

/// One event of a streamed answer. There is never an `error` member in it, not even a null one: some
/// clients take its presence for a failure.
#[derive(Debug, Serialize)]
pub(crate) struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'a str,
    /// Present and empty beside the usage: clients look for it.
    choices: &'a [ChunkChoice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

/// What a chunk adds to one choice.
#[derive(Debug, Serialize)]
pub(crate) struct ChunkChoice<'a> {
    pub(crate) index: u32,
    pub(crate) delta: Delta<'a>,
    pub(crate) finish_reason: Option<&'static str>,
}

/// What a chunk adds to a message.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<&'a str>,
}

impl<'a> Chunk<'a> {
    pub(crate) fn new(
        head: &'a Head,
        choices: &'a [ChunkChoice<'a>],
        usage: Option<Usage>,
    ) -> Self {
        Self {
            id: &head.id,
            object: "chat.completion.chunk",
            created: head.created,
            model: &head.model,
            system_fingerprint: &head.fingerprint,
            choices,
            usage,
        }
    }
}

/// Tokens of a request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Usage {
    prompt_tokens: u32,
    completion_tokens: u32,
    total_tokens: u64,
    prompt_tokens_details: PromptTokensDetails,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct PromptTokensDetails {
    cached_tokens: u32,
}

impl From<proto::v1::Usage> for Usage {
    fn from(usage: proto::v1::Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: u64::from(usage.prompt_tokens) + u64::from(usage.completion_tokens),
            prompt_tokens_details: PromptTokensDetails { cached_tokens: usage.cached_tokens },
        }
    }
}

/// The wire name of an end that is no failure.
pub(crate) fn finish_reason(reason: FinishReason) -> Option<&'static str> {
    match reason {
        FinishReason::Stop => Some("stop"),
        FinishReason::Length => Some("length"),
        FinishReason::Unspecified
        | FinishReason::Cancelled
        | FinishReason::Deadline
        | FinishReason::Evicted
        | FinishReason::Shutdown
        | FinishReason::Failed => None,
    }
}

/// One served model.
#[derive(Debug, Serialize)]
pub(crate) struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

impl<'a> Model<'a> {
    pub(crate) fn new(id: &'a str, created: u64) -> Self {
        Self { id, object: "model", created, owned_by: "cadence" }
    }
}

/// The served models.
#[derive(Debug, Serialize)]
pub(crate) struct ModelList<'a> {
    object: &'static str,
    data: &'a [Model<'a>],
}

impl<'a> ModelList<'a> {
    pub(crate) fn new(data: &'a [Model<'a>]) -> Self {
        Self { object: "list", data }
    }
}
