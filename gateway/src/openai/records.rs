//! The records of a streamed answer: each is `data: `, one line of JSON, and an empty line.

use std::io;

use proto::v1::TokenLogprob;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};

use super::{
    Endpoint,
    choice::{ChatPiece, Delta, TextChoice},
    logprobs::{ChatLogprobs, TextLogprobs},
    response::{Document, Head, Usage},
};
use crate::error::ApiError;

/// Room for a record with a token in it, in bytes.
const RECORD_ROOM: usize = 320;
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Writes the records of one answer.
#[derive(Debug)]
pub(crate) struct Records {
    endpoint: Endpoint,
    head: Head,
    /// Characters told of each choice: where its next token begins.
    chars: Vec<usize>,
    /// Whether each piece has log probabilities.
    logprobs: bool,
}

impl Records {
    /// Records of an answer with so many choices.
    pub(crate) fn new(endpoint: Endpoint, head: Head, choices: usize, logprobs: bool) -> Self {
        Self { endpoint, head, chars: vec![0; choices], logprobs }
    }

    /// What goes out before the first token: who speaks, or what the answer echoes. Perhaps nothing.
    pub(crate) fn opening(&self, echo: &[&str]) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD_ROOM);
        match self.endpoint {
            Endpoint::Chat => (0..self.chars.len()).for_each(|choice| {
                let role = Delta { role: Some("assistant"), content: Some("") };
                self.chat(&mut out, choice, role, None, None);
            }),
            Endpoint::Completions => echo.iter().enumerate().for_each(|(choice, prompt)| {
                self.text(&mut out, choice, prompt, None, None);
            }),
        }
        out
    }

    /// More of a choice.
    pub(crate) fn piece(&mut self, choice: usize, text: &str, tokens: &[TokenLogprob]) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD_ROOM);
        match self.endpoint {
            Endpoint::Chat => {
                let content = Delta { role: None, content: Some(text) };
                let logprobs = self.logprobs.then(|| ChatLogprobs::new(tokens));
                self.chat(&mut out, choice, content, logprobs, None);
            }
            Endpoint::Completions => {
                let mut chars = self.chars[choice];
                let logprobs = self.logprobs.then(|| TextLogprobs::new(tokens, &mut chars));
                self.text(&mut out, choice, text, logprobs, None);
                self.chars[choice] = chars;
            }
        }
        out
    }

    /// The end of a choice.
    pub(crate) fn finish(&self, choice: usize, reason: &'static str) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD_ROOM);
        match self.endpoint {
            Endpoint::Chat => self.chat(&mut out, choice, Delta::default(), None, Some(reason)),
            Endpoint::Completions => self.text(&mut out, choice, "", None, Some(reason)),
        }
        out
    }

    /// The end of everything, with the usage if it is to be told.
    pub(crate) fn end(&self, out: &mut Vec<u8>, usage: Option<Usage>) {
        if usage.is_some() {
            let none: [TextChoice<'_>; 0] = [];
            record(out, &Document::new(&self.head, self.object(), &none, usage));
        }
        out.extend_from_slice(DONE);
    }

    fn object(&self) -> &'static str {
        match self.endpoint {
            Endpoint::Chat => "chat.completion.chunk",
            Endpoint::Completions => "text_completion",
        }
    }

    fn chat(
        &self,
        out: &mut Vec<u8>,
        index: usize,
        delta: Delta<'_>,
        logprobs: Option<ChatLogprobs<'_>>,
        finish_reason: Option<&'static str>,
    ) {
        let choices = [ChatPiece { index, delta, logprobs, finish_reason }];
        record(out, &Document::new(&self.head, self.object(), &choices, None));
    }

    fn text(
        &self,
        out: &mut Vec<u8>,
        index: usize,
        text: &str,
        logprobs: Option<TextLogprobs<'_>>,
        finish_reason: Option<&'static str>,
    ) {
        let choices = [TextChoice { text, index, logprobs, finish_reason }];
        record(out, &Document::new(&self.head, self.object(), &choices, None));
    }
}

/// A failure, told in band.
pub(crate) fn error_record(error: &ApiError) -> Vec<u8> {
    let mut out = Vec::new();
    record(&mut out, &error.envelope());
    out
}

fn record(out: &mut Vec<u8>, data: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    let mut json = serde_json::Serializer::with_formatter(&mut *out, OneLine(CompactFormatter));
    data.serialize(&mut json).expect("plain data, and a vector takes every write");
    out.extend_from_slice(b"\n\n");
}

/// JSON that is one line also for clients who take the line breaks of Unicode for such: U+0085, U+2028
/// and U+2029 are the ones that JSON itself does not escape.
struct OneLine(CompactFormatter);

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let is_break = |char| matches!(char, '\u{85}' | '\u{2028}' | '\u{2029}');
        let mut rest = fragment;
        // All three begin with one of two bytes, so most text is done after one look.
        while rest.bytes().any(|byte| matches!(byte, 0xc2 | 0xe2)) {
            let Some((at, found)) = rest.char_indices().find(|(_, char)| is_break(*char)) else {
                break;
            };
            self.0.write_string_fragment(out, &rest[..at])?;
            write!(out, "\\u{:04x}", u32::from(found))?;
            rest = &rest[at + found.len_utf8()..];
        }
        self.0.write_string_fragment(out, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(endpoint: Endpoint, logprobs: bool) -> Records {
        let head = Head { id: "ID".into(), created: 1, model: "m".into(), fingerprint: "f".into() };
        Records::new(endpoint, head, 2, logprobs)
    }

    fn text(record: &[u8]) -> &str {
        std::str::from_utf8(record).expect("UTF-8")
    }

    #[test]
    fn completions_have_text_and_one_object_in_both_modes() {
        let mut records = records(Endpoint::Completions, false);
        assert_eq!(
            text(&records.piece(1, "a\n", &[])),
            concat!(
                r#"data: {"id":"ID","object":"text_completion","created":1,"model":"m","#,
                r#""system_fingerprint":"f","choices":[{"text":"a\n","index":1,"logprobs":null,"#,
                r#""finish_reason":null}]}"#,
                "\n\n"
            )
        );
        assert!(records.opening(&[]).is_empty());
        assert_eq!(text(&records.opening(&["p", "q"])).matches("data: ").count(), 2);
        assert!(text(&records.finish(0, "stop")).contains(r#""text":"","index":0"#));
    }

    #[test]
    fn offsets_run_on_from_piece_to_piece() {
        let mut records = records(Endpoint::Completions, true);
        let token =
            |bytes: &[u8]| TokenLogprob { bytes: bytes.to_vec(), ..TokenLogprob::default() };
        records.piece(0, "ab", &[token(b"ab")]);
        assert!(text(&records.piece(0, "c", &[token(b"c")])).contains(r#""text_offset":[2]"#));
        assert!(text(&records.piece(1, "c", &[token(b"c")])).contains(r#""text_offset":[0]"#));
    }

    #[test]
    fn line_breaks_of_unicode_are_escaped() {
        let mut records = records(Endpoint::Chat, false);
        let said = "a\u{2028}b\u{2029}\u{85}é…\u{2028}";
        let record = records.piece(0, said, &[]);
        assert!(
            text(&record).contains(r#""content":"a\u2028b\u2029\u0085é…\u2028""#),
            "{record:?}"
        );
    }
}
