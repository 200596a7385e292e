//! The conversation.
//!
//! Rules: text parts are joined without a separator; `developer` is `system`; only an assistant may
//! have no content, which reads as none; the order of roles is the chat template's concern. Calls of tools
//! or functions would be missing from what the model reads, so they are refused; a message's `name` is not
//! shown to it.

use proto::v1::ChatMessage;
use serde_json::Value;

use super::fields::{Fields, wrong};
use crate::error::ApiError;

/// Takes the member `messages`.
///
/// # Errors
/// Missing, empty, or a message that is not one.
pub(super) fn take(request: &mut Fields) -> Result<Vec<ChatMessage>, ApiError> {
    let messages = request.list("messages")?.ok_or_else(|| request.must("messages", "be given"))?;
    if messages.is_empty() {
        return Err(ApiError::Invalid {
            message: "messages must not be empty".into(),
            param: Some("messages".into()),
            code: Some("empty_array"),
        });
    }
    let message = |(index, value)| message(value, &format!("messages[{index}]"));
    messages.into_iter().enumerate().map(message).collect()
}

fn message(value: Value, place: &str) -> Result<ChatMessage, ApiError> {
    let mut fields = Fields::of(value, place)?;
    let named = fields.text("role")?.ok_or_else(|| fields.must("role", "be given"))?;
    let role = match named.as_str() {
        "system" | "developer" => "system",
        "user" => "user",
        "assistant" => "assistant",
        "tool" => "tool",
        _ => {
            return Err(fields.must("role", "be system, developer, user, assistant or tool"));
        }
    };
    no_calls(&mut fields)?;
    let content = match fields.take("content") {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => join(parts, &fields.place("content"))?,
        Some(other) => {
            return Err(wrong(&fields.place("content"), "a string or an array of parts", &other));
        }
        None if role == "assistant" => String::new(),
        None => return Err(fields.must("content", &format!("be given for the role {named}"))),
    };
    Ok(ChatMessage { role: role.into(), content })
}

/// An answer to a conversation without its calls would be another answer.
fn no_calls(fields: &mut Fields) -> Result<(), ApiError> {
    if fields.list("tool_calls")?.is_some_and(|calls| !calls.is_empty()) {
        return Err(fields.must("tool_calls", "be empty: nothing else is supported"));
    }
    match fields.take("function_call") {
        None => Ok(()),
        Some(_) => Err(fields.must("function_call", "be absent: nothing else is supported")),
    }
}

fn join(parts: Vec<Value>, place: &str) -> Result<String, ApiError> {
    let mut whole = String::new();
    for (index, part) in parts.into_iter().enumerate() {
        let mut fields = Fields::of(part, &format!("{place}[{index}]"))?;
        let kind = fields.text("type")?.ok_or_else(|| fields.must("type", "be given"))?;
        if kind != "text" {
            return Err(fields.must("type", "be text: this model reads nothing else"));
        }
        whole += &fields.text("text")?.ok_or_else(|| fields.must("text", "be given"))?;
    }
    Ok(whole)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proto::v1::{ChatInput, prepare_request::Input};

    /// A conversation of one message.
    pub(in crate::openai) fn user(content: &str) -> Input {
        let message = ChatMessage { role: "user".into(), content: content.into() };
        Input::Chat(ChatInput { messages: vec![message] })
    }

    fn read(messages: &str) -> Result<Vec<(String, String)>, ApiError> {
        let body = format!("{{\"messages\":{messages}}}");
        let messages = take(&mut Fields::parse(body.as_bytes())?)?;
        Ok(messages.into_iter().map(|message| (message.role, message.content)).collect())
    }

    fn param(messages: &str) -> String {
        match read(messages) {
            Err(ApiError::Invalid { param: Some(param), .. }) => param,
            other => panic!("{messages}: {other:?}"),
        }
    }

    #[test]
    fn every_role_is_read() {
        let parts = r#"[{"type":"text","text":"a","cache_control":{}},{"type":"text","text":"b"}]"#;
        for (role, read_as) in [
            ("system", "system"),
            ("developer", "system"),
            ("user", "user"),
            ("assistant", "assistant"),
            ("tool", "tool"),
        ] {
            for content in ["\"ab\"", parts] {
                let message = format!(r#"[{{"role":"{role}","content":{content},"name":"x"}}]"#);
                assert_eq!(read(&message), Ok(vec![(read_as.into(), "ab".into())]));
            }
        }
    }

    #[test]
    fn only_an_assistant_may_say_nothing() {
        for content in ["", r#","content":null"#, r#","content":null,"tool_calls":[]"#] {
            let silent = |role| format!(r#"[{{"role":"{role}"{content}}}]"#);
            assert_eq!(read(&silent("assistant")), Ok(vec![("assistant".into(), String::new())]));
            for role in ["system", "user", "tool"] {
                assert_eq!(param(&silent(role)), "messages[0].content");
            }
        }
        assert!(read(r#"[{"role":"user","content":""}]"#).is_ok());
        assert!(read(r#"[{"role":"user","content":[]}]"#).is_ok());
    }

    #[test]
    fn calls_are_refused_and_their_absence_is_not() {
        let message = |role, member: &str| {
            format!(
                r#"[{{"role":"user","content":"a"}},{{"role":"{role}","content":"b",{member}}}]"#
            )
        };
        for role in ["assistant", "user"] {
            for absent in [r#""tool_calls":[]"#, r#""tool_calls":null"#, r#""function_call":null"#]
            {
                assert!(read(&message(role, absent)).is_ok(), "{absent}");
            }
            for calls in [r#"[{"id":"1","type":"function"}]"#, "[null]", "{}", "\"x\"", "true"] {
                let member = format!("\"tool_calls\":{calls}");
                assert_eq!(param(&message(role, &member)), "messages[1].tool_calls");
            }
            let call = r#""function_call":{"name":"f","arguments":"{}"}"#;
            assert_eq!(param(&message(role, call)), "messages[1].function_call");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for bad in ["null", "\"x\"", "{}", "[]", "5", "true"] {
            assert_eq!(param(bad), "messages");
        }
        for bad in ["5", "\"x\"", "[]", "null"] {
            assert_eq!(
                param(&format!(r#"[{{"role":"user","content":"a"}},{bad}]"#)),
                "messages[1]"
            );
        }
        for bad in [
            "{}",
            r#"{"role":5}"#,
            r#"{"role":null}"#,
            r#"{"role":"robot"}"#,
            r#"{"role":"function"}"#,
        ] {
            assert_eq!(param(&format!("[{bad}]")), "messages[0].role");
        }
        for bad in ["5", "true", "{}"] {
            assert_eq!(
                param(&format!(r#"[{{"role":"user","content":{bad}}}]"#)),
                "messages[0].content"
            );
        }
        for (part, place) in [
            ("5", ""),
            ("{}", ".type"),
            (r#"{"type":"image_url","image_url":{}}"#, ".type"),
            (r#"{"type":"input_audio"}"#, ".type"),
            (r#"{"type":"text"}"#, ".text"),
            (r#"{"type":"text","text":5}"#, ".text"),
        ] {
            let messages = format!(r#"[{{"role":"user","content":[{part}]}}]"#);
            assert_eq!(param(&messages), format!("messages[0].content[0]{place}"));
        }
    }
}
