//! What is asked for: one checked request, whichever endpoint it came in by.

use proto::v1::{ChatMessage, Sampling, prepare_request::Input};
use serde_json::Value;

use super::{
    Endpoint, chat, completion,
    fields::{Fields, wrong},
    sampling, unsupported,
};
use crate::error::ApiError;

/// A request may name at most this many stop sequences.
const STOP_COUNT_MAX: usize = 32;
/// A stop sequence is at most this long, in bytes.
const STOP_BYTES_MAX: usize = 512;
const STOP_KIND: &str = "a string or an array of strings";
/// An unknown model's name is repeated up to this many characters.
const MODEL_ECHO_CHARS: usize = 100;

/// What the server says about requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// The served model, once it is known.
    pub(crate) model: Option<&'a str>,
    /// Token ids are below it, once it is known.
    pub(crate) vocabulary: Option<u32>,
    /// One request gets at most this many choices, at least 1.
    pub(crate) choices_max: u32,
}

/// A checked request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// At least one.
    pub(crate) prompts: Vec<Input>,
    /// Choices for each prompt, at least 1.
    pub(crate) copies: u32,
    pub(crate) sampling: Sampling,
    /// The cap on generated tokens, at least 1; may be absurdly large.
    pub(crate) max_tokens: Option<u64>,
    pub(crate) stop: Vec<String>,
    /// Log probabilities are asked for, and of so many likely tokens beside each.
    pub(crate) top_logprobs: Option<u32>,
    /// The answer begins with the prompt. Only with prompts that are text.
    pub(crate) echo: bool,
    pub(crate) stream: bool,
    /// A stream ends with the usage.
    pub(crate) include_usage: bool,
}

impl Request {
    /// Reads a request that came in by `endpoint`.
    ///
    /// # Errors
    /// Names the member that is wrong, or not supported.
    pub(crate) fn parse(
        endpoint: Endpoint,
        body: &[u8],
        terms: &Terms<'_>,
    ) -> Result<Self, ApiError> {
        let mut fields = Fields::parse(body)?;
        check_model(&mut fields, terms.model)?;
        let own = match endpoint {
            Endpoint::Chat => chat::take(&mut fields)?,
            Endpoint::Completions => completion::take(&mut fields)?,
        };
        let copies = copies(&mut fields, own.prompts.len(), terms.choices_max)?;
        if endpoint == Endpoint::Completions {
            completion::check_best_of(&mut fields, copies)?;
        }
        let stream = fields.flag("stream")?.unwrap_or(false);
        let include_usage = match fields.object("stream_options")? {
            Some(mut options) => options.flag("include_usage")?.unwrap_or(false),
            None => false,
        };
        let request = Self {
            prompts: own.prompts,
            copies,
            sampling: sampling::take(&mut fields, terms.vocabulary)?,
            max_tokens: max_tokens(&mut fields)?,
            stop: stop(&mut fields)?,
            top_logprobs: own.top_logprobs,
            echo: own.echo,
            stream,
            include_usage,
        };
        unsupported::check(&mut fields)?;
        Ok(request)
    }

    /// What it takes, in bytes, as far as no other limit keeps it small.
    pub(crate) fn bytes(&self) -> usize {
        let prompts = self.prompts.iter().map(|prompt| match prompt {
            Input::Chat(chat) => chat.messages.iter().map(message_bytes).sum(),
            Input::Text(text) => text.len(),
            Input::TokenIds(tokens) => size_of_val(tokens.ids.as_slice()),
        });
        prompts.sum()
    }
}

fn message_bytes(message: &ChatMessage) -> usize {
    size_of::<ChatMessage>() + message.role.len() + message.content.len()
}

/// What only one of the endpoints knows.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) prompts: Vec<Input>,
    pub(super) top_logprobs: Option<u32>,
    pub(super) echo: bool,
}

fn check_model(fields: &mut Fields, served: Option<&str>) -> Result<(), ApiError> {
    match (fields.text("model")?, served) {
        (Some(model), Some(served)) if model != served => {
            Err(ApiError::ModelNotFound { model: model.chars().take(MODEL_ECHO_CHARS).collect() })
        }
        _ => Ok(()),
    }
}

/// Choices for each prompt.
fn copies(fields: &mut Fields, prompts: usize, choices_max: u32) -> Result<u32, ApiError> {
    let copies = fields.integer("n", 1..=choices_max.into())?.unwrap_or(1);
    let copies = u32::try_from(copies).expect("it is at most choices_max");
    if prompts as u64 * u64::from(copies) > u64::from(choices_max) {
        let be = format!(
            "ask for at most {choices_max} choices, not {copies} for each of {prompts} prompts"
        );
        return Err(fields.must(if copies > 1 { "n" } else { "prompt" }, &be));
    }
    Ok(copies)
}

/// `max_completion_tokens` is the newer name of `max_tokens`.
fn max_tokens(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    match (fields.count("max_tokens")?, fields.count("max_completion_tokens")?) {
        (Some(old), Some(new)) if old != new => {
            let be = format!("equal max_tokens when both are given, but {new} is not {old}");
            Err(fields.must("max_completion_tokens", &be))
        }
        (old, new) => Ok(new.or(old)),
    }
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let sequences = match fields.take("stop") {
        None => Vec::new(),
        Some(Value::Array(sequences)) => sequences,
        Some(text @ Value::String(_)) => vec![text],
        Some(other) => return Err(wrong("stop", STOP_KIND, &other)),
    };
    if sequences.len() > STOP_COUNT_MAX {
        return Err(fields.must("stop", &format!("have at most {STOP_COUNT_MAX} sequences")));
    }
    let mut stop = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        let Value::String(text) = sequence else {
            return Err(wrong("stop", STOP_KIND, &sequence));
        };
        if !(1..=STOP_BYTES_MAX).contains(&text.len()) {
            return Err(
                fields.must("stop", &format!("have sequences of 1 to {STOP_BYTES_MAX} bytes"))
            );
        }
        stop.push(text);
    }
    Ok(stop)
}

#[cfg(test)]
mod tests;
