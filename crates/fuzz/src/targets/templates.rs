//! Chat templates in both languages: refused with an error, or rendered within their limits.

use crate::outcome::magnitude;
use crate::{Outcome, Target};
use strata_template::go::{GoChat, GoMessage, GoOptions, GoTemplate, GoValue};
use strata_template::jinja::{DateTime, RenderOptions, Template, Value};

pub(super) const JINJA: Target = Target {
    words: &[
        "{{",
        "}}",
        "{%",
        "%}",
        "{%-",
        "-%}",
        "{#",
        "#}",
        "for",
        "in",
        "endfor",
        "if",
        "elif",
        "else",
        "endif",
        "set",
        "macro",
        "endmacro",
        "namespace()",
        "loop.index",
        "messages",
        "message['content']",
        "|",
        "tojson",
        "trim",
        "range(",
        "join(",
        "is defined",
        "not",
        "and",
        "~",
        "**",
        "//",
        "%",
        "[::-1]",
        "'",
        "\"",
        "\\n",
        "selectattr(",
        "strftime_now(",
        "raise_exception(",
        "replace(",
        "split(",
        ".format(",
        "indent(",
        "batch(",
    ],
    ..Target::new(
        "jinja",
        "a source to the interpreter of Jinja templates; what it accepts is rendered",
        jinja,
    )
};

pub(super) const GO: Target = Target {
    more_seeds: &[("crates/template/tests/go/templates", ".gotmpl")],
    words: &[
        "{{",
        "}}",
        "{{-",
        "-}}",
        "range",
        "end",
        "if",
        "else",
        "with",
        "define",
        "template",
        "block",
        "$",
        ".",
        ".Messages",
        ".Role",
        ".Content",
        ".System",
        ".Prompt",
        ":=",
        "eq",
        "len",
        "index",
        "printf",
        "slice",
        "and",
        "or",
        "not",
        "|",
        "\"%v\"",
        "break",
        "continue",
        "$i, $e := ",
        "/*",
        "*/",
        "`",
    ],
    ..Target::new(
        "go_template",
        "a source to the interpreter of Go templates; what it accepts is rendered",
        go,
    )
};

fn jinja(bytes: &[u8]) -> Outcome {
    let Ok(source) = str::from_utf8(bytes) else {
        return Outcome::ignored();
    };
    let template = match Template::parse(source) {
        Ok(template) => template,
        Err(error) => return Outcome::refused_at_length(&error),
    };
    let message = |role: &'static str, content: &'static str| {
        Value::map([
            ("role", Value::from(role)),
            ("content", Value::from(content)),
        ])
    };
    let context = Value::map([
        (
            "messages",
            Value::list([message("system", "Be brief."), message("user", "Héllo 🦙")]),
        ),
        ("add_generation_prompt", Value::Bool(true)),
        ("bos_token", Value::from("<s>")),
    ]);
    let options = RenderOptions {
        now: Some(DateTime::from_unix(1_700_000_000)),
        ..RenderOptions::default()
    };
    match template.render(&context, &options) {
        Ok(text) => {
            assert!(text.len() as u64 <= options.limits.output_bytes as u64);
            Outcome::taken(magnitude(text.len()))
        }
        Err(error) => Outcome::refused_at_length(&error),
    }
}

fn go(bytes: &[u8]) -> Outcome {
    let Ok(source) = str::from_utf8(bytes) else {
        return Outcome::ignored();
    };
    let template = match GoTemplate::parse(source) {
        Ok(template) => template,
        Err(error) => return Outcome::refused_at_length(&error),
    };
    let message = |role: &str, content: &str| GoMessage {
        role: role.into(),
        content: content.into(),
        others: vec![("tool_calls", GoValue::list([GoValue::Int(1)]))],
    };
    let chat = GoChat {
        messages: vec![message("system", "Be brief."), message("user", "Héllo 🦙")],
        tools: GoValue::list([GoValue::map([(
            "function",
            GoValue::map([("name", "f".into())]),
        )])]),
        think: Some(true),
        think_level: None,
    };
    let options = GoOptions::default();
    match template.chat(&chat, &options) {
        Ok(text) => {
            assert!(text.len() <= options.limits.output_bytes);
            Outcome::taken(magnitude(text.len()))
        }
        Err(error) => Outcome::refused_at_length(&error),
    }
}
