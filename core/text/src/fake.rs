//! A tokenizer for tests: a token for each byte, and control tokens.

use units::Token;

use crate::{Kind, Tokenizer, Vocabulary, VocabularyBuilder};

/// A token for each byte, whose id it is, and from 256 on the given control tokens.
pub(crate) struct Bytes(Vocabulary);

impl Bytes {
    pub(crate) fn new(controls: &[&str]) -> Self {
        Self(Self::builder(controls).build())
    }

    /// The first control token begins every prompt.
    pub(crate) fn with_bos(controls: &[&str]) -> Self {
        Self(Self::builder(controls).bos(Some(Token(256)), true).build())
    }

    fn builder(controls: &[&str]) -> VocabularyBuilder {
        let mut builder = Vocabulary::builder();
        for byte in 0..=u8::MAX {
            builder.push([byte], Kind::Text);
        }
        for control in controls {
            builder.push(*control, Kind::Control);
        }
        builder
    }

    /// The tokens as text, control tokens in brackets that no test writes itself.
    pub(crate) fn show(&self, tokens: &[Token]) -> String {
        let mut shown = Vec::new();
        for &token in tokens {
            let control = self.0.is_control(token);
            shown.extend_from_slice(if control { "⟦".as_bytes() } else { b"" });
            shown.extend_from_slice(self.0.piece(token));
            shown.extend_from_slice(if control { "⟧".as_bytes() } else { b"" });
        }
        String::from_utf8(shown).expect("whole characters")
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
