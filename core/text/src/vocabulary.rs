//! The tokens of a model, as bytes.
//!
//! Built once when the model is loaded and never changed. All pieces lie in one buffer.

use units::Token;

/// What a token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of text, perhaps only a part of a character.
    Text,
    /// A mark of the template, such as the start of a turn. Never shown, never made from user text.
    Control,
    /// A control token with which the model ends its answer.
    End,
    /// An id without a meaning.
    Unused,
}

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its bytes; of a control token the string that stands for it in a template.
    pub piece: Vec<u8>,
    /// What it stands for.
    pub kind: Kind,
}

/// The tokens of a model. Ids run from 0 to below [`Vocabulary::len`].
#[derive(Clone, Debug)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    /// Where each piece ends in `bytes`.
    ends: Vec<usize>,
    kinds: Vec<Kind>,
    /// Control and end tokens that a template can write, by their strings.
    controls: Vec<Token>,
    bos: Option<Token>,
    eos: Option<Token>,
    add_bos: bool,
}

/// Gathers the tokens of a [`Vocabulary`] in the order of their ids.
#[derive(Clone, Debug, Default)]
pub struct VocabularyBuilder {
    entries: Vec<Entry>,
    bos: Option<Token>,
    eos: Option<Token>,
    add_bos: bool,
}

impl VocabularyBuilder {
    /// Adds the next token and says its id.
    ///
    /// # Panics
    /// If ids run out.
    pub fn push(&mut self, piece: impl Into<Vec<u8>>, kind: Kind) -> Token {
        let id =
            u32::try_from(self.entries.len()).expect("vocabularies have fewer than 2^32 tokens");
        self.entries.push(Entry { piece: piece.into(), kind });
        Token(id)
    }

    /// The token that begins a text, and whether every prompt has to begin with it.
    #[must_use]
    pub fn bos(self, bos: Option<Token>, add: bool) -> Self {
        Self { bos, add_bos: add && bos.is_some(), ..self }
    }

    /// The token that ends a text.
    #[must_use]
    pub fn eos(self, eos: Option<Token>) -> Self {
        Self { eos, ..self }
    }

    /// The vocabulary.
    #[must_use]
    pub fn build(self) -> Vocabulary {
        let mut vocabulary = Vocabulary {
            bytes: Vec::with_capacity(self.entries.iter().map(|entry| entry.piece.len()).sum()),
            ends: Vec::with_capacity(self.entries.len()),
            kinds: Vec::with_capacity(self.entries.len()),
            controls: Vec::new(),
            bos: self.bos,
            eos: self.eos,
            add_bos: self.add_bos,
        };
        for (id, entry) in (0..).map(Token).zip(&self.entries) {
            vocabulary.bytes.extend_from_slice(&entry.piece);
            vocabulary.ends.push(vocabulary.bytes.len());
            vocabulary.kinds.push(entry.kind);
            if matches!(entry.kind, Kind::Control | Kind::End) && !entry.piece.is_empty() {
                vocabulary.controls.push(id);
            }
        }
        let entries = &self.entries;
        vocabulary.controls.sort_by(|a, b| entries[index(*a)].piece.cmp(&entries[index(*b)].piece));
        vocabulary
    }
}

impl From<Vec<Entry>> for VocabularyBuilder {
    fn from(entries: Vec<Entry>) -> Self {
        Self { entries, ..Self::default() }
    }
}

impl Vocabulary {
    /// An empty one to fill.
    #[must_use]
    pub fn builder() -> VocabularyBuilder {
        VocabularyBuilder::default()
    }

