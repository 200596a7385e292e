//! Clients: they send at their time, hear what comes, try again, or leave.

use std::sync::Arc;

use units::{Micros, RequestId, Span, Token, TokenCount};
use workload::{Ask, Budgets, Content, Draws, Prompt, sdk_wait};

use super::{
    World,
    event::{Event, ToGateway},
    stream,
};
use crate::{
    Scenario,
    report::{Ending, Request},
    scenario::Natural,
};

/// Token ids of prompts and answers lie below this.
pub(super) const VOCABULARY: u32 = 32_000;

/// The client of one request.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) row: Request,
    pub(super) is_open: bool,
    /// The attempt under way.
    pub(super) attempt: Option<RequestId>,
    /// Of waits between attempts.
    draws: Draws,
    /// What it asks, once it has asked.
    pub(super) asked: Option<Asked>,
}

/// What a request asks.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) prompt: Arc<[Token]>,
    pub(crate) shared_tokens: u32,
    pub(crate) max_tokens: u32,
    pub(crate) budgets: Budgets,
    pub(crate) natural: u32,
}

/// How an attempt ended, as its client heard it.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) ending: Ending,
    pub(super) status: Option<u16>,
    pub(super) detail: Option<String>,
    pub(super) retry_after: Option<Span>,
    /// No wait helps.
    pub(super) permanent: bool,
}

impl Client {
    pub(super) fn new(scenario: &Scenario, index: usize) -> Self {
        let intended = scenario.clients.arrivals[index];
        let row = Request {
            intended,
            sent: intended,
            attempts: 0,
            status: None,
            head: None,
            first_token: None,
            last_token: None,
            gaps: Vec::new(),
            end: intended,
            ending: Ending::Timeout,
            detail: None,
            prompt_tokens: 0,
            shared_tokens: 0,
            max_tokens: 0,
            tokens: 0,
            usage: None,
            finish_reason: None,
            tier: None,
            bound: None,
            confidence: None,
            retry_after: None,
        };
        let draws = Draws::new(scenario.seed, stream::RETRIES + index as u64);
        Self { row, is_open: true, attempt: None, draws, asked: None }
    }

    /// Begins an attempt: what was heard in the last one does not count.
    fn attempts(&mut self, now: Micros) -> u32 {
        let row = &mut self.row;
        *row = Request {
            attempts: row.attempts + 1,
            sent: now,
            status: None,
            head: None,
            first_token: None,
            last_token: None,
            gaps: Vec::new(),
            tokens: 0,
            usage: None,
            finish_reason: None,
            tier: None,
            bound: None,
            confidence: None,
            retry_after: None,
            detail: row.detail.take(),
            ..*row
        };
        row.attempts
    }

    /// A token comes.
    pub(super) fn hear_token(&mut self, at: Micros) {
        let row = &mut self.row;
        if let Some(last) = row.last_token {
            row.gaps.push(u32::try_from(at.since(last).0).unwrap_or(u32::MAX));
        }
        row.first_token.get_or_insert(at);
        row.last_token = Some(at);
        row.tokens += 1;
    }
}

