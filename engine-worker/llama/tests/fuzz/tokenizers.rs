//! A tokeniser without a model, and templates in the styles of several.

use text::{Kind, Tokenizer, Vocabulary};
use units::Token;

const CONTROLS: [&str; 8] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<bos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|start_header_id|>",
    "<|eot_id|>",
];

/// ChatML with a system message of its own, headers, strict turns, tools, a template that embraces what
/// users write with halves of marks, and one that says everything twice.
pub(crate) const TEMPLATES: [&str; 6] = [
    "{% for m in messages %}{% if loop.first and m.role != 'system' %}<|im_start|>system\nBe kind.\
     <|im_end|>\n{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
     {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}\n\n{{ m.content | trim }}\
     <|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant\n\n{% endif %}",
    "{{ bos_token }}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
     {{ raise_exception('Roles must alternate') }}{% endif %}<start_of_turn>{{ m.role }}\n\
     {{ m.content.strip() }}<end_of_turn>\n{% endfor %}",
    "{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user\n<tool_response>{{ m.content }}\
     </tool_response><|im_end|>{% elif m.role in ['system', 'user', 'assistant'] %}<|im_start|>\
     {{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}",
    "{% for m in messages %}<|{{ m.content }}|><|im_{{ m.content.lstrip() }}end|>{% endfor %}",
    "{% for m in messages %}{{ m.content }}{{ m.content.rstrip() ~ m.role }}{% endfor %}",
];

/// A token for each byte, whose id it is, and the control tokens from 256 on.
pub(crate) struct Bytes(Vocabulary);

impl Bytes {
    /// With or without a BOS before every prompt.
    pub(crate) fn new(add_bos: bool) -> Self {
        let mut builder = Vocabulary::builder();
        for byte in 0..=u8::MAX {
            builder.push([byte], Kind::Text);
        }
        for control in CONTROLS {
            builder.push(control, Kind::Control);
        }
        Self(builder.bos(Some(Token(256)), add_bos).build())
    }
}

impl Tokenizer for Bytes {
    fn vocabulary(&self) -> &Vocabulary {
        &self.0
    }

    fn encode_plain(&self, text: &str, out: &mut Vec<Token>) {
        out.extend(text.bytes().map(|byte| Token(u32::from(byte))));
    }

    fn chat_template(&self) -> Option<&str> {
        None
    }
}
