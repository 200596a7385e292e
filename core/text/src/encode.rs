//! Segments to tokens.

use units::Token;

use crate::{Segment, Tokenizer};

/// The tokens of a rendered prompt.
///
/// Strings of control tokens are recognised in the template's own text only, the longest first.
/// Everything between two control tokens is tokenised in one piece, whoever wrote it, as it is in
/// ordinary use. The prompt begins with the model's BOS if the model asks for it, once: a template that
/// writes it is not doubled.
#[must_use]
pub fn encode(segments: &[Segment], tokenizer: &dyn Tokenizer) -> Vec<Token> {
    let vocabulary = tokenizer.vocabulary();
    let mut tokens = Vec::new();
    let mut run = String::new();
    for segment in segments {
        match segment {
            Segment::User(text) => run.push_str(text),
            Segment::Template(text) => encode_template(text, tokenizer, &mut run, &mut tokens),
        }
    }
    flush(&mut run, tokenizer, &mut tokens);
    if let Some(bos) = vocabulary.bos().filter(|_| vocabulary.add_bos())
        && tokens.first() != Some(&bos)
    {
        tokens.insert(0, bos);
    }
    tokens
}

fn encode_template(
    text: &str,
    tokenizer: &dyn Tokenizer,
    run: &mut String,
    tokens: &mut Vec<Token>,
) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((control, length)) = tokenizer.vocabulary().control_at_start(rest) {
            flush(run, tokenizer, tokens);
            tokens.push(control);
            rest = &rest[length..];
        } else {
            run.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
}

fn flush(run: &mut String, tokenizer: &dyn Tokenizer, tokens: &mut Vec<Token>) {
    if !run.is_empty() {
        tokenizer.encode_plain(run, tokens);
        run.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{Vocabulary, fake::Bytes};

    const CONTROLS: &[&str] = &["<s>", "<|start|>", "<|end|>", "<|end|><|x|>"];

    fn template(text: &str) -> Segment {
        Segment::Template(text.to_owned())
    }

    fn user(text: &str) -> Segment {
        Segment::User(text.to_owned())
    }

    fn check(tokenizer: &Bytes, segments: &[Segment], expected: &str) {
        assert_eq!(tokenizer.show(&encode(segments, tokenizer)), expected);
    }

    #[test]
    fn control_strings_count_in_the_template_only() {
        let segments = [template("<|start|>u\n"), user("<|end|>\0ü"), template("<|end|>\n")];
        check(&Bytes::new(CONTROLS), &segments, "⟦<|start|>⟧u\n<|end|>\0ü⟦<|end|>⟧\n");
    }

    #[test]
    fn a_control_string_is_not_put_together_from_two_hands() {
        let tokenizer = Bytes::new(CONTROLS);
        check(&tokenizer, &[template("<|"), user("start|>")], "<|start|>");
        check(&tokenizer, &[user("<|sta"), template("rt|>")], "<|start|>");
        check(&tokenizer, &[template("<|end|>"), user("<|x|>")], "⟦<|end|>⟧<|x|>");
    }

    #[test]
    fn the_longest_control_string_is_taken() {
        check(&Bytes::new(CONTROLS), &[template("<|end|><|x|>")], "⟦<|end|><|x|>⟧");
    }

    #[test]
    fn a_prompt_begins_with_one_bos() {
        let asking = Bytes::with_bos(CONTROLS);
        check(&asking, &[template("<s>"), user("a")], "⟦<s>⟧a");
        check(&asking, &[user("a")], "⟦<s>⟧a");
        check(&asking, &[user("<s>")], "⟦<s>⟧<s>");
        check(&asking, &[], "⟦<s>⟧");
        check(&Bytes::new(CONTROLS), &[user("a")], "a");
        check(&Bytes::new(CONTROLS), &[template("<s>"), user("a")], "⟦<s>⟧a");
    }

    /// Remembers what it was asked to tokenise.
    struct Recorder(Bytes, Mutex<Vec<String>>);

    impl Tokenizer for Recorder {
        fn vocabulary(&self) -> &Vocabulary {
            self.0.vocabulary()
        }

        fn encode_plain(&self, text: &str, out: &mut Vec<Token>) {
            self.1.lock().unwrap().push(text.to_owned());
            self.0.encode_plain(text, out);
        }

        fn chat_template(&self) -> Option<&str> {
            None
        }
    }

    #[test]
    fn text_between_control_tokens_is_one_run() {
        let recorder = Recorder(Bytes::new(CONTROLS), Mutex::default());
        let segments =
            [template("<|start|>user\n"), user("hi"), user(" you"), template("\n<|end|>")];
        assert_eq!(encode(&segments, &recorder).len(), 14);
        assert_eq!(*recorder.1.lock().unwrap(), ["user\nhi you\n"]);
    }
}
