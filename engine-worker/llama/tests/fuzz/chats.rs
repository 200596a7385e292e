//! Chats as hostile as they come.

use proptest::prelude::*;
use text::Message;

/// What attackers write, and what has broken others.
const PARTS: [&str; 34] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|im_",
    "end|>",
    "<|",
    "|>",
    "<s>",
    "</s>",
    "<bos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "[INST]",
    "{{ bos_token }}",
    "{% raw %}",
    "{%- endfor %}",
    "{{ messages }}",
    "{#",
    "\u{10f7f0}0\u{10f7f2}",
    "\u{10f7f1}",
    "\u{10f7f3}",
    "\0",
    "\n",
    "\r\n",
    " ",
    "\u{a0}",
    "é",
    "\u{6f22}",
    "\u{1f469}\u{200d}\u{1f467}",
    "\u{202e}",
    "system\n",
    "\"'\\",
];

const ROLES: [&str; 5] = ["system", "user", "assistant", "tool", "developer"];

const ODD_ROLES: [&str; 10] = [
    "",
    " ",
    "USER",
    "user\n",
    "<|im_start|>",
    "{{ x }}",
    "ü",
    "_-",
    "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr",
    "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr",
];

/// The longest run of one part, in bytes.
const RUN_BYTES: usize = 20_000;

/// Lists of messages, their texts made of the corpus too.
pub(crate) fn chats(corpus: Vec<String>) -> impl Strategy<Value = Vec<Message>> {
    let message = (role(), content(corpus)).prop_map(|(role, content)| Message { role, content });
    prop::collection::vec(message, 0..12)
}

fn role() -> impl Strategy<Value = String> {
    prop_oneof![
        24 => prop::sample::select(&ROLES[..]).prop_map(str::to_owned),
        2 => prop::sample::select(&ODD_ROLES[..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn content(corpus: Vec<String>) -> impl Strategy<Value = String> {
    let part = || prop::sample::select(&PARTS[..]);
    let run =
        (part(), 1..RUN_BYTES).prop_map(|(part, bytes)| part.repeat(bytes.div_ceil(part.len())));
    prop_oneof![
        12 => prop::collection::vec(part(), 0..12).prop_map(|parts| parts.concat()),
        4 => prop::collection::vec(prop_oneof![part().prop_map(str::to_owned), any::<String>()], 0..6)
            .prop_map(|parts| parts.concat()),
        2 => prop::sample::select(corpus),
        1 => run,
    ]
}