    /// Bytes of the longest token, at least 1: a text has no fewer tokens than its length over this.
    #[must_use]
    pub fn longest(&self) -> usize {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| end - start).max().unwrap_or(1).max(1)
    }

    /// How many tokens there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Whether `token` is an id of this vocabulary.
    #[must_use]
    pub fn contains(&self, token: Token) -> bool {
        index(token) < self.len()
    }

    /// What `token` stands for; an id that is not in the vocabulary is unused.
    #[must_use]
    pub fn kind(&self, token: Token) -> Kind {
        self.kinds.get(index(token)).copied().unwrap_or(Kind::Unused)
    }

    /// The bytes of `token`; see [`Entry::piece`]. None for an id that is not in the vocabulary.
    #[must_use]
    pub fn piece(&self, token: Token) -> &[u8] {
        let at = index(token);
        let Some(&end) = self.ends.get(at) else { return &[] };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..end]
    }

    /// The bytes of `token` that a reader sees: none unless it is text.
    #[must_use]
    pub fn shown(&self, token: Token) -> &[u8] {
        match self.kind(token) {
            Kind::Text => self.piece(token),
            Kind::Control | Kind::End | Kind::Unused => &[],
        }
    }

    /// Whether the model ends its answer with `token`.
    #[must_use]
    pub fn is_end(&self, token: Token) -> bool {
        self.kind(token) == Kind::End
    }

    /// The tokens that end an answer, in the order of their ids.
    pub fn ends(&self) -> impl Iterator<Item = Token> {
        (0..).map(Token).take(self.len()).filter(|&token| self.is_end(token))
    }

    /// Whether `token` is a mark of the template, an end included.
    #[must_use]
    pub fn is_control(&self, token: Token) -> bool {
        matches!(self.kind(token), Kind::Control | Kind::End)
    }

    /// The token that begins a text, if the model has one.
    #[must_use]
    pub fn bos(&self) -> Option<Token> {
        self.bos
    }

    /// The token that ends a text, if the model has one.
    #[must_use]
    pub fn eos(&self) -> Option<Token> {
        self.eos
    }

    /// Whether every prompt has to begin with [`Vocabulary::bos`].
    #[must_use]
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// The control token with the longest string that `text` begins with, and that string's length in
    /// bytes. Of two with the same string, the lower id.
    #[must_use]
    pub fn control_at_start(&self, text: &str) -> Option<(Token, usize)> {
        let text = text.as_bytes();
        let first = *text.first()?;
        let start = self.controls.partition_point(|&control| self.piece(control)[0] < first);
        let same_first =
            self.controls[start..].iter().take_while(|&&id| self.piece(id)[0] == first);
        same_first
            .filter(|&&control| text.starts_with(self.piece(control)))
            // Ties: the first wins only when the later one is not greater, hence the reversed id.
            .max_by_key(|&&control| (self.piece(control).len(), std::cmp::Reverse(control)))
            .map(|&control| (control, self.piece(control).len()))
    }
}

fn index(token: Token) -> usize {
    token.0 as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vocabulary {
        let mut builder = Vocabulary::builder();
        for (piece, kind) in [
            ("<s>", Kind::Control),
            ("he", Kind::Text),
            ("", Kind::Control),
            ("<start>", Kind::Control),
            ("<st", Kind::End),
            ("<x>", Kind::Unused),
        ] {
            builder.push(piece, kind);
        }
        builder.bos(Some(Token(0)), true).build()
    }

    #[test]
    fn pieces_and_kinds() {
        let vocabulary = sample();
        assert_eq!((vocabulary.len(), vocabulary.longest()), (6, 7));
        assert_eq!(vocabulary.piece(Token(0)), b"<s>");
        assert_eq!(vocabulary.piece(Token(2)), b"");
        assert_eq!(vocabulary.piece(Token(5)), b"<x>");
        assert!(vocabulary.is_end(Token(4)) && vocabulary.is_control(Token(4)));
        assert!(!vocabulary.is_control(Token(1)));
    }

    #[test]
    fn an_unknown_id_is_nothing() {
        let vocabulary = sample();
        assert!(!vocabulary.contains(Token(6)));
        for id in [Token(6), Token(u32::MAX)] {
            assert_eq!((vocabulary.piece(id), vocabulary.kind(id)), (&[][..], Kind::Unused));
        }
    }

    #[test]
    fn the_longest_control_string_wins() {
        let vocabulary = sample();
        let found = |text| vocabulary.control_at_start(text).map(|(token, _)| token.0);
        assert_eq!(found("<start>x"), Some(3));
        assert_eq!(found("<star"), Some(4));
        assert_eq!(found("<s>"), Some(0));
        assert_eq!(["<x>", "he", "", "<", "ü"].map(found), [None; 5]);
    }

    #[test]
    fn a_prompt_cannot_begin_with_a_token_that_is_missing() {
        assert!(!Vocabulary::builder().bos(None, true).build().add_bos());
    }
}
