//! Chats over one shared prompt, each with a word of its own, all at once: nobody may read another's.

use std::{collections::BTreeSet, env};

use e2e::{Answer, Chat, Spec, Stack};
use futures_util::future::join_all;
use serde_json::json;

const WORDS: [&str; 32] = [
    "giraffe", "volcano", "trumpet", "cinnamon", "glacier", "lantern", "pumpkin", "dolphin",
    "saddle", "thunder", "window", "blanket", "compass", "feather", "hammer", "island", "jungle",
    "kettle", "lemon", "mirror", "needle", "orchid", "pepper", "quartz", "rocket", "spider",
    "tunnel", "umbrella", "violin", "walnut", "yogurt", "zebra",
];

/// Where sequences and kept prefixes lie.
const LAYOUTS: [&str; 2] = ["streams", "unified"];

/// What the mock answers follows from every token of the prompt: in a crowd, and with kept prefixes, it is
/// what it was alone and without, or somebody has read another's.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_rounds_of_secrets_on_the_mock() {
    let mut alone = Vec::new();
    let stack = start(Spec::mock(200, 20).engine(&["--prefix-cache", "off"])).await;
    for word in WORDS {
        alone.push(text(word, chat(word).ask(&stack, 0).await));
    }
    assert_eq!(alone.iter().collect::<BTreeSet<_>>().len(), WORDS.len(), "{alone:?}");
    drop(stack);
    for layout in LAYOUTS {
        let stack = start(Spec::mock(200, 20).engine(&["--layout", layout])).await;
        for round in 1..=50 {
            assert_eq!(all_at_once(&stack).await, alone, "{layout}, round {round}");
        }
    }
}

/// What a model answers depends on who is computed beside it, by a hair. Whose word it says does not.
/// `CADENCE_SECRET_ROUNDS` says how many rounds in each layout; without it there is one.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_stay_with_their_owners() {
    let rounds = env::var("CADENCE_SECRET_ROUNDS").ok();
    let rounds = rounds.map_or(1, |it| it.parse().expect("CADENCE_SECRET_ROUNDS is a number"));
    for layout in LAYOUTS {
        let stack = start(Spec::model().engine(&["--layout", layout])).await;
        for round in 1..=rounds {
            let texts = all_at_once(&stack).await;
            nobody_reads_anothers(&texts, &format!("{layout}, round {round}"));
        }
    }
}

fn nobody_reads_anothers(texts: &[String], when: &str) {
    let mut own = 0;
    for (word, text) in WORDS.iter().zip(texts) {
        let text = text.to_lowercase();
        own += usize::from(text.contains(word));
        let foreign = WORDS.iter().find(|other| *other != word && text.contains(*other));
        assert_eq!(foreign, None, "{when}: {word} reads {text:?}");
    }
    assert!(own >= 16, "{when}: only {own} answers say their own word: {texts:?}");
}

/// A quarter of the words have a slot at once, and none is refused.
async fn start(spec: Spec) -> Stack {
    let spec = spec.engine(&["--slots", "8"]).admission(&["--limit-requests", "128"]);
    let room = ["--limit-tokens", "1000000", "--limit-kv-blocks", "100000"];
    Stack::start(spec.admission(&room)).await
}

async fn all_at_once(stack: &Stack) -> Vec<String> {
    join_all(WORDS.map(async |word| text(word, chat(word).ask(stack, 0).await))).await
}

fn text(word: &str, answer: Answer) -> String {
    assert!(answer.is_complete(), "{word}: {answer:?}");
    answer.text
}

fn chat(word: &str) -> Chat {
    let system = "You repeat exactly the word that the user tells you and nothing else. ".repeat(3);
    let user = format!("The secret word is {word}. Say only the secret word.");
    let messages = json!([
        {"role": "system", "content": system},
        {"role": "user", "content": user},
    ]);
    Chat::new("", 8).with("messages", messages).header("x-slo-patience-ms", 60_000)
}
