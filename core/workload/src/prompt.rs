//! Prompts: text that was given, or passages that are made when they are needed.

use std::borrow::Cow;

use units::{Token, TokenCount};

use crate::{draws::Draws, prose, prose::Style};

/// Who says a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions.
    System,
    /// The question.
    User,
    /// An earlier answer.
    Assistant,
}

/// Made-up text. Passages of one id and style begin alike: the shorter is a prefix of the longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Passage {
    /// What tells passages apart.
    pub id: u64,
    /// What it reads like.
    pub style: Style,
    /// Words and punctuation marks; for common tokenizers about one token each.
    pub tokens: TokenCount,
}

/// What a part says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// This.
    Text(String),
    /// Passages one after the other.
    Made(Vec<Passage>),
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Who says it.
    pub role: Role,
    /// What it says.
    pub content: Content,
}

/// The messages of one request, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Never two of one role in a row, where we made them.
    pub parts: Vec<Part>,
}

impl Role {
    /// Its name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }

    /// The role of that name; `developer` is another word for system.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "system" | "developer" => Some(Self::System),
            "user" => Some(Self::User),
            "assistant" => Some(Self::Assistant),
            _ => None,
        }
    }
}

/// Where ids of passages that no other prompt has begin.
pub(crate) const UNSHARED: u64 = 1 << 63;

impl Passage {
    /// Whether other prompts may have it too.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.id < UNSHARED
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> String {
        prose::write(self.id, self.style, self.tokens)
    }

    /// Token ids below `vocabulary` (at least 1) for a backend that needs no words: what shares text
    /// shares these, and what differs differs, but for chance.
    pub fn token_ids(&self, vocabulary: u32) -> impl Iterator<Item = Token> {
        let stream = match self.style {
            Style::Instructions => 0,
            Style::Question => 1,
        };
        let mut draws = Draws::new(self.id, stream);
        (0..self.tokens.0).map(move |_| {
            let id = draws.below(u64::from(vocabulary.max(1)));
            Token(u32::try_from(id).expect("below a u32"))
        })
    }
}

impl Content {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Made(passages) => {
                let texts: Vec<_> = passages.iter().map(Passage::text).collect();
                Cow::Owned(texts.join("\n"))
            }
        }
    }

    /// Its tokens: counted where it is made, and guessed as a quarter of the bytes where it was given.
    #[must_use]
    pub fn tokens(&self) -> TokenCount {
        match self {
            Self::Text(text) => {
                TokenCount(u32::try_from(text.len().div_ceil(4)).unwrap_or(u32::MAX))
            }
            Self::Made(passages) => passages.iter().map(|passage| passage.tokens).sum(),
        }
    }
}

impl Prompt {
    /// A system prompt and a question.
    #[must_use]
    pub fn chat(system: Passage, turn: Passage) -> Self {
        let part = |role, passage| Part { role, content: Content::Made(vec![passage]) };
        Self { parts: vec![part(Role::System, system), part(Role::User, turn)] }
    }

    /// One message of the user.
    #[must_use]
    pub fn user(content: Content) -> Self {
        Self { parts: vec![Part { role: Role::User, content }] }
    }

    /// Tokens of all parts, without what a chat template adds.
    #[must_use]
    pub fn tokens(&self) -> TokenCount {
        self.parts.iter().map(|part| part.content.tokens()).sum()
    }

    /// Tokens of the passages that it begins with and that other prompts may begin with too: what an idle
    /// server with a prefix cache knows.
    #[must_use]
    pub fn shared_tokens(&self) -> TokenCount {
        self.passages().take_while(|it| it.is_shared()).map(|it| it.tokens).sum()
    }

    /// The made passages, in order.
    pub fn passages(&self) -> impl Iterator<Item = &Passage> {
        self.parts.iter().flat_map(|part| match &part.content {
            Content::Text(_) => [].iter(),
            Content::Made(passages) => passages.iter(),
        })
    }

    /// All parts as one text, for the completions API.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<_> = self.parts.iter().map(|part| part.content.text()).collect();
        texts.join("\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(id: u64, tokens: u32) -> Passage {
        Passage { id, style: Style::Instructions, tokens: TokenCount(tokens) }
    }

    #[test]
    fn the_shorter_of_one_id_is_a_prefix_of_the_longer() {
        let (short, long) = (passage(4, 40), passage(4, 90));
        assert!(long.text().starts_with(&short.text()));
        let ids = |passage: Passage| passage.token_ids(1_000).collect::<Vec<_>>();
        assert!(ids(long).starts_with(&ids(short)));
        assert_eq!(ids(short).len(), 40);
    }

    #[test]
    fn other_ids_say_other_things() {
        let (one, other) = (passage(4, 40), passage(5, 40));
        assert_ne!(one.text(), other.text());
        assert_ne!(one.token_ids(1_000).next(), other.token_ids(1_000).next());
    }

    #[test]
    fn a_prompt_is_its_parts() {
        let question = Passage { style: Style::Question, ..passage(9, 12) };
        let prompt = Prompt::chat(passage(1, 20), question);
        assert_eq!(prompt.tokens(), TokenCount(32));
        assert_eq!(prompt.text(), format!("{}\n\n{}", passage(1, 20).text(), question.text()));
        let given = Prompt::user(Content::Text("nine bytes".into()));
        assert_eq!(given.tokens(), TokenCount(3));
        assert_eq!(given.passages().count(), 0);
    }
}
