//! Chat templates: a source is refused with an error, or it renders within its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_template::jinja::{DateTime, RenderOptions, Template, Value};

fuzz_target!(|source: &str| {
    let Ok(template) = Template::parse(source) else {
        return;
    };
    let message = |role: &'static str, content: &'static str| {
        Value::map([("role", Value::from(role)), ("content", Value::from(content))])
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
    if let Ok(text) = template.render(&context, &options) {
        assert!(text.len() as u64 <= options.limits.output_bytes as u64);
    }
});
