//! The seam between text and a model's tokenizer.

use units::Token;

use crate::Vocabulary;

/// What a model knows about text.
pub trait Tokenizer: Send + Sync {
    /// Its tokens.
    fn vocabulary(&self) -> &Vocabulary;

    /// Appends the tokens of `text` to `out`. Whatever `text` says, no token of it is a control token,
    /// and none is added before or after it.
    fn encode_plain(&self, text: &str, out: &mut Vec<Token>);

    /// The source of the model's own chat template, if it has one.
    fn chat_template(&self) -> Option<&str>;
}
