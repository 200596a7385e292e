//! A checked request and its circumstances.

use units::{Micros, RequestId};

use crate::{
    body::Body,
    budget::Share,
    edge::{self, Arrival},
    openai::{Endpoint, Request},
    settings::Settings,
    slo::Wishes,
};

/// The cap on generated tokens of a completion request that names none. OpenAI's, and what its clients
/// count on.
const COMPLETION_TOKENS_DEFAULT: u64 = 16;

/// A request on its way in.
#[derive(Debug)]
pub(crate) struct Order {
    /// One for each choice: those of a prompt stand together. The first is the HTTP request's own.
    pub(crate) ids: Vec<RequestId>,
    pub(crate) endpoint: Endpoint,
    /// When the head of the HTTP request was there.
    pub(crate) head_at: Micros,
    pub(crate) wishes: Wishes,
    pub(crate) asked: Request,
    /// What it takes of the room for all bodies, for as long as it is kept.
    _share: Share,
}

impl Order {
    pub(crate) fn new(
        arrival: Arrival,
        endpoint: Endpoint,
        wishes: Wishes,
        asked: Request,
        body: Body,
    ) -> Self {
        let share = body.keep(asked.bytes());
        let choices = asked.prompts.len() * asked.copies as usize;
        let others = (1..choices).map(|_| edge::new_id());
        let ids = std::iter::once(arrival.id).chain(others).collect();
        Self { ids, endpoint, head_at: arrival.at, wishes, asked, _share: share }
    }

    /// Choices for each prompt.
    pub(crate) fn copies(&self) -> usize {
        self.asked.copies as usize
    }

    /// The cap on generated tokens, whatever room there is.
    pub(crate) fn wanted_tokens(&self, settings: &Settings) -> u64 {
        self.asked.max_tokens.unwrap_or(match self.endpoint {
            Endpoint::Chat => settings.max_tokens_default.into(),
            Endpoint::Completions => COMPLETION_TOKENS_DEFAULT,
        })
    }

    /// The name of a prompt, for errors.
    pub(crate) fn place(&self, prompt: usize) -> String {
        let name = self.endpoint.prompt();
        if self.asked.prompts.len() == 1 { name.into() } else { format!("{name}[{prompt}]") }
    }
}
