//! Messages to segments, by the model's own chat template.
//!
//! Templates are written for Jinja2 as Hugging Face runs it; the same settings are used here, with
//! Python's string and list methods, `raise_exception` and `tojson`. There is no `strftime_now`: a
//! prompt that changes with the date shares no prefix with yesterday's, and templates that know the
//! function ask whether it is there.
//!
//! A template sees a [`placeholder`] in place of each message's text, which is put back afterwards as
//! [`Segment::User`]. So a template can place, repeat and trim a text, but not read it: a search
//! in it finds nothing, and trimming characters other than white space changes nothing. Text of white
//! space alone is shown as it is, because templates ask for it and it holds nothing to inject.
//!
//! Who may speak when: see [`roles`].

mod environment;
mod placeholder;
mod roles;

use minijinja::{Environment, Value, context};

use crate::Tokenizer;

/// The template of models that bring none: ChatML, which most small models were trained on.
const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n\
    {{ message.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The longest template source in bytes: ten times the longest in use.
const SOURCE_BYTES_MAX: usize = 256 * 1024;

/// The longest role in bytes.
const ROLE_BYTES_MAX: usize = 32;

/// A compiled chat template. Rendering takes work in proportion to the number of messages, never to
/// their length.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
    knows_tool: bool,
}

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user`, `assistant` or what else the template knows: letters, digits, `_` and `-`.
    pub role: String,
    /// Its text, which may be anything.
    pub content: String,
}

/// A piece of a rendered prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Written by the template: may name control tokens.
    Template(String),
    /// Written by somebody else: is plain text, whatever it says.
    User(String),
}

/// A template does not compile, or refuses the messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The source is longer than any honest template.
    #[error("the chat template has {bytes} of {} bytes", SOURCE_BYTES_MAX)]
    Long {
        /// Its length.
        bytes: usize,
    },
    /// The source is no template.
    #[error("the chat template does not compile: {0}")]
    Syntax(String),
    /// The template refuses these messages, in its own words.
    #[error("{0}")]
    Refused(String),
    /// The template failed on these messages.
    #[error("the chat template failed: {0}")]
    Failed(String),
    /// The template ran for too long or wrote too much.
    #[error("the chat template does too much work for {messages} messages")]
    Endless {
        /// The number of messages.
        messages: usize,
    },
    /// The template cut a message's text apart, so it is unclear what the user wrote.
    #[error("the chat template takes the text of a message apart")]
    Mangled,
    /// The model has no tools.
    #[error("messages[{index}] has the role tool, which the model's chat template does not know")]
    NoTool {
        /// The first message of this role, counted from 0.
        index: usize,
    },
    /// The answer would ignore a message.
    #[error("the model's chat template leaves messages[{index}] out")]
    LeftOut {
        /// The first of these messages, counted from 0.
        index: usize,
    },
    /// A role becomes part of the template's own text and so may not be anything.
    #[error("a role is 1 to {} letters, digits, _ or -", ROLE_BYTES_MAX)]
    Role,
}

impl ChatTemplate {
    /// Compiles `source`; without one the default, ChatML. `bos` and `eos` are the strings of these
    /// tokens, for templates that write them.
    ///
    /// # Errors
    /// [`TemplateError::Long`] or [`TemplateError::Syntax`].
    pub fn new(source: Option<&str>, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        let source = source.unwrap_or(CHATML);
        if source.len() > SOURCE_BYTES_MAX {
            return Err(TemplateError::Long { bytes: source.len() });
        }
        let environment = environment::compile(source)?;
        let (bos, eos) = (bos.to_owned(), eos.to_owned());
        let mut template = Self { environment, bos, eos, knows_tool: false };
        template.knows_tool = roles::knows_tool(|messages| template.run(messages));
        Ok(template)
    }

    /// The template of a model.
    ///
    /// # Errors
    /// See [`ChatTemplate::new`].
    pub fn of(tokenizer: &dyn Tokenizer) -> Result<Self, TemplateError> {
        let vocabulary = tokenizer.vocabulary();
        let string = |token: Option<_>| {
            let piece = token.map_or(&[][..], |token| vocabulary.piece(token));
            String::from_utf8_lossy(piece)
        };
        let (bos, eos) = (string(vocabulary.bos()), string(vocabulary.eos()));
        Self::new(tokenizer.chat_template(), &bos, &eos)
    }

    /// The prompt that makes the model answer `messages`, or go on with the last one if it is an
    /// assistant's.
    ///
    /// Messages stay as they are and where they are; what the template refuses is an error, and so is a
    /// message that it leaves out, and a `tool` where it knows none.
    ///
    /// # Errors
    /// What the template makes of the messages: it may refuse an order of roles, or fail.
    pub fn render(&self, messages: &[Message]) -> Result<Vec<Segment>, TemplateError> {
        if !messages.iter().all(|message| is_role(&message.role)) {
            return Err(TemplateError::Role);
        }
        if let Some(index) = roles::tool(messages).filter(|_| !self.knows_tool) {
            return Err(TemplateError::NoTool { index });
        }
        let messages = roles::spoken(messages);
        let pieces = placeholder::restore(&self.run(messages)?, messages)?;
        roles::prompt(pieces, messages)
    }

    /// The template's output, with placeholders.
    fn run(&self, messages: &[Message]) -> Result<String, TemplateError> {
        let shown = messages.iter().enumerate().map(|(index, message)| {
            let content = placeholder::show(index, &message.content);
            context! { role => message.role.as_str(), content }
        });
        let context = context! {
            messages => shown.collect::<Vec<_>>(),
            add_generation_prompt => !roles::continues(messages),
            bos_token => self.bos.as_str(),
            eos_token => self.eos.as_str(),
            // Templates tell "none given" from "not known here" by these.
            tools => Value::from(()),
            documents => Value::from(()),
        };
        environment::render(&self.environment, context, messages.len())
    }
}

fn is_role(role: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=ROLE_BYTES_MAX).contains(&role.len()) && role.bytes().all(allowed)
}

#[cfg(test)]
mod tests;
