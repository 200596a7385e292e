//! Log probabilities, in the shapes of both endpoints.

use std::{borrow::Cow, fmt::Write as _};

use proto::v1::TokenLogprob;
use serde::{Serialize, Serializer, ser::SerializeMap as _};

/// What stands for everything that is less likely; JSON has no infinities.
const FLOOR: f32 = -9_999.0;

/// The tokens of one piece of a chat answer.
#[derive(Debug, Serialize)]
pub(super) struct ChatLogprobs<'a> {
    content: Vec<ChatToken<'a>>,
    refusal: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct ChatToken<'a> {
    #[serde(flatten)]
    token: Likely<'a>,
    top_logprobs: Vec<Likely<'a>>,
}

#[derive(Debug, Serialize)]
struct Likely<'a> {
    token: Cow<'a, str>,
    logprob: f32,
    bytes: &'a [u8],
}

impl<'a> Likely<'a> {
    fn new(token: &'a TokenLogprob) -> Self {
        Self { token: spelled(&token.bytes), logprob: finite(token.logprob), bytes: &token.bytes }
    }
}

impl<'a> ChatLogprobs<'a> {
    pub(super) fn new(tokens: &'a [TokenLogprob]) -> Self {
        let token = |token: &'a TokenLogprob| ChatToken {
            token: Likely::new(token),
            top_logprobs: token.top.iter().map(Likely::new).collect(),
        };
        Self { content: tokens.iter().map(token).collect(), refusal: None }
    }
}

/// The tokens of one piece of a completion: four lists of the same length.
#[derive(Debug, Serialize)]
pub(super) struct TextLogprobs<'a> {
    tokens: Vec<Cow<'a, str>>,
    token_logprobs: Vec<f32>,
    top_logprobs: Vec<Top<'a>>,
    text_offset: Vec<usize>,
}

impl<'a> TextLogprobs<'a> {
    /// `chars` is how many characters of the choice came before; it is moved on.
    pub(super) fn new(tokens: &'a [TokenLogprob], chars: &mut usize) -> Self {
        Self {
            text_offset: offsets(tokens, chars),
            tokens: tokens.iter().map(|token| spelled(&token.bytes)).collect(),
            token_logprobs: tokens.iter().map(|token| finite(token.logprob)).collect(),
            top_logprobs: tokens.iter().map(Top).collect(),
        }
    }
}

/// A map from the likeliest tokens to their log probabilities. The token itself is always among them.
#[derive(Debug)]
struct Top<'a>(&'a TokenLogprob);

impl Serialize for Top<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(None)?;
        let mut told: Vec<Cow<'_, str>> = Vec::with_capacity(self.0.top.len() + 1);
        for token in self.0.top.iter().chain([self.0]) {
            let name = spelled(&token.bytes);
            // Two tokens may be spelled alike, but no two members may; the likelier comes first.
            if !told.contains(&name) {
                map.serialize_entry(&name, &finite(token.logprob))?;
                told.push(name);
            }
        }
        map.end()
    }
}

/// Before how many characters each token begins, counted in the text that all of them make together: in
/// it a maximal wrong part is one character, U+FFFD, whichever tokens it is of.
fn offsets(tokens: &[TokenLogprob], chars: &mut usize) -> Vec<usize> {
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| &token.bytes).copied().collect();
    let mut begun = char_starts(&bytes).peekable();
    let mut token_at = 0;
    let offset = |token: &TokenLogprob| {
        while begun.next_if(|start| *start < token_at).is_some() {
            *chars += 1;
        }
        token_at += token.bytes.len();
        *chars
    };
    let offsets = tokens.iter().map(offset).collect();
    *chars += begun.count();
    offsets
}

/// Where the characters of the text that `bytes` make begin.
fn char_starts(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let mut chunk_at = 0;
    bytes.utf8_chunks().flat_map(move |chunk| {
        let (valid, wrong) = (chunk.valid(), chunk.invalid());
        let valid_at = chunk_at;
        let wrong_at = valid_at + valid.len();
        chunk_at = wrong_at + wrong.len();
        let starts = valid.char_indices().map(move |(at, _)| valid_at + at);
        starts.chain((!wrong.is_empty()).then_some(wrong_at))
    })
}

