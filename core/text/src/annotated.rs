//! Text with a note on each token that it is made of.

use std::collections::VecDeque;

use units::Token;

use crate::{Pushed, Transcript, Vocabulary};

/// A [`Transcript`] that carries a note for each token, such as its probability, and releases the notes
/// with the text that they are about.
///
/// Text is released in whole tokens, so the notes of a piece are those of exactly the tokens that it is
/// made of. A token whose text is held back (it may begin a stop string, or lacks the rest of a
/// character) comes later, with its text. A token without text has no note.
///
/// The end of an answer may fall within a token: a stop string begins in its middle, or its last
/// character was never finished. Then the part before that is released, and the token's note is not.
#[derive(Clone, Debug)]
pub struct Annotated<T> {
    transcript: Transcript,
    /// What the transcript has released and this has not: the beginning of a token's text.
    unsent: String,
    /// Bytes of text that were decoded and that were released here, in the whole answer.
    decoded: usize,
    released: usize,
    /// Tokens whose text was not released, oldest first.
    open: VecDeque<Open<T>>,
}

/// A token whose text was not released.
#[derive(Clone, Debug)]
struct Open<T> {
    /// Where its text ends, in bytes of the whole answer; unknown while its last character lacks bytes.
    end: Option<usize>,
    note: T,
}

/// A piece of text and the notes of the tokens that it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<T> {
    /// Text that can be sent; often empty.
    pub text: String,
    /// One for each of its tokens, in order.
    pub notes: Vec<T>,
    /// Whether a stop string is complete, so that the answer ends here.
    pub stop: bool,
}

impl<T> Default for Piece<T> {
    fn default() -> Self {
        Self { text: String::new(), notes: Vec::new(), stop: false }
    }
}

impl<T> Annotated<T> {
    /// Notes on the tokens of `transcript`, which has no text yet.
    #[must_use]
    pub fn new(transcript: Transcript) -> Self {
        Self { transcript, unsent: String::new(), decoded: 0, released: 0, open: VecDeque::new() }
    }

    /// Takes the next token and the note on it; see [`Transcript::push`].
    pub fn push(&mut self, vocabulary: &Vocabulary, token: Token, note: T) -> Piece<T> {
        let Pushed { text, stop } = self.transcript.push(vocabulary, token);
        self.unsent.push_str(&text);
        if stop {
            // The token that completes the stop string has no place in the text.
            return self.release(self.released + self.unsent.len(), true);
        }
        self.decoded += self.transcript.decoded_bytes();
        if !vocabulary.shown(token).is_empty() {
            self.open.push_back(Open { end: None, note });
        }
        if self.transcript.is_between_characters() {
            let unknown = self.open.iter_mut().rev().take_while(|open| open.end.is_none());
            unknown.for_each(|open| open.end = Some(self.decoded));
        }
        let clear = self.released + self.unsent.len();
        let ends = self.open.iter().map_while(|open| open.end.filter(|&end| end <= clear));
        self.release(ends.last().unwrap_or(self.released), false)
    }

    /// What was held back, when the answer ends without a stop string; see [`Transcript::finish`].
    pub fn finish(&mut self) -> Piece<T> {
        let text = self.transcript.finish();
        self.unsent.push_str(&text);
        self.release(self.released + self.unsent.len(), false)
    }

    /// The text up to byte `end` of the answer, and the notes of the tokens that end there or before.
    fn release(&mut self, end: usize, stop: bool) -> Piece<T> {
        let text = self.unsent.drain(..end - self.released).collect();
        self.released = end;
        let whole = |open: &&Open<T>| open.end.is_some_and(|it| it <= end);
        let count = self.open.iter().take_while(whole).count();
        let notes = self.open.drain(..count).map(|open| open.note).collect();
        Piece { text, notes, stop }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, VocabularyBuilder};
    use proptest::prelude::*;

    fn vocabulary(pieces: &[&[u8]]) -> Vocabulary {
        let mut builder = VocabularyBuilder::default();
        for &piece in pieces {
            builder.push(piece, Kind::Text);
        }
        builder.build()
    }

    fn annotated(stops: &[&str]) -> Annotated<usize> {
        let stops = stops.iter().map(|&stop| stop.to_owned()).collect();
        Annotated::new(Transcript::new(stops))
    }

