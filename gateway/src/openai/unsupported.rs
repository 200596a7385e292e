//! Members that this server does not serve.
//!
//! One that would change the answer is refused by name, never ignored; one that would not is checked
//! for its kind and ignored.

use serde_json::Value;

use super::fields::{Fields, Kind, wrong};
use crate::error::ApiError;

/// Members that change nothing here.
const IGNORED: [(&str, Kind); 13] = [
    ("user", Kind::Text),
    ("metadata", Kind::Object),
    ("store", Kind::Bool),
    ("service_tier", Kind::Text),
    ("reasoning_effort", Kind::Text),
    ("verbosity", Kind::Text),
    ("prediction", Kind::Object),
    ("prompt_cache_key", Kind::Text),
    ("prompt_cache_retention", Kind::Text),
    ("safety_identifier", Kind::Text),
    ("web_search_options", Kind::Object),
    ("parallel_tool_calls", Kind::Bool),
    ("audio", Kind::Object),
];

/// Checks the members that are not served.
///
/// # Errors
/// One would change the answer, or is of the wrong kind.
pub(super) fn check(request: &mut Fields) -> Result<(), ApiError> {
    for (name, kind) in IGNORED {
        request.take_kind(name, kind)?;
    }
    format(request)?;
    tools(request)?;
    functions(request)?;
    modalities(request)
}

fn unsupported(request: &Fields, name: &str, only: &str) -> ApiError {
    request.must(name, &format!("be {only}: nothing else is supported"))
}

fn format(request: &mut Fields) -> Result<(), ApiError> {
    let Some(mut format) = request.object("response_format")? else { return Ok(()) };
    match format.text("type")?.as_deref() {
        Some("text") => Ok(()),
        // The part that the client can drop is the whole member.
        _ => Err(unsupported(request, "response_format", "{\"type\":\"text\"}")),
    }
}

fn tools(request: &mut Fields) -> Result<(), ApiError> {
    let tools = request.list("tools")?.unwrap_or_default();
    let choice = match request.take("tool_choice") {
        None => None,
        Some(Value::String(choice)) => Some(choice),
        Some(Value::Object(_)) => return Err(unsupported(request, "tool_choice", "none or auto")),
        Some(other) => return Err(wrong("tool_choice", "a string or an object", &other)),
    };
    match choice.as_deref() {
        Some("none") => Ok(()),
        None | Some("auto") if tools.is_empty() => Ok(()),
        None | Some("auto") => Err(unsupported(request, "tools", "empty")),
        Some(_) => Err(unsupported(request, "tool_choice", "none or auto")),
    }
}

fn functions(request: &mut Fields) -> Result<(), ApiError> {
    if request.list("functions")?.is_some_and(|functions| !functions.is_empty()) {
        return Err(unsupported(request, "functions", "empty"));
    }
    match request.take("function_call") {
        None => Ok(()),
        Some(Value::String(choice)) if choice == "none" || choice == "auto" => Ok(()),
        Some(_) => Err(unsupported(request, "function_call", "none or auto")),
    }
}

fn modalities(request: &mut Fields) -> Result<(), ApiError> {
    let modalities = request.list("modalities")?.unwrap_or_default();
    if modalities.iter().all(|modality| modality == "text") {
        return Ok(());
    }
    Err(unsupported(request, "modalities", "[\"text\"]"))
}
