//! What only a completion request has: prompts, and options of the time before chat.

use proto::v1::{TokenIds, prepare_request::Input};
use serde_json::Value;

use super::{
    fields::{Fields, wrong},
    request::Own,
};
use crate::error::ApiError;

const PROMPT: &str = "prompt";
const PROMPT_KIND: &str = "a string, an array of strings, token ids, or an array of arrays of them";
/// Likely tokens that may be told beside each token.
const LIKELIEST_MAX: i64 = 5;

/// Takes the members of a completion request.
///
/// # Errors
/// Names the member that is wrong.
pub(super) fn take(fields: &mut Fields) -> Result<Own, ApiError> {
    let prompts = prompts(fields)?;
    let top_logprobs = fields.integer("logprobs", 0..=LIKELIEST_MAX)?;
    let top_logprobs = top_logprobs.map(|top| u32::try_from(top).expect("at most 5"));
    let echo = fields.flag("echo")?.unwrap_or(false);
    if echo && prompts.iter().any(|prompt| !matches!(prompt, Input::Text(_))) {
        return Err(fields.must("echo", "be false when the prompt is token ids"));
    }
    if echo && top_logprobs.is_some() {
        return Err(fields.must("echo", "be false when logprobs are asked for"));
    }
    if fields.text("suffix")?.is_some_and(|suffix| !suffix.is_empty()) {
        return Err(fields.must("suffix", "be empty: nothing else is supported"));
    }
    Ok(Own { prompts, top_logprobs, echo })
}

/// Only as many are made as are answered.
pub(super) fn check_best_of(fields: &mut Fields, copies: u32) -> Result<(), ApiError> {
    match fields.integer("best_of", 0..=i64::MAX)? {
        Some(best_of) if best_of != i64::from(copies) => {
            Err(fields.must("best_of", &format!("equal n, which is {copies}")))
        }
        _ => Ok(()),
    }
}

fn prompts(fields: &mut Fields) -> Result<Vec<Input>, ApiError> {
    let items = match fields.take(PROMPT) {
        None => return Err(fields.must(PROMPT, "be given")),
        Some(Value::String(text)) => return Ok(vec![Input::Text(text)]),
        Some(Value::Array(items)) if items.is_empty() => {
            return Err(fields.must(PROMPT, "not be empty"));
        }
        Some(Value::Array(items)) => items,
        Some(other) => return Err(wrong(PROMPT, PROMPT_KIND, &other)),
    };
    if items[0].is_number() {
        return Ok(vec![ids(items, PROMPT)?]);
    }
    let prompt = |(index, item)| {
        let place = format!("{PROMPT}[{index}]");
        match item {
            Value::String(text) => Ok(Input::Text(text)),
            Value::Array(items) => ids(items, &place),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
                Err(wrong(&place, "a string or an array of token ids", &other))
            }
        }
    };
    items.into_iter().enumerate().map(prompt).collect()
}

/// Whether the ids are of the vocabulary is the engine's to say.
fn ids(items: Vec<Value>, place: &str) -> Result<Input, ApiError> {
    if items.is_empty() {
        return Err(ApiError::invalid(place, format!("{place} must not be empty")));
    }
    let id = |(index, item): (usize, Value)| {
        let id = item.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| wrong(&format!("{place}[{index}]"), "a token id", &item))
    };
    let ids = items.into_iter().enumerate().map(id).collect::<Result<_, _>>()?;
    Ok(Input::TokenIds(TokenIds { ids }))
}

#[cfg(test)]
mod tests;
