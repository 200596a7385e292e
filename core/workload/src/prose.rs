//! Plausible English without end: instructions to an assistant, and questions.
//!
//! Common words and plain sentences, because tokenizers and models know them: a model that is asked
//! nonsense answers at odd lengths. A word or a mark is about a token.

use units::TokenCount;

use crate::draws::Draws;

/// What a passage reads like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Style {
    /// A system prompt.
    Instructions,
    /// A user's turn.
    Question,
}

/// Sentences as words; `@x` is a word from the list of that letter.
const RULES: [&str; 20] = [
    "Always answer in a @a and @a tone , and keep the @n of the reader in mind .",
    "When a @p asks about the @n , first explain the @n and then the @n .",
    "Never share the @n of one @p with another @p .",
    "If the @n is not clear , ask one short question before you @v it .",
    "The team will @v every @n on @d , so do not promise it before @d .",
    "Use simple words , short sentences and at most three @a examples .",
    "A @p may @v the @n at any time , but only the @p can @v it again .",
    "Our office in @c is open from nine to five and closed on @d .",
    "For a @a @n , tell the @p to @v the @n and to wait for the @n .",
    "Do not guess : if you cannot find the @n , say that you do not know .",
    "Each @n has a number , a @a name and a date , and all three must match .",
    "Before you @v a @n , check that the @p has seen the @a @n .",
    "People from @c often ask how to @v a @n ; point them to the @a guide .",
    "The price of a @n depends on the @n , the @n and the day of the week .",
    "Write numbers as digits , and give every date with the name of the month .",
    "If two rules disagree , follow the one that protects the @p .",
    "A @a request from a @p comes before a @a request from a @p .",
    "Keep a list of each @n that you @v , and show the list when a @p asks .",
    "You may @v the @n once ; after that a @p in @c has to help .",
    "End every answer with one clear next step for the @p .",
];
const QUESTIONS: [&str; 10] = [
    "How can I @v the @n that I got from a @p in @c ?",
    "Please explain why the @n was @a on @d .",
    "My @p told me to @v the @n , but the @n is still @a .",
    "What is the best way to @v a @a @n before @d ?",
    "Tell me about the @n and the @n , with one example for each .",
    "I need a @a plan to @v every @n in our office in @c .",
    "Is it true that a @p must @v the @n first ?",
    "Write a short note to the @p about the @a @n .",
    "Which @n should I @v when the @n is @a ?",
    "Give me five ideas for a @a @n that a @p would like .",
];
const NOUNS: [&str; 32] = [
    "order", "report", "account", "letter", "plan", "budget", "garden", "kitchen", "ticket",
    "machine", "window", "lesson", "market", "project", "picture", "contract", "camera", "journey",
    "recipe", "library", "meeting", "package", "schedule", "bridge", "river", "house", "table",
    "phone", "battery", "invoice", "story", "song",
];
const PEOPLE: [&str; 16] = [
    "customer", "teacher", "doctor", "student", "driver", "manager", "neighbor", "friend", "guest",
    "writer", "farmer", "engineer", "visitor", "partner", "child", "member",
];
const VERBS: [&str; 16] = [
    "change", "open", "close", "send", "check", "move", "build", "clean", "print", "sell", "buy",
    "repair", "cancel", "share", "start", "finish",
];
const ADJECTIVES: [&str; 16] = [
    "friendly", "careful", "short", "new", "old", "large", "small", "simple", "quiet", "strong",
    "clear", "late", "early", "special", "common", "useful",
];
const PLACES: [&str; 8] =
    ["London", "Paris", "Boston", "Chicago", "Berlin", "Rome", "Madrid", "Dublin"];
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The first `tokens` words and marks of passage `id`.
pub(crate) fn write(id: u64, style: Style, tokens: TokenCount) -> String {
    let stream = match style {
        Style::Instructions => 2,
        Style::Question => 3,
    };
    let mut words = Words { draws: Draws::new(id, stream), style, sentence: "".split(' ') };
    let mut text = String::new();
    for _ in 0..tokens.0 {
        let word = words.next();
        let is_mark = matches!(word, "." | "," | "?" | ":" | ";");
        if !text.is_empty() && !is_mark {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

struct Words {
    draws: Draws,
    style: Style,
    sentence: std::str::Split<'static, char>,
}

impl Words {
    fn next(&mut self) -> &'static str {
        loop {
            match self.sentence.next() {
                None | Some("") => self.sentence = self.sentence().split(' '),
                Some(word) => return self.fill(word),
            }
        }
    }

    fn sentence(&mut self) -> &'static str {
        match self.style {
            Style::Instructions => self.pick(&RULES),
            Style::Question => self.pick(&QUESTIONS),
        }
    }

    fn fill(&mut self, word: &'static str) -> &'static str {
        match word {
            "@n" => self.pick(&NOUNS),
            "@p" => self.pick(&PEOPLE),
            "@v" => self.pick(&VERBS),
            "@a" => self.pick(&ADJECTIVES),
            "@c" => self.pick(&PLACES),
            "@d" => self.pick(&DAYS),
            word => word,
        }
    }

    fn pick(&mut self, list: &[&'static str]) -> &'static str {
        let index = self.draws.below(list.len() as u64);
        list[usize::try_from(index).expect("an index of a list")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_slot_is_left_open() {
        for style in [Style::Instructions, Style::Question] {
            let text = write(1, style, TokenCount(20_000));
            assert!(!text.contains('@') && !text.contains("  ") && text.is_ascii());
        }
    }

    #[test]
    fn a_passage_has_as_many_words_and_marks_as_were_asked() {
        for tokens in [0, 1, 7, 300] {
            let text = write(3, Style::Question, TokenCount(tokens));
            let marks = text.chars().filter(|c| ".,?:;".contains(*c)).count();
            assert_eq!(text.split_whitespace().count() + marks, tokens as usize, "{text}");
        }
    }
}
