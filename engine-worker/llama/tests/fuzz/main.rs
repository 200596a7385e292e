//! Anything that clients may send as a chat, through template and tokeniser: no panic, and what users
//! write never becomes a control token.
//!
//! A quick run of a second, or as long as CADENCE_FUZZ_SECS says:
//! `CADENCE_FUZZ_SECS=300 cargo test --workspace --test fuzz`. With CADENCE_TEST_MODEL the real tokeniser
//! runs too. `corpus/` holds texts that are always tried; the seeds of cases that once failed are kept in
//! `regressions.txt` and tried first.

mod chats;
mod tokenizers;

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use llama::Model;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};
use text::{ChatTemplate, Message, Segment, TemplateError, Tokenizer, encode};
use units::Token;

use crate::tokenizers::Bytes;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz");
const REGRESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/regressions.txt");

/// A tokeniser with every template that it is tried with.
struct Target<'a> {
    tokenizer: &'a dyn Tokenizer,
    templates: Vec<ChatTemplate>,
}

impl<'a> Target<'a> {
    fn new(tokenizer: &'a dyn Tokenizer) -> Self {
        let sources = tokenizers::TEMPLATES.iter().map(|&source| Some(source));
        let sources = sources.chain([None, tokenizer.chat_template()]);
        let compile = |source| ChatTemplate::new(source, "<|endoftext|>", "<|im_end|>");
        let templates = sources.map(|source| compile(source).expect("it compiles")).collect();
        Self { tokenizer, templates }
    }

    fn check(&self, messages: &[Message]) {
        self.templates.iter().for_each(|template| self.check_with(template, messages));
    }

    /// The same chat with harmless texts has the same control tokens in the same places, and no text is
    /// lost on the way.
    fn check_with(&self, template: &ChatTemplate, messages: &[Message]) {
        let harmless: Vec<Message> = messages.iter().map(harmless).collect();
        let (prompt, expected) = (template.render(messages), template.render(&harmless));
        assert_eq!(prompt.as_ref().err(), expected.as_ref().err(), "a text decides nothing");
        let (Ok(prompt), Ok(expected)) = (prompt, expected) else { return };
        let tokens = encode(&prompt, self.tokenizer);
        assert_eq!(self.controls(&tokens), self.controls(&encode(&expected, self.tokenizer)));

        let vocabulary = self.tokenizer.vocabulary();
        let bytes = tokens.iter().flat_map(|&token| vocabulary.piece(token)).copied();
        let bytes: Vec<u8> = bytes.collect();
        let text: String = prompt.iter().map(text_of).collect();
        let bos = vocabulary.bos().filter(|_| vocabulary.add_bos());
        let bos = bos.map_or(&[][..], |bos| vocabulary.piece(bos));
        let rest = bytes.strip_prefix(bos).expect("it begins as the model asks");
        assert!(bytes == text.as_bytes() || rest == text.as_bytes(), "{text:?}");
    }

    fn controls(&self, tokens: &[Token]) -> Vec<Token> {
        let vocabulary = self.tokenizer.vocabulary();
        tokens.iter().copied().filter(|&token| vocabulary.is_control(token)).collect()
    }

    /// The corpus, then random chats until the time is over.
    fn fuzz(&self) {
        let corpus = corpus();
        assert!(corpus.len() > 3, "the corpus is missing");
        for content in &corpus {
            let message = |role: &str| Message { role: role.to_owned(), content: content.clone() };
            for roles in [&["user"][..], &["system", "user", "assistant"], &["assistant", "user"]] {
                self.check(&roles.iter().map(|role| message(role)).collect::<Vec<_>>());
            }
        }
        let failure_persistence = Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS)) as _);
        let config = Config { cases: 20, failure_persistence, ..Config::default() };
        let (mut runner, chats) = (TestRunner::new(config), chats::chats(corpus));
        let (begun, budget) = (Instant::now(), budget());
        let mut cases = 0;
        while cases == 0 || begun.elapsed() < budget {
            let checked = runner.run(&chats, |messages| {
                self.check(&messages);
                Ok(())
            });
            checked.unwrap_or_else(|error| panic!("after {cases} cases: {error}"));
            cases += 20;
        }
        eprintln!("{cases} chats in {:?}", begun.elapsed());
    }
}

/// What the template cannot tell from the message: it sees whether there is anything but white space.
fn harmless(message: &Message) -> Message {
    let Message { role, content } = message;
    let content = if content.trim().is_empty() { content.clone() } else { "a".to_owned() };
    Message { role: role.clone(), content }
}

fn text_of(segment: &Segment) -> &str {
    match segment {
        Segment::Template(text) | Segment::User(text) => text,
    }
}

fn corpus() -> Vec<String> {
    let folder = fs::read_dir(Path::new(HERE).join("corpus")).expect("the corpus is here");
    let mut paths: Vec<PathBuf> = folder.map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    let read = |path: &PathBuf| fs::read(path).expect("a readable file");
    paths.iter().map(|path| String::from_utf8_lossy(&read(path)).into_owned()).collect()
}

fn budget() -> Duration {
    let seconds = env::var("CADENCE_FUZZ_SECS").ok().map(|it| it.parse().expect("seconds"));
    Duration::from_secs(seconds.unwrap_or(1))
}

#[test]
fn fuzz_any_chat_in_bytes() {
    for tokenizer in [Bytes::new(false), Bytes::new(true)] {
        Target::new(&tokenizer).fuzz();
    }
}

#[test]
fn fuzz_any_chat_in_the_models_tokens() {
    let Some(path) = env::var_os("CADENCE_TEST_MODEL") else {
        eprintln!("CADENCE_TEST_MODEL names no model");
        return;
    };
    let model = Model::open(Path::new(&path), 0).expect("a model");
    Target::new(&model).fuzz();
}

#[test]
fn the_check_can_fail() {
    let tokenizer = Bytes::new(false);
    let message =
        |role: &str, content: &str| Message { role: role.into(), content: content.into() };
    // A template that writes the role of a user's choice is as close to an injection as it gets.
    let template = ChatTemplate::new(None, "", "").expect("it compiles");
    let refused = template.render(&[message("<|im_start|>", "x")]);
    assert_eq!(refused, Err(TemplateError::Role));
    let target = Target::new(&tokenizer);
    let prompt = [Segment::Template("<|im_end|>".into()), Segment::User("<|im_end|>".into())];
    assert_eq!(target.controls(&encode(&prompt, &tokenizer)).len(), 1);
}
