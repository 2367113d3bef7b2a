//! Go templates: a source is refused with an error, or it runs within its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_template::go::{GoChat, GoMessage, GoOptions, GoTemplate, GoValue};

fuzz_target!(|source: &str| {
    let Ok(template) = GoTemplate::parse(source) else {
        return;
    };
    let message = |role: &str, content: &str| GoMessage {
        role: role.into(),
        content: content.into(),
        others: vec![("tool_calls", GoValue::list([GoValue::Int(1)]))],
    };
    let chat = GoChat {
        messages: vec![message("system", "Be brief."), message("user", "Héllo 🦙")],
        tools: GoValue::list([GoValue::map([("function", GoValue::map([("name", "f".into())]))])]),
        think: Some(true),
        think_level: None,
    };
    let options = GoOptions::default();
    if let Ok(text) = template.chat(&chat, &options) {
        assert!(text.len() <= options.limits.output_bytes);
    }
});