/// The token's text; its bytes in OpenAI's notation where they are not whole characters.
fn spelled(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => {
            let mut escaped = String::from("bytes:");
            for byte in bytes {
                write!(escaped, "\\x{byte:02x}").expect("a string takes every write");
            }
            escaped.into()
        }
    }
}

fn finite(logprob: f32) -> f32 {
    if logprob.is_nan() { FLOOR } else { logprob.clamp(FLOOR, 0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(bytes: &[u8], logprob: f32, top: Vec<TokenLogprob>) -> TokenLogprob {
        TokenLogprob { token: 1, bytes: bytes.to_vec(), logprob, top }
    }

    fn json(value: &impl Serialize) -> String {
        serde_json::to_string(value).expect("plain data")
    }

    #[test]
    fn chat_has_one_object_for_each_token() {
        let top = vec![token(b"a", -0.5, vec![]), token(b"b", f32::NEG_INFINITY, vec![])];
        let tokens = [token(b"a", -0.5, top), token("\u{e9}".as_bytes(), f32::NAN, vec![])];
        assert_eq!(
            json(&ChatLogprobs::new(&tokens)),
            concat!(
                r#"{"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":["#,
                r#"{"token":"a","logprob":-0.5,"bytes":[97]},{"token":"b","logprob":-9999.0,"bytes":[98]}]},"#,
                r#"{"token":"é","logprob":-9999.0,"bytes":[195,169],"top_logprobs":[]}],"refusal":null}"#
            )
        );
    }

    #[test]
    fn completions_have_four_lists() {
        let top = vec![token(b"b", -0.25, vec![]), token(b"b", -3.0, vec![])];
        let whole = [token("\u{e9}".as_bytes(), -0.5, top), token(b"c", 1.0, vec![])];
        let mut chars = 7;
        assert_eq!(
            json(&TextLogprobs::new(&whole, &mut chars)),
            concat!(
                r#"{"tokens":["é","c"],"token_logprobs":[-0.5,0.0],"top_logprobs":["#,
                r#"{"b":-0.25,"é":-0.5},{"c":0.0}],"text_offset":[7,8]}"#
            )
        );
        assert_eq!(chars, 9);
    }

    #[test]
    fn what_is_not_whole_characters_is_spelled_in_bytes() {
        let halves = [token(b"x\xe2\x80", -0.5, vec![]), token(b"\xa6", -0.5, vec![])];
        let mut chars = 0;
        let told: serde_json::Value =
            serde_json::from_str(&json(&TextLogprobs::new(&halves, &mut chars))).expect("JSON");
        assert_eq!(told["tokens"], serde_json::json!(["bytes:\\x78\\xe2\\x80", "bytes:\\xa6"]));
        assert_eq!(told["text_offset"], serde_json::json!([0, 2]));
        assert_eq!(chars, 2);
    }

    #[test]
    fn offsets_count_the_characters_that_are_in_the_text() {
        for (pieces, wanted) in [
            // A stray byte is a character of its own.
            (&[&b"a"[..], b"\xa6", b"b"][..], &[0, 1, 2][..]),
            (&[b"\xa6\xa6", b"b"], &[0, 2]),
            // A beginning without its end is one, however many tokens it is of.
            (&[b"\xe2", b"\x82", b"b\xff", b"c"], &[0, 1, 1, 3]),
            (&[b"", b"\xe2\x82", b"", b"\xac", b"x"], &[0, 0, 1, 1, 1]),
            (&[], &[]),
        ] {
            let tokens: Vec<_> = pieces.iter().map(|bytes| token(bytes, -0.5, vec![])).collect();
            let mut chars = 0;
            assert_eq!(offsets(&tokens, &mut chars), wanted, "{pieces:?}");
            let text = String::from_utf8_lossy(&pieces.concat()).into_owned();
            assert_eq!(chars, text.chars().count(), "{pieces:?}");
        }
    }
}
