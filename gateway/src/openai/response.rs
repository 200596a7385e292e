//! What goes back to the client in one piece, and what is common to all answers.

use proto::v1::{FinishReason, TokenLogprob};
use serde::Serialize;

use super::{
    Endpoint,
    choice::{ChatChoice, Message, TextChoice},
    logprobs::{ChatLogprobs, TextLogprobs},
};

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

/// A whole answer or a chunk of one. There is never an `error` member in it, not even a null one: some
/// clients take its presence for a failure.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'a str,
    /// Present and empty beside a stream's usage: clients look for it.
    choices: &'a [C],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

impl<'a, C> Document<'a, C> {
    pub(super) fn new(
        head: &'a Head,
        object: &'static str,
        choices: &'a [C],
        usage: Option<Usage>,
    ) -> Self {
        Self {
            id: &head.id,
            object,
            created: head.created,
            model: &head.model,
            system_fingerprint: &head.fingerprint,
            choices,
            usage,
        }
    }
}

/// One choice, said to its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) text: String,
    /// Nothing when they were not asked for.
    pub(crate) logprobs: Option<Vec<TokenLogprob>>,
    pub(crate) finish_reason: &'static str,
}

impl Said {
    /// Adds what was said next.
    pub(crate) fn add(&mut self, text: &str, logprobs: Vec<TokenLogprob>) {
        self.text += text;
        if let Some(told) = &mut self.logprobs {
            told.extend(logprobs);
        }
    }
}

/// The whole answer as JSON.
pub(crate) fn whole(endpoint: Endpoint, head: &Head, said: &[Said], usage: Usage) -> Vec<u8> {
    let said = said.iter().enumerate();
    match endpoint {
        Endpoint::Chat => {
            let choices: Vec<_> = said.map(chat_choice).collect();
            json(&Document::new(head, "chat.completion", &choices, Some(usage)))
        }
        Endpoint::Completions => {
            let choices: Vec<_> = said.map(text_choice).collect();
            json(&Document::new(head, "text_completion", &choices, Some(usage)))
        }
    }
}

fn chat_choice((index, said): (usize, &Said)) -> ChatChoice<'_> {
    ChatChoice {
        index,
        message: Message::new(&said.text),
        logprobs: said.logprobs.as_deref().map(ChatLogprobs::new),
        finish_reason: said.finish_reason,
    }
}

fn text_choice((index, said): (usize, &Said)) -> TextChoice<'_> {
    TextChoice {
        text: &said.text,
        index,
        logprobs: said.logprobs.as_deref().map(|tokens| TextLogprobs::new(tokens, &mut 0)),
        finish_reason: Some(said.finish_reason),
    }
}

fn json(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document).expect("plain data, and a vector takes every write")
}

/// Tokens of a request and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptTokensDetails,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct PromptTokensDetails {
    cached_tokens: u64,
}

impl Usage {
    /// The sum over all choices; a prompt counts once, however many choices it has.
    pub(crate) fn sum(choices: &[proto::v1::Usage], copies: usize) -> Self {
        let firsts = || choices.iter().step_by(copies.max(1));
        let prompt_tokens = firsts().map(|usage| u64::from(usage.prompt_tokens)).sum();
        let cached_tokens = firsts().map(|usage| u64::from(usage.cached_tokens)).sum();
        let completion_tokens =
            choices.iter().map(|usage| u64::from(usage.completion_tokens)).sum();
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: PromptTokensDetails { cached_tokens },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_counts_once_and_answers_add_up() {
        let usage = |prompt_tokens, completion_tokens, cached_tokens| proto::v1::Usage {
            prompt_tokens,
            completion_tokens,
            cached_tokens,
        };
        let choices = [usage(10, 1, 0), usage(10, 2, 9), usage(20, 3, 5), usage(20, 4, 19)];
        let sum = Usage::sum(&choices, 2);
        assert_eq!((sum.prompt_tokens, sum.completion_tokens, sum.total_tokens), (30, 10, 40));
        assert_eq!(sum.prompt_tokens_details.cached_tokens, 5);
        let huge = [usage(u32::MAX, u32::MAX, u32::MAX); 3];
        assert_eq!(Usage::sum(&huge, 1).total_tokens, 6 * u64::from(u32::MAX));
    }
}
