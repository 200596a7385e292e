//! Jinja as Hugging Face runs it, with limits.

use std::{borrow::Cow, error::Error as _, fmt};

use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value, syntax::SyntaxConfig};
use minijinja_contrib::pycompat;

use super::{
    TemplateError,
    placeholder::{self, Ends},
};

/// The one template of the environment.
const NAME: &str = "chat";

/// Work of one rendering: instructions, and 64 bytes of any text for each. A long chat takes a
/// twentieth of it; a template that takes it all has run for about a tenth of a second.
const FUEL: u64 = 1_000_000;

/// Nested calls. Templates nest a handful; this many fit into any thread's stack.
const RECURSION_MAX: usize = 100;

/// The longest message of `raise_exception` that is passed on, in characters.
const RAISED_MAX: usize = 300;

/// The template's own refusal, to be told apart from its failures.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// An environment that holds the compiled template.
pub(super) fn compile(source: &str) -> Result<Environment<'static>, TemplateError> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION_MAX);
    environment.set_unknown_method_callback(method);
    environment.add_filter("trim", trim);
    environment.add_function("raise_exception", raise_exception);
    environment
        .add_template_owned(NAME, source.to_owned())
        .map_err(|error| TemplateError::Syntax(error.to_string()))?;
    Ok(environment)
}

/// Renders the template for a chat of so many messages.
pub(super) fn render(
    environment: &Environment<'_>,
    context: Value,
    messages: usize,
) -> Result<String, TemplateError> {
    let template = environment.get_template(NAME).expect("`compile` has added it");
    template.render(context).map_err(|error| explain(&error, messages))
}

fn explain(error: &Error, messages: usize) -> TemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.source();
    while let Some(inner) = cause {
        if let Some(Raised(message)) = inner.downcast_ref() {
            return TemplateError::Refused(message.chars().take(RAISED_MAX).collect());
        }
        cause = inner.source();
    }
    if error.kind() == ErrorKind::OutOfFuel {
        return TemplateError::Endless { messages };
    }
    TemplateError::Failed(error.to_string())
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raised").with_source(Raised(message)))
}

/// The filter `trim`, which knows placeholders.
fn trim(text: Cow<'_, str>, characters: Option<Cow<'_, str>>) -> String {
    match characters {
        None => placeholder::trim(&text, Ends::Both),
        Some(characters) => text.trim_matches(|c| characters.contains(c)).to_owned(),
    }
}

/// Python's methods; the ones that trim know placeholders.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let ends = match name {
        "strip" => Some(Ends::Both),
        "lstrip" => Some(Ends::Start),
        "rstrip" => Some(Ends::End),
        _ => None,
    };
    match (ends, value.as_str()) {
        (Some(ends), Some(text)) if args.is_empty() => {
            Ok(Value::from(placeholder::trim(text, ends)))
        }
        _ => pycompat::unknown_method_callback(state, value, name, args),
    }
}
