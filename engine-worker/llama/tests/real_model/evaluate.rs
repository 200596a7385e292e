//! What the model says of a given text.

use text::Tokenizer as _;
use units::Token;

use crate::model;

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    model().encode_plain(text, &mut tokens);
    tokens
}

#[test]
fn a_likely_text_is_likelier_than_an_unlikely_one() {
    let mut evaluator = model().evaluator(64, 1).expect("fits into memory");
    let mut last = |text: &str| {
        let scored = evaluator.score(&tokens(text), 1).expect("scored");
        *scored.last().expect("a token")
    };
    let paris = last("The capital of France is Paris");
    let berlin = last("The capital of France is Berlin");
    assert!(paris.logprob > berlin.logprob + 1.0, "{paris:?} {berlin:?}");
    assert_eq!(paris.top, berlin.top, "both were said before the last token was");
    assert_eq!(paris.top, tokens("The capital of France is Paris").last().copied());
    assert_eq!(last("The capital of France is Paris"), paris, "windows know nothing of each other");
}

#[test]
fn the_part_that_is_asked_for_is_scored() {
    let mut evaluator = model().evaluator(64, 1).expect("fits into memory");
    let window = tokens("One two three four five six seven eight");
    let all = evaluator.score(&window, 0).expect("scored");
    assert_eq!(all.len(), window.len() - 1, "the first token has nothing before it");
    let half = evaluator.score(&window, 4).expect("scored");
    assert_eq!(half.len(), window.len() - 4);
    for (all, half) in all[3..].iter().zip(&half) {
        assert!((all.logprob - half.logprob).abs() < 0.05, "{all:?} {half:?}");
    }
    assert!(evaluator.score(&window, window.len()).expect("scored").is_empty());
    assert!(evaluator.score(&[], 0).expect("scored").is_empty());
    assert!(evaluator.score(&[Token(1); 65], 1).is_err(), "longer than it was made for");
    assert_eq!(evaluator.score(&window, 4).expect("scored"), half, "and lives on");
}
