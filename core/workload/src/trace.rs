//! Traces: JSONL, a request a line.
//!
//! A line says when (`time` in seconds, or `timestamp` in milliseconds), what (`messages`, `prompt`, or
//! `prompt_tokens` with an optional `prefix` and `prefix_tokens`, or `hash_ids` of blocks of 512 tokens),
//! and how much may be answered (`max_tokens`). `input_length` and `output_length` are other words for
//! the counts, so that public traces can be read as they are. Other members are ignored.

use serde::{Deserialize, Serialize};
use units::{Micros, Span, TokenCount};

use crate::{
    prompt::{Content, Part, Passage, Prompt, Role, UNSHARED},
    prose::Style,
    slo::Budgets,
    source::Given,
};

/// Tokens of a block that a hash names.
const HASH_BLOCK: u32 = 512;
/// Tokens of a prompt that a trace may ask for.
const PROMPT_TOKENS_MAX: u32 = 10_000_000;

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When, from the trace's first request on.
    pub at: Micros,
    /// What.
    pub given: Given,
}

/// A trace that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TraceError {
    /// Which line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

#[derive(Deserialize, Serialize, Default)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Message>>,
    #[serde(alias = "input_length", skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash_ids: Option<Vec<u64>>,
    #[serde(alias = "output_length", skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e2e_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patience_ms: Option<u64>,
}

#[derive(Deserialize, Serialize)]
struct Message {
    role: String,
    content: String,
}

/// Reads a trace and puts it in order of time. Empty lines are skipped.
///
/// # Errors
/// The first line that makes no sense, or that there is none.
pub fn parse(text: &str) -> Result<Vec<Entry>, TraceError> {
    let mut entries = Vec::new();
    for (index, line) in lines(text) {
        let error = |what| TraceError { line: index + 1, what };
        let line: Line = serde_json::from_str(line).map_err(|why| error(why.to_string()))?;
        let secs = time(&line).map_err(error)?;
        let given = given(line, entries.len() as u64).map_err(error)?;
        entries.push((secs, given));
    }
    if entries.is_empty() {
        return Err(TraceError { line: 1, what: "the trace holds no request".into() });
    }
    entries.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let first = entries[0].0;
    let entry = |(secs, given)| Entry { at: Micros(Span::from_secs_f64(secs - first).0), given };
    Ok(entries.into_iter().map(entry).collect())
}

/// Reads a file of prompts: lines as of a trace, of which no time is needed, or else plain text.
///
/// # Errors
/// A line begins like JSON and makes no sense, or there is no line.
pub fn parse_prompts(text: &str) -> Result<Vec<Given>, TraceError> {
    let mut prompts = Vec::new();
    for (index, line) in lines(text) {
        let error = |what| TraceError { line: index + 1, what };
        let number = prompts.len() as u64;
        prompts.push(if line.trim_start().starts_with('{') {
            let line: Line = serde_json::from_str(line).map_err(|why| error(why.to_string()))?;
            given(line, number).map_err(error)?
        } else {
            let prompt = Prompt::user(Content::Text(line.into()));
            Given { prompt, max_tokens: None, budgets: Budgets::default() }
        });
    }
    if prompts.is_empty() {
        return Err(TraceError { line: 1, what: "the file holds no prompt".into() });
    }
    Ok(prompts)
}

/// One line of a trace, without its end: what [`parse`] reads back as it is, but for made passages of
/// which it keeps the count and what they share.
#[must_use]
pub fn print(entry: &Entry) -> String {
    let given = &entry.given;
    let millis = |span: Option<Span>| span.map(|span| span.0.div_ceil(1_000));
    let mut line = Line {
        time: Some(Span(entry.at.0).as_secs_f64()),
        max_tokens: given.max_tokens.map(|tokens| tokens.0),
        e2e_ms: millis(given.budgets.e2e),
        ttft_ms: millis(given.budgets.ttft),
        patience_ms: millis(given.budgets.patience),
        ..Line::default()
    };
    let mut passages = given.prompt.passages();
    if let Some(first) = passages.next() {
        line.prompt_tokens = Some(given.prompt.tokens().0);
        if first.id < UNSHARED {
            line.prefix = Some(first.id);
            line.prefix_tokens = Some(first.tokens.0);
        }
    } else {
        let message = |part: &Part| Message {
            role: part.role.name().into(),
            content: part.content.text().into_owned(),
        };
        line.messages = Some(given.prompt.parts.iter().map(message).collect());
    }
    serde_json::to_string(&line).expect("numbers and strings have JSON")
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty())
}

fn time(line: &Line) -> Result<f64, String> {
    let secs = line.time.or(line.timestamp.map(|millis| millis / 1_000.0));
    let secs = secs.ok_or("no `time` (seconds) and no `timestamp` (milliseconds)")?;
    if secs.is_finite() && secs.abs() < 1e12 { Ok(secs) } else { Err(format!("time {secs}")) }
}

fn given(line: Line, number: u64) -> Result<Given, String> {
    let max_tokens = line.max_tokens.map(TokenCount);
    if max_tokens == Some(TokenCount(0)) {
        return Err("max_tokens is 0".into());
    }
    let millis = |millis: Option<u64>| millis.map(Span::from_millis);
    let budgets = Budgets {
        e2e: millis(line.e2e_ms),
        ttft: millis(line.ttft_ms),
        patience: millis(line.patience_ms),
    };
    Ok(Given { prompt: prompt(line, number)?, max_tokens, budgets })
}

fn prompt(line: Line, number: u64) -> Result<Prompt, String> {
    if let Some(messages) = line.messages {
        return chat(messages);
    }
    if let Some(text) = line.prompt {
        return Ok(Prompt::user(Content::Text(text)));
    }
    let tokens = line.prompt_tokens.ok_or("no `messages`, `prompt` or `prompt_tokens`")?;
    if tokens > PROMPT_TOKENS_MAX {
        return Err(format!("prompt_tokens is {tokens}, at most {PROMPT_TOKENS_MAX}"));
    }
    let passage = |id, style, tokens| Passage { id, style, tokens: TokenCount(tokens) };
    if let Some(hashes) = line.hash_ids {
        let blocks = hashes.iter().zip(0_u32..).map_while(|(hash, block)| {
            let left = tokens.saturating_sub(block.saturating_mul(HASH_BLOCK));
            let id = hash & !UNSHARED;
            (left > 0).then(|| passage(id, Style::Instructions, left.min(HASH_BLOCK)))
        });
        return Ok(Prompt::user(Content::Made(blocks.collect())));
    }
    let own = number | UNSHARED;
    let prefix_tokens = line.prefix_tokens.unwrap_or(0).min(tokens);
    let own_passage = passage(own, Style::Question, tokens - prefix_tokens);
    Ok(match line.prefix {
        Some(id) if prefix_tokens > 0 => {
            let system = passage(id & !UNSHARED, Style::Instructions, prefix_tokens);
            Prompt::chat(system, own_passage)
        }
        Some(_) | None => {
            let all = Passage { tokens: TokenCount(tokens), ..own_passage };
            Prompt::user(Content::Made(vec![all]))
        }
    })
}

fn chat(messages: Vec<Message>) -> Result<Prompt, String> {
    if messages.is_empty() {
        return Err("`messages` is empty".into());
    }
    let part = |message: Message| {
        let role = Role::from_name(&message.role);
        let role = role.ok_or_else(|| format!("role `{}` is not known", message.role))?;
        Ok(Part { role, content: Content::Text(message.content) })
    };
    let parts = messages.into_iter().map(part).collect::<Result<_, String>>()?;
    Ok(Prompt { parts })
}
