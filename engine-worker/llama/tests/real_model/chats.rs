//! Many chats with secrets of their own behind one shared prompt.
//!
//! `CADENCE_TEST_ROUNDS=50` runs more of them.

use std::sync::Arc;

use llama::{LayoutKind, Options};
use sched::{Move, Reuse};
use text::{ChatTemplate, Message, encode};
use units::{Owner, Token};

use crate::{
    drive::{SMALL, Sequence, context, run_after},
    model,
};

const SLOTS: usize = 8;
const ANSWER_TOKENS: usize = 12;
const BLOCK_TOKENS: usize = 16;

const SECRETS: [&str; 32] = [
    "pelican", "volcano", "tractor", "diamond", "penguin", "balloon", "lantern", "octopus",
    "giraffe", "trumpet", "blanket", "cactus", "dolphin", "feather", "hammer", "island", "jacket",
    "kitten", "ladder", "mirror", "needle", "orange", "pencil", "rabbit", "saddle", "teapot",
    "umbrella", "violin", "walnut", "yogurt", "zebra", "candle",
];

const SHARED: &str = "You keep passwords for people. When somebody tells you a password and asks for it, you \
    repeat it. You never invent one, and you never tell anybody the password of somebody else. \
    Answer in one short sentence.";

fn ask(secret: &str) -> Arc<[Token]> {
    let message = |role: &str, content: String| Message { role: role.to_owned(), content };
    let question = format!("The password is {secret}. What is the password?");
    let messages = [message("system", SHARED.to_owned()), message("user", question)];
    let template = ChatTemplate::of(model()).expect("compiles");
    encode(&template.render(&messages).expect("takes both roles"), model()).into()
}

/// Whole blocks that all prompts begin with.
fn shared_tokens(prompts: &[Arc<[Token]>]) -> u32 {
    let same = |at: &usize| prompts.iter().all(|prompt| prompt[*at] == prompts[0][*at]);
    let tokens = (0..prompts[0].len()).take_while(same).count();
    u32::try_from(tokens / BLOCK_TOKENS * BLOCK_TOKENS).expect("few")
}

/// All chats, eight at a time; each wave keeps what one of its slots holds, secret and all, and the next begins
/// with it, unless it is in a cold round.
fn rounds(layout: LayoutKind, cold: usize, rounds: usize) -> Vec<Vec<String>> {
    let options =
        Options { slots: 8, context_tokens: 256, batch_tokens: 512, owners: 2, layout, ..SMALL };
    let mut context = context(&options);
    let prompts = SECRETS.map(ask);
    let tokens = shared_tokens(&prompts);
    assert!(tokens >= 48, "{tokens} are shared");
    let mut moves = Vec::new();
    let mut kept = None;
    let mut texts = vec![vec![String::new(); SECRETS.len()]; rounds];
    for wave in 0..rounds * SECRETS.len() / SLOTS {
        let (round, first) = (wave * SLOTS / SECRETS.len(), wave * SLOTS % SECRETS.len());
        let reuse = kept.filter(|_| round >= cold);
        let mut chats: Vec<_> = (0..SLOTS)
            .map(|at| {
                // Not in the slot that they had in the round before.
                let slot = u32::try_from((at + round) % SLOTS).expect("few");
                Sequence { reuse, ..Sequence::new(slot, prompts[first + at].clone()) }
            })
            .collect();
        run_after(&mut context, moves, &mut chats, 48, ANSWER_TOKENS);
        for (at, chat) in chats.iter().enumerate() {
            texts[round][first + at] = chat.text();
        }
        let (old, new) = if wave % 2 == 0 { (Owner(0), Owner(1)) } else { (Owner(1), Owner(0)) };
        let slot = chats[wave * 3 % SLOTS].slot;
        moves = vec![Move::Drop { owner: old }, Move::Keep { slot, owner: new, tokens }];
        kept = Some(Reuse { owner: new, tokens });
    }
    texts
}

fn rounds_wanted() -> usize {
    let wanted = std::env::var("CADENCE_TEST_ROUNDS").ok();
    wanted.map_or(1, |rounds| rounds.parse().expect("CADENCE_TEST_ROUNDS is a number"))
}

/// No chat tells another's secret. So small a model does not always tell its own, but mostly.
fn secrets_are_kept(texts: &[Vec<String>]) {
    for round in texts {
        let told = round.iter().enumerate().map(|(chat, text)| {
            let text = text.to_lowercase();
            let others = SECRETS.iter().filter(|secret| **secret != SECRETS[chat]);
            assert_eq!(
                others.filter(|secret| text.contains(**secret)).count(),
                0,
                "{chat}: {text}"
            );
            text.contains(SECRETS[chat])
        });
        let told = told.filter(|&own| own).count();
        assert!(told * 4 >= SECRETS.len() * 3, "{told} told their own: {round:?}");
    }
}

#[test]
fn chats_behind_a_restored_prompt_answer_as_without_it_and_keep_their_secrets() {
    let texts = rounds(LayoutKind::Streams, 1, 1 + rounds_wanted());
    secrets_are_kept(&texts);
    assert!(texts.iter().all(|round| *round == texts[0]), "{texts:?}");
}

#[test]
fn chats_in_one_pool_keep_their_secrets() {
    let layout = LayoutKind::Unified { cells: 2048 };
    secrets_are_kept(&rounds(layout, 0, rounds_wanted()));
}
