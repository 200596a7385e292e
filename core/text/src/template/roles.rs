//! The one rule for the order of roles.
//!
//! Messages go to the template as they came: nothing is merged, moved or made up. Who may speak when
//! is the template's concern, and what it refuses is refused in its words. Three things it cannot say
//! for itself:
//!
//! - If an assistant speaks last, the answer goes on from there: the prompt ends with that text. An
//!   empty last word is the same as none.
//! - A `tool` speaks only where the template knows the role. A template that writes any role it is
//!   given does not: the model has never seen it.
//! - A message that the template leaves out is an error, since the answer would ignore it.

use super::{Message, Segment, TemplateError};

const ASSISTANT: &str = "assistant";
const TOOL: &str = "tool";

/// A role that no template knows.
const STRANGER: &str = "qqstranger";

/// A piece of a template's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) segment: Segment,
    /// The message whose text it is, unless the template wrote it.
    pub(super) message: Option<usize>,
}

/// The messages without an assistant's empty last words.
pub(super) fn spoken(messages: &[Message]) -> &[Message] {
    let silent = |it: &&Message| it.role == ASSISTANT && it.content.trim().is_empty();
    let dropped = messages.iter().rev().take_while(silent).count();
    &messages[..messages.len() - dropped]
}

/// Whether the answer goes on with the last message.
pub(super) fn continues(messages: &[Message]) -> bool {
    messages.last().is_some_and(|last| last.role == ASSISTANT)
}

/// The first message whose role needs a template that knows tools.
pub(super) fn tool(messages: &[Message]) -> Option<usize> {
    messages.iter().position(|message| message.role == TOOL)
}

/// Whether the template that `render` runs writes `tool` otherwise than a role it has never heard of.
pub(super) fn knows_tool(render: impl Fn(&[Message]) -> Result<String, TemplateError>) -> bool {
    let chat = |role: &str| {
        let message = |role: &str| Message { role: role.to_owned(), content: "x".to_owned() };
        render(&["user", ASSISTANT, role].map(message))
    };
    match (chat(TOOL), chat(STRANGER)) {
        (Ok(known), Ok(strange)) => known != strange.replace(STRANGER, TOOL),
        (Ok(_), Err(_)) => true,
        (Err(_), _) => false,
    }
}

/// The prompt of `messages` from its pieces.
///
/// # Errors
/// [`TemplateError::LeftOut`] if the text of a message is not among them.
pub(super) fn prompt(
    mut pieces: Vec<Placed>,
    messages: &[Message],
) -> Result<Vec<Segment>, TemplateError> {
    let mut placed = vec![false; messages.len()];
    for message in pieces.iter().filter_map(|piece| piece.message) {
        placed[message] = true;
    }
    let said = |index: &usize| !messages[*index].content.trim().is_empty();
    if let Some(index) = (0..messages.len()).filter(said).find(|&index| !placed[index]) {
        return Err(TemplateError::LeftOut { index });
    }
    if continues(messages) {
        let last = pieces.iter().rposition(|it| it.message == Some(messages.len() - 1));
        pieces.truncate(last.map_or(pieces.len(), |last| last + 1));
    }
    Ok(pieces.into_iter().map(|piece| piece.segment).collect())
}
