//! What only a chat request has: messages, and its own way to ask for log probabilities.

use proto::v1::{ChatInput, prepare_request::Input};

use super::{fields::Fields, messages, request::Own};
use crate::error::ApiError;

const TOP: &str = "top_logprobs";

/// Takes the members of a chat request.
///
/// # Errors
/// Names the member that is wrong.
pub(super) fn take(fields: &mut Fields) -> Result<Own, ApiError> {
    let messages = messages::take(fields)?;
    Ok(Own {
        prompts: vec![Input::Chat(ChatInput { messages })],
        top_logprobs: top_logprobs(fields)?,
        echo: false,
    })
}

fn top_logprobs(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let wanted = fields.flag("logprobs")?.unwrap_or(false);
    let top = fields.integer(TOP, 0..=20)?;
    match (wanted, top) {
        (false, Some(_)) => Err(fields.must(TOP, "be absent unless logprobs is true")),
        (false, None) => Ok(None),
        (true, top) => Ok(Some(u32::try_from(top.unwrap_or(0)).expect("at most 20"))),
    }
}
