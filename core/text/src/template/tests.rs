use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::{encode, fake::Bytes};

/// Turns in the style of the default.
const CHATML_WITH_SYSTEM: &str = "
{%- if messages[0]['role'] != 'system' -%}
    {{- '<|im_start|>system\nBe kind.<|im_end|>\n' -}}
{%- endif -%}
{% for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' -}}
{% endfor %}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n' -}}
{%- endif -%}
";

/// In the style of Llama 3: BOS from the template, headers, trimmed texts, a date if there is a clock.
const HEADERS: &str = "
{{- bos_token }}
{%- if strftime_now is defined %}
    {{- strftime_now('%d %b %Y') }}
{%- endif %}
{%- if tools is not none %}
    {{- raise_exception('no tools') }}
{%- endif %}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' }}
    {{- message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
";

/// In the style of Gemma: no system role, strict turns, another name for the assistant.
const STRICT: &str = "
{{- bos_token -}}
{%- if messages[0].role == 'system' -%}
    {{- raise_exception('System role not supported') -}}
{%- endif -%}
{%- for message in messages -%}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}
        {{- raise_exception('Roles must alternate: ' ~ message.role) -}}
    {%- endif -%}
    {%- set role = 'model' if message.role == 'assistant' else message.role -%}
    {{- '<start_of_turn>' + role + '\n' + message.content.strip() + '<end_of_turn>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\n' -}}{%- endif -%}
";

fn chat(messages: &[(&str, &str)]) -> Vec<Message> {
    let message = |&(role, content): &(&str, &str)| Message {
        role: role.to_owned(),
        content: content.to_owned(),
    };
    messages.iter().map(message).collect()
}

fn render(source: &str, messages: &[(&str, &str)]) -> Result<Vec<Segment>, TemplateError> {
    ChatTemplate::new(Some(source), "<bos>", "<eos>")?.render(&chat(messages))
}

/// The rendered prompt, user text in brackets that no test writes itself.
fn show(segments: &[Segment]) -> String {
    let show = |segment: &Segment| match segment {
        Segment::Template(text) => text.clone(),
        Segment::User(text) => format!("⟦{text}⟧"),
    };
    segments.iter().map(show).collect()
}

fn check(source: &str, messages: &[(&str, &str)], expected: Expect) {
    let segments = render(source, messages).expect("the template takes these messages");
    expected.assert_eq(&show(&segments));
}

fn refuse(source: &str, messages: &[(&str, &str)], expected: &TemplateError) {
    assert_eq!(render(source, messages).as_ref(), Err(expected));
}

#[test]
fn the_default_is_chatml() {
    let template = ChatTemplate::new(None, "", "").expect("compiles");
    let segments = template.render(&chat(&[("system", "Be brief."), ("user", "Hi")]));
    let shown = show(&segments.expect("takes any roles"));
    expect![[r#"
        <|im_start|>system
        ⟦Be brief.⟧<|im_end|>
        <|im_start|>user
        ⟦Hi⟧<|im_end|>
        <|im_start|>assistant
    "#]]
    .assert_eq(&shown);
}

#[test]
fn a_template_writes_its_own_system_message() {
    check(
        CHATML_WITH_SYSTEM,
        &[("user", "Hi\nthere")],
        expect![[r#"
        <|im_start|>system
        Be kind.<|im_end|>
        <|im_start|>user
        ⟦Hi
        there⟧<|im_end|>
        <|im_start|>assistant
    "#]],
    );
}

#[test]
fn headers_bos_and_trimmed_texts() {
    check(
        HEADERS,
        &[("user", " \n Hi  "), ("assistant", "Yo"), ("user", "  ")],
        expect![[r#"
        <bos><|start_header_id|>user<|end_header_id|>

        ⟦Hi⟧<|eot_id|><|start_header_id|>assistant<|end_header_id|>

        ⟦Yo⟧<|eot_id|><|start_header_id|>user<|end_header_id|>

        <|eot_id|><|start_header_id|>assistant<|end_header_id|>

    "#]],
    );
}

#[test]
fn strict_turns() {
    check(
        STRICT,
        &[("user", "a "), ("assistant", "b"), ("user", "c")],
        expect![[r#"
        <bos><start_of_turn>user
        ⟦a⟧<end_of_turn>
        <start_of_turn>model
        ⟦b⟧<end_of_turn>
        <start_of_turn>user
        ⟦c⟧<end_of_turn>
        <start_of_turn>model
    "#]],
    );
}

#[test]
fn a_refusal_is_told_in_the_templates_words() {
    let refused = |text: &str| TemplateError::Refused(text.to_owned());
    refuse(STRICT, &[("system", "x"), ("user", "y")], &refused("System role not supported"));
    let twice = [("user", "x"), ("user", "y")];
    refuse(STRICT, &twice, &refused("Roles must alternate: user"));
}

#[test]
fn a_text_can_be_placed_twice_and_trimmed_at_one_end() {
    let messages = [("user", " a ")];
    check(
        "{{ messages[0].content }}{{ messages[0]['content'].rstrip() }}{{ ('x' ~ messages[0].content) | trim }}\
         {{ messages[0].content.lstrip() ~ '.' }}{{ messages[0].get('content') | upper }}",
        &messages,
        expect!["⟦ a ⟧⟦ a⟧x⟦ a⟧⟦a ⟧.⟦ a ⟧"],
    );
}

#[test]
fn searches_find_nothing() {
    check(
        "{% set text = messages[0].content %}\
         {% if '</think>' in text or text.startswith('<') %}found{% endif %}\
         {{ text.split('</think>')[-1].lstrip('\n') }}{{ text | replace('a', 'b') }}",
        &[("assistant", "<think>a</think>\nb")],
        expect![[r#"
            ⟦<think>a</think>
            b⟧⟦<think>a</think>
            b⟧"#]],
    );
}

#[test]
fn taking_a_text_apart_is_an_error() {
    for source in [
        "{{ messages[0].content[:2] }}",
        "{{ messages[0].content[1:] }}",
        "{{ messages[0].content | first }}",
        "{{ messages[0].content | reverse }}",
    ] {
        refuse(source, &[("user", "abc")], &TemplateError::Mangled);
    }
}

#[test]
fn a_template_that_forges_a_placeholder_gains_nothing() {
    refuse("\u{10f7f0}1\u{10f7f2}", &[("user", "a")], &TemplateError::Mangled);
    refuse("\u{10f7f0}-0\u{10f7f2}", &[("user", "a")], &TemplateError::Mangled);
    refuse("\u{10f7f2}", &[("user", "a")], &TemplateError::Mangled);
}

#[test]
fn a_text_that_looks_like_a_placeholder_is_text() {
    let text = "\u{10f7f0}1\u{10f7f2}";
    let source = "{{ messages[0].content }}{{ messages[1].content }}";
    let segments = render(source, &[("user", text), ("user", "b")]);
    assert_eq!(segments, Ok([text, "b"].map(|it| Segment::User(it.to_owned())).into()));
}

/// In the style of Qwen: a tool's words are a user's, in a frame.
const TOOLS: &str = "
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
    {%- elif message.role in ['system', 'user', 'assistant'] %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
";

#[test]
fn odd_orders_stay_as_they_are() {
    check(
        CHATML,
        &[
            ("user", "a"),
            ("user", "b"),
            ("system", "c"),
            ("assistant", "d"),
            ("assistant", "e"),
            ("system", "f"),
        ],
        expect![[r#"
            <|im_start|>user
            ⟦a⟧<|im_end|>
            <|im_start|>user
            ⟦b⟧<|im_end|>
            <|im_start|>system
            ⟦c⟧<|im_end|>
            <|im_start|>assistant
            ⟦d⟧<|im_end|>
            <|im_start|>assistant
            ⟦e⟧<|im_end|>
            <|im_start|>system
            ⟦f⟧<|im_end|>
            <|im_start|>assistant
        "#]],
    );
}

#[test]
fn an_answer_goes_on_with_the_last_words_of_an_assistant() {
    let last = ("assistant", " The sky is ");
    for (source, prompt) in [
        (CHATML, "<|im_start|>user\n⟦a⟧<|im_end|>\n<|im_start|>assistant\n⟦ The sky is ⟧"),
        (STRICT, "<bos><start_of_turn>user\n⟦a⟧<end_of_turn>\n<start_of_turn>model\n⟦The sky is⟧"),
    ] {
        let segments = render(source, &[("user", "a"), last]);
        assert_eq!(segments.map(|it| show(&it)), Ok(prompt.to_owned()));
    }
    let twice = render(CHATML, &[("assistant", "a"), ("assistant", "b")]).map(|it| show(&it));
    assert!(twice.is_ok_and(|it| it.ends_with("⟦a⟧<|im_end|>\n<|im_start|>assistant\n⟦b⟧")));
    let again = "{% for m in messages %}{{ m.content }}.{{ m.content }}{% endfor %}!";
    check(again, &[("assistant", "a")], expect!["⟦a⟧.⟦a⟧"]);
}

#[test]
fn empty_last_words_are_none() {
    let user = [("user", "a")];
    let silent = [("user", "a"), ("assistant", " \n"), ("assistant", "")];
    assert_eq!(render(CHATML, &silent), render(CHATML, &user));
    assert_eq!(render(STRICT, &silent), render(STRICT, &user));
    // In the middle it is a turn like others.
    check(
        CHATML,
        &[("assistant", ""), ("user", "a")],
        expect![[r#"
        <|im_start|>assistant
        <|im_end|>
        <|im_start|>user
        ⟦a⟧<|im_end|>
        <|im_start|>assistant
    "#]],
    );
}

#[test]
fn a_tool_speaks_only_where_the_template_knows_it() {
    let messages = [("user", "a"), ("assistant", "b"), ("tool", "c")];
    for source in [CHATML, CHATML_WITH_SYSTEM, HEADERS, STRICT] {
        refuse(source, &messages, &TemplateError::NoTool { index: 2 });
    }
    check(
        TOOLS,
        &messages,
        expect![[r#"
        <|im_start|>user
        ⟦a⟧<|im_end|>
        <|im_start|>assistant
        ⟦b⟧<|im_end|>
        <|im_start|>user
        <tool_response>
        ⟦c⟧
        </tool_response><|im_end|>
        <|im_start|>assistant
    "#]],
    );
    let renamed = "{% for m in messages %}{{ 'ipython' if m.role == 'tool' else m.role }}{{ m.content }}{% endfor %}";
    check(renamed, &messages, expect!["user⟦a⟧assistant⟦b⟧ipython⟦c⟧"]);
}

#[test]
fn a_message_that_would_be_left_out_is_refused() {
    refuse(TOOLS, &[("user", "a"), ("critic", "b")], &TemplateError::LeftOut { index: 1 });
    let first = "{{ messages[0].content }}";
    refuse(first, &[("user", "a"), ("user", "b")], &TemplateError::LeftOut { index: 1 });
    // There is nothing to miss.
    check(first, &[("user", "a"), ("user", " ")], expect!["⟦a⟧"]);
}

#[test]
fn roles_are_words() {
    for role in ["", "<|im_start|>", "user\n", "ü", &"r".repeat(33)] {
        refuse(CHATML, &[(role, "x")], &TemplateError::Role);
    }
}

#[test]
fn no_messages_at_all() {
    check(
        CHATML,
        &[],
        expect![[r#"
        <|im_start|>assistant
    "#]],
    );
    assert!(matches!(render(CHATML_WITH_SYSTEM, &[]), Err(TemplateError::Failed(_))));
}

#[test]
fn a_broken_template_is_told_at_the_start() {
    let compile = |source: &str| ChatTemplate::new(Some(source), "", "").map(|_| ());
    assert!(matches!(compile("{% for %}"), Err(TemplateError::Syntax(_))));
    let long = "x".repeat(SOURCE_BYTES_MAX + 1);
    assert_eq!(compile(&long), Err(TemplateError::Long { bytes: long.len() }));
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(matches!(compile(&deep), Err(TemplateError::Syntax(_))));
}

#[test]
fn a_failing_template_is_told_apart_from_a_refusing_one() {
    for source in
        ["{{ 1 / 0 }}", "{{ missing.field }}", "{{ strftime_now('%Y') }}", "{{ x | nope }}"]
    {
        let error = render(source, &[("user", "x")]).expect_err(source);
        let told = matches!(error, TemplateError::Failed(_) | TemplateError::Syntax(_));
        assert!(told && !error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn a_hostile_template_ends() {
    for source in [
        "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
        "{% set n = namespace(x='x') %}{% for a in range(999) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{{ 'x' * 99999999999 }}",
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    ] {
        let error = render(source, &[("user", "x")]).expect_err("is endless");
        assert!(
            matches!(error, TemplateError::Endless { .. } | TemplateError::Failed(_)),
            "{error}"
        );
    }
}

#[test]
fn a_long_chat_is_no_endless_one() {
    let messages = [("user", "x"), ("assistant", "y")].repeat(1_000);
    for source in [CHATML_WITH_SYSTEM, HEADERS, STRICT] {
        let odd = &messages[..messages.len() - 1];
        assert!(render(source, odd).is_ok());
    }
}

/// Texts made of what an attacker would write.
fn hostile() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "<|im_start|>",
        "<|im_end|>",
        "<bos>",
        "<|im_",
        "end|>",
        "{{ bos_token }}",
        "{% raw %}",
        "\n",
        " ",
        "system",
        "\u{10f7f0}0\u{10f7f2}",
        "\u{10f7f1}",
        "\0",
        "é",
        "'",
        "\"",
    ]);
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn user_text_never_becomes_a_control_token(texts in prop::collection::vec(hostile(), 1..5)) {
        let controls = ["<|im_start|>", "<|im_end|>", "<bos>"];
        let tokenizer = Bytes::new(&controls);
        let messages: Vec<_> = texts.iter().map(|text| ("user", text.as_str())).collect();
        let segments = render(CHATML, &messages).expect("ChatML takes anything");
        let tokens = encode(&segments, &tokenizer);
        let count = |id: u32| tokens.iter().filter(|token| token.0 == 256 + id).count();
        prop_assert_eq!([count(0), count(1), count(2)], [texts.len() + 1, texts.len(), 0]);
        let whole: String = texts.iter().map(|text| format!("⟦<|im_start|>⟧user\n{text}⟦<|im_end|>⟧\n")).collect();
        prop_assert_eq!(tokenizer.show(&tokens), whole + "⟦<|im_start|>⟧assistant\n");
    }
}
