//! Stand-ins for the texts of messages while a template runs.
//!
//! A placeholder is the index of its message between two brackets, which are characters that Unicode
//! leaves to private use. No message's text is ever in the same string as a placeholder, so none can
//! pass for one; a template that writes one itself places that message's text, as it may.
//!
//! Trimming a string that begins or ends with a placeholder changes its bracket, and the text is
//! trimmed when it is put back.

use super::{Message, Segment, TemplateError, roles::Placed};

const OPEN: char = '\u{10f7f0}';
const OPEN_TRIMMED: char = '\u{10f7f1}';
const CLOSE: char = '\u{10f7f2}';
const CLOSE_TRIMMED: char = '\u{10f7f3}';

/// The ends of a string that are trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Start,
    End,
    Both,
}

/// What a template sees of the text of message `index`.
pub(super) fn show(index: usize, content: &str) -> String {
    if content.trim().is_empty() { content.to_owned() } else { format!("{OPEN}{index}{CLOSE}") }
}

/// Trims white space, that of placeholders at the ends included.
pub(super) fn trim(text: &str, ends: Ends) -> String {
    let mut trimmed = match ends {
        Ends::Start => text.trim_start(),
        Ends::End => text.trim_end(),
        Ends::Both => text.trim(),
    }
    .to_owned();
    if ends != Ends::End && trimmed.starts_with(OPEN) {
        trimmed.replace_range(..OPEN.len_utf8(), OPEN_TRIMMED.encode_utf8(&mut [0; 4]));
    }
    if ends != Ends::Start && trimmed.ends_with(CLOSE) {
        trimmed.pop();
        trimmed.push(CLOSE_TRIMMED);
    }
    trimmed
}

/// Puts the texts of `messages` back into a template's output.
///
/// # Errors
/// [`TemplateError::Mangled`] if a part of a placeholder is found.
pub(super) fn restore(output: &str, messages: &[Message]) -> Result<Vec<Placed>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = output;
    while let Some(at) = rest.find(is_bracket) {
        let (before, placeholder) = rest.split_at(at);
        pieces.extend(written(before));
        let found = resolve(placeholder, messages).ok_or(TemplateError::Mangled)?;
        let segment = Segment::User(found.text.to_owned());
        pieces.push(Placed { segment, message: Some(found.message) });
        rest = &placeholder[found.length..];
    }
    pieces.extend(written(rest));
    Ok(pieces)
}

fn written(text: &str) -> Option<Placed> {
    let segment = Segment::Template(text.to_owned());
    (!text.is_empty()).then_some(Placed { segment, message: None })
}

/// What a placeholder stands for.
struct Found<'a> {
    message: usize,
    /// The message's text, trimmed where the placeholder says so.
    text: &'a str,
    /// Bytes of the placeholder.
    length: usize,
}

fn is_bracket(character: char) -> bool {
    (OPEN..=CLOSE_TRIMMED).contains(&character)
}

/// What the placeholder at the start of `output` stands for. Its text is not empty, because texts of
/// white space alone have none.
fn resolve<'a>(output: &str, messages: &'a [Message]) -> Option<Found<'a>> {
    let inner = output.strip_prefix([OPEN, OPEN_TRIMMED])?;
    let length = inner.find(is_bracket)?;
    let (index, close) = inner.split_at(length);
    let close = close.chars().next().filter(|&close| close == CLOSE || close == CLOSE_TRIMMED)?;
    let message = index.parse().ok()?;
    let mut text = messages.get::<usize>(message)?.content.as_str();
    if output.starts_with(OPEN_TRIMMED) {
        text = text.trim_start();
    }
    if close == CLOSE_TRIMMED {
        text = text.trim_end();
    }
    Some(Found { message, text, length: OPEN.len_utf8() + length + close.len_utf8() })
}