impl World<'_> {
    pub(super) fn client_sends(&mut self, index: usize) {
        let scenario = self.scenario;
        let client = &mut self.clients[index];
        if !client.is_open {
            return;
        }
        let asked = client.asked.get_or_insert_with(|| ask(scenario, index));
        client.row.prompt_tokens = u32::try_from(asked.prompt.len()).unwrap_or(u32::MAX);
        client.row.shared_tokens = asked.shared_tokens;
        client.row.max_tokens = asked.max_tokens;
        let attempt = client.attempts(self.now);
        let id = RequestId((index as u128) << 8 | u128::from(attempt));
        client.attempt = Some(id);
        self.digest.take_all(&[self.now.0, 1, index as u64, attempt.into()]);
        self.auditor.attempt_begins(id);
        let delay = self.take_delay(scenario.wires.client);
        self.agenda.put(self.now + delay, Event::ToGateway(ToGateway::Head(id)));
    }

    /// The budgets that a client tells now: a retry has less.
    pub(super) fn budgets_left(&self, index: usize) -> Budgets {
        let client = &self.clients[index];
        let own = client.asked.as_ref().map_or_else(Budgets::default, |asked| asked.budgets);
        let passed = match client.row.attempts {
            0 | 1 => Span::ZERO,
            _ => client.row.sent.since(client.row.intended),
        };
        let left = |budget: Option<Span>| {
            budget.map(|budget| budget.saturating_sub(passed).max(Span::from_millis(1)))
        };
        Budgets { e2e: left(own.e2e), ttft: left(own.ttft), patience: own.patience }
    }

    /// An attempt ends, and its client hears of it at `at`.
    pub(super) fn client_hears(&mut self, at: Micros, id: RequestId, heard: Heard) {
        let index = Self::flight_of(id);
        let clients = &self.scenario.clients;
        let client = &mut self.clients[index];
        if !client.is_open || client.attempt != Some(id) {
            return;
        }
        self.auditor.attempt_ends(self.now, id);
        client.attempt = None;
        client.row.status = heard.status.or(client.row.status);
        client.row.retry_after = heard.retry_after;
        let retries = clients.retries
            && !heard.permanent
            && client.row.head.is_none()
            && matches!(heard.ending, Ending::Shed | Ending::HttpStatus)
            && heard.status.is_some_and(|status| status == 429 || status >= 500);
        let wish = heard.retry_after;
        let again = retries.then(|| sdk_wait(client.row.attempts, wish, &mut client.draws));
        if let Some(wait) = again.flatten() {
            self.agenda.put(at + wait, Event::ClientSends(index));
            return;
        }
        client.row.detail = heard.detail;
        self.close(index, at, heard.ending);
    }

    /// A client gives up, or leaves as the scenario says.
    pub(super) fn client_leaves(&mut self, index: usize, ending: Ending) {
        if !self.clients[index].is_open {
            return;
        }
        if let Some(id) = self.clients[index].attempt.take() {
            self.auditor.attempt_ends(self.now, id);
            let delay = self.take_delay(self.scenario.wires.client);
            self.agenda.put(self.now + delay, Event::ToGateway(ToGateway::Gone(id)));
        }
        self.close(index, self.now, ending);
    }

    fn close(&mut self, index: usize, at: Micros, ending: Ending) {
        let client = &mut self.clients[index];
        client.is_open = false;
        client.row.end = at;
        client.row.ending = ending;
        client.asked = None;
        self.open -= 1;
        let row = &client.row;
        self.digest.take_all(&[at.0, 2, index as u64, ending as u64, row.tokens.into()]);
    }
}

/// What a request asks, and how long its answer would be.
pub(crate) fn ask_of(scenario: &Scenario, index: usize) -> (Ask, u32) {
    let clients = &scenario.clients;
    let mut ask = clients.source.ask(clients.seed, index as u64);
    let cap = clients.max_tokens.map_or(ask.max_tokens, TokenCount).0.max(1);
    ask.max_tokens = TokenCount(cap);
    let natural = match &clients.natural {
        Natural::Cap => cap,
        Natural::Drawn(law) => {
            law.draw(&mut Draws::new(clients.seed, stream::NATURAL + index as u64)).0.max(1)
        }
        Natural::Listed(lengths) => lengths.get(index).map_or(cap, |length| (*length).max(1)),
    };
    (ask, natural)
}

/// The same in tokens, with the budgets that clients have in common.
pub(crate) fn ask(scenario: &Scenario, index: usize) -> Asked {
    let (Ask { prompt, max_tokens, budgets }, natural) = ask_of(scenario, index);
    let common = scenario.clients.budgets;
    Asked {
        prompt: tokens(&prompt),
        shared_tokens: prompt.shared_tokens().0,
        max_tokens: max_tokens.0,
        budgets: Budgets {
            e2e: budgets.e2e.or(common.e2e),
            ttft: budgets.ttft.or(common.ttft),
            patience: budgets.patience.or(common.patience),
        },
        natural,
    }
}

/// A prompt's tokens: what shares text shares these. At least one.
fn tokens(prompt: &Prompt) -> Arc<[Token]> {
    let mut tokens = Vec::new();
    for part in &prompt.parts {
        match &part.content {
            Content::Made(passages) => {
                tokens.extend(passages.iter().flat_map(|passage| passage.token_ids(VOCABULARY)));
            }
            Content::Text(text) => tokens.extend(text.as_bytes().chunks(4).map(word)),
        }
    }
    if tokens.is_empty() {
        tokens.push(Token(0));
    }
    tokens.into()
}

fn word(bytes: &[u8]) -> Token {
    let word = bytes.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
    Token(word % VOCABULARY)
}