    /// Each piece as its text and the numbers of its tokens; a stop is marked with `|`, and the last
    /// piece is what was held back.
    fn check(stops: &[&str], tokens: &[&[u8]], expected: &[(&str, &[usize])]) {
        let vocabulary = vocabulary(tokens);
        let mut annotated = annotated(stops);
        let mut pieces: Vec<Piece<usize>> = (0..tokens.len())
            .map(|at| annotated.push(&vocabulary, Token(u32::try_from(at).unwrap()), at))
            .collect();
        pieces.push(annotated.finish());
        let shown: Vec<(String, Vec<usize>)> = pieces
            .into_iter()
            .map(|it| (it.text + if it.stop { "|" } else { "" }, it.notes))
            .collect();
        let expected: Vec<(String, Vec<usize>)> =
            expected.iter().map(|(text, notes)| ((*text).to_owned(), notes.to_vec())).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn every_token_comes_with_its_text() {
        check(&[], &[b"a", b"bc", b""], &[("a", &[0]), ("bc", &[1]), ("", &[]), ("", &[])]);
    }

    #[test]
    fn tokens_that_share_a_character_come_together() {
        let han = "\u{6f22}".as_bytes();
        let (first, last) = han.split_at(2);
        let tail = [last, b"x", first].concat();
        check(
            &[],
            &[b"a", first, last, first, &tail, last],
            &[
                ("a", &[0]),
                ("", &[]),
                ("\u{6f22}", &[1, 2]),
                ("", &[]),
                ("", &[]),
                ("\u{6f22}x\u{6f22}", &[3, 4, 5]),
                ("", &[]),
            ],
        );
    }

    #[test]
    fn a_token_waits_for_all_of_its_text() {
        // "b" could be sent, but not its token's line break.
        check(
            &["\n\n"],
            &[b"a", b"b\n", b"c"],
            &[("a", &[0]), ("", &[]), ("b\nc", &[1, 2]), ("", &[])],
        );
        check(&["\n\n"], &[b"b\n"], &[("", &[]), ("b\n", &[0])]);
    }

    #[test]
    fn a_stop_takes_its_tokens_with_it() {
        check(&["\n\n"], &[b"a", b"\n", b"\n"], &[("a", &[0]), ("", &[]), ("|", &[]), ("", &[])]);
        check(&["STOP"], &[b"a", b"ST", b"OPb"], &[("a", &[0]), ("", &[]), ("|", &[]), ("", &[])]);
    }

    #[test]
    fn a_stop_in_the_middle_of_a_token_leaves_its_head_without_a_note() {
        check(
            &["\n\n"],
            &[b"a", b"b\n", b"\nc"],
            &[("a", &[0]), ("", &[]), ("b|", &[]), ("", &[])],
        );
        check(&["TO"], &[b"x", b"STOP"], &[("x", &[0]), ("S|", &[]), ("", &[])]);
    }

    #[test]
    fn an_unfinished_character_at_the_end_was_never_written() {
        check(&[], &[b"a", b"x\xe6\xbc"], &[("a", &[0]), ("", &[]), ("x", &[])]);
    }

    #[test]
    fn what_is_no_character_is_replaced_and_keeps_its_notes() {
        check(
            &[],
            &[b"\xe6", b"a", b"\xff"],
            &[("", &[]), ("\u{fffd}a", &[0, 1]), ("\u{fffd}", &[2]), ("", &[])],
        );
    }

    fn tokens() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let text = "[ab\u{e9}\u{6f22}\u{1f469}]{0,30}";
        (text, prop::collection::vec(1..6_usize, 1..60)).prop_map(|(text, sizes)| {
            let mut rest = text.as_bytes();
            let mut tokens = Vec::new();
            for &size in sizes.iter().cycle() {
                if rest.is_empty() {
                    return tokens;
                }
                let (token, after) = rest.split_at(size.min(rest.len()));
                tokens.push(token.to_vec());
                rest = after;
            }
            tokens
        })
    }

    proptest! {
        #[test]
        fn pieces_are_their_tokens_and_the_text_is_the_same(
            tokens in tokens(),
            stops in prop::collection::vec("[ab\u{e9}]{1,3}", 0..3),
        ) {
            let pieces: Vec<&[u8]> = tokens.iter().map(Vec::as_slice).collect();
            let vocabulary = vocabulary(&pieces);
            let mut plain = Transcript::new(stops.clone());
            let mut annotated = Annotated::new(Transcript::new(stops));
            let (mut expected, mut whole, mut next) = (String::new(), String::new(), 0);
            for at in 0..=tokens.len() {
                let last = at == tokens.len();
                let token = Token(u32::try_from(at).unwrap());
                let stop = if last {
                    expected += &plain.finish();
                    false
                } else {
                    let pushed = plain.push(&vocabulary, token);
                    expected += &pushed.text;
                    pushed.stop
                };
                let piece =
                    if last { annotated.finish() } else { annotated.push(&vocabulary, token, at) };
                prop_assert_eq!(piece.stop, stop);
                let bytes: Vec<u8> = piece.notes.iter().flat_map(|&it| tokens[it].clone()).collect();
                let ended = stop || last;
                prop_assert!(piece.text.as_bytes() == bytes || ended && piece.text.as_bytes().starts_with(&bytes));
                for note in piece.notes {
                    prop_assert_eq!(note, next);
                    next += 1;
                }
                whole += &piece.text;
                if ended {
                    break;
                }
            }
            prop_assert_eq!(whole, expected);
        }
    }
}
