//! Sampled tokens to the text that a client sees.

use units::Token;

use crate::{StopMatcher, Utf8Stream, Vocabulary};

/// The text of one answer as its tokens arrive.
#[derive(Clone, Debug)]
pub struct Transcript {
    decoder: Utf8Stream,
    matcher: StopMatcher,
    /// Reused for the text of one token.
    decoded: String,
}

/// What a token added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Text that can be sent; often empty.
    pub text: String,
    /// Whether a stop string is complete, so that the answer ends here.
    pub stop: bool,
}

impl Transcript {
    /// An empty answer that ends before the first of `stops`; see [`StopMatcher::new`].
    #[must_use]
    pub fn new(stops: Vec<String>) -> Self {
        Self {
            decoder: Utf8Stream::default(),
            matcher: StopMatcher::new(stops),
            decoded: String::new(),
        }
    }

    /// Takes the next token. Control, end and unused tokens have no text. After a completed stop
    /// string nothing has.
    pub fn push(&mut self, vocabulary: &Vocabulary, token: Token) -> Pushed {
        self.decoded.clear();
        self.decoder.push(vocabulary.shown(token), &mut self.decoded);
        let mut text = String::new();
        let stop = self.matcher.push(&self.decoded, &mut text);
        Pushed { text, stop }
    }

    /// Bytes of text that the last token completed, whether released or held back.
    pub(crate) fn decoded_bytes(&self) -> usize {
        self.decoded.len()
    }

    /// Whether no character lacks bytes.
    pub(crate) fn is_between_characters(&self) -> bool {
        self.decoder.is_between_characters()
    }

    /// The text that was held back, when the answer ends without a stop string; nothing after one. A
    /// character that lacks bytes is left out.
    pub fn finish(&mut self) -> String {
        self.matcher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Tokenizer, fake::Bytes};

    fn stops(stops: &[&str]) -> Vec<String> {
        stops.iter().map(|&stop| stop.to_owned()).collect()
    }

    /// Pushes one token for each byte; the text of each and whether the answer stopped.
    fn push_all(transcript: &mut Transcript, text: &[u8]) -> (String, bool) {
        let tokenizer = Bytes::new(&[]);
        let mut whole = (String::new(), false);
        for &byte in text {
            let pushed = transcript.push(tokenizer.vocabulary(), Token(u32::from(byte)));
            whole.0 += &pushed.text;
            whole.1 |= pushed.stop;
        }
        whole
    }

    #[test]
    fn bytes_become_characters() {
        let text = "Repeat: 👩‍👩‍👧 🇯🇵 漢字 ё";
        let mut transcript = Transcript::new(Vec::new());
        assert_eq!(push_all(&mut transcript, text.as_bytes()), (text.to_owned(), false));
        assert_eq!(transcript.finish(), "");
    }

    #[test]
    fn a_stop_is_cut_off_and_ends_it() {
        let mut transcript = Transcript::new(stops(&["漢", "\n\n"]));
        assert_eq!(push_all(&mut transcript, "a\n漢b".as_bytes()), ("a\n".to_owned(), true));
        assert_eq!(push_all(&mut transcript, b"more").0, "");
        assert_eq!(transcript.finish(), "");
    }

    #[test]
    fn held_text_comes_at_the_end_and_half_a_character_never() {
        let mut transcript = Transcript::new(stops(&["END"]));
        assert_eq!(push_all(&mut transcript, b"aEN").0, "a");
        assert_eq!(transcript.clone().finish(), "EN");
        assert_eq!(push_all(&mut transcript, &"漢".as_bytes()[..2]).0, "");
        assert_eq!(transcript.finish(), "EN");
        assert_eq!(transcript.finish(), "");
    }

    #[test]
    fn only_text_is_shown() {
        let mut builder = Vocabulary::builder();
        let kinds = [Kind::Text, Kind::Control, Kind::End, Kind::Unused, Kind::Text];
        let tokens = kinds.map(|kind| builder.push("x", kind));
        let vocabulary = builder.build();
        let mut transcript = Transcript::new(Vec::new());
        let texts = tokens.map(|token| transcript.push(&vocabulary, token).text);
        assert_eq!(texts, ["x", "", "", "", "x"]);
        assert_eq!(transcript.push(&vocabulary, Token(u32::MAX)), Pushed::default());
    }
}
