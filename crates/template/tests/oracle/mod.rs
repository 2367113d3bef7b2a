//! Comparing a render with what `tools/oracle.py` wrote.
use strata_template::jinja::{DateTime, Missing, RenderOptions, Template, TemplateError, Value};

/// The oracle's clock.
pub(crate) const NOW: DateTime = DateTime {
    year: 2025,
    month: 3,
    day: 7,
    hour: 9,
    minute: 5,
    second: 2,
    microsecond: 123_456,
};

pub(crate) fn render(source: &str, context: &Value) -> Result<String, TemplateError> {
    let options = RenderOptions {
        now: Some(NOW),
        ..RenderOptions::default()
    };
    Template::parse(source)?.render(context, &options)
}

/// What the oracle would have written for `result`: the text, or the error's kind and message.
fn outcome(result: &Result<String, TemplateError>) -> (&'static str, String) {
    match result {
        Ok(text) => ("text", text.clone()),
        Err(error) => match error {
            TemplateError::Raised { message, .. } => ("raised", message.clone()),
            TemplateError::Undefined { missing, .. } => match missing {
                Missing::Unsafe { .. } => ("security", missing.to_string()),
                missing => ("undefined", missing.to_string()),
            },
            TemplateError::Syntax { fault, .. } => ("syntax", fault.to_string()),
            TemplateError::Type { fault, .. } => ("type", fault.to_string()),
            other => ("limit", other.to_string()),
        },
    }
}

/// A description of how `result` differs from the oracle's entry, or nothing.
pub(crate) fn difference(
    result: &Result<String, TemplateError>,
    expected: &Value,
) -> Option<String> {
    let expected = expected.as_map().expect("an entry is a map");
    let field = |name| expected.get_str(name).and_then(Value::as_str);
    let (kind, text) = outcome(result);
    let (wanted_kind, wanted) = match field("text") {
        Some(text) => ("text", text),
        None => (field("error").unwrap(), field("message").unwrap()),
    };
    // The words of Python's own exceptions are not ours to keep, nor is its name for the class of a namespace.
    let same_text = match kind {
        "text" | "raised" => text == wanted,
        "undefined" => text == wanted || wanted.contains("Namespace"),
        "security" => text == wanted || wanted.contains("underscore"),
        _ => true,
    };
    if kind == wanted_kind && same_text {
        return None;
    }
    let at = text
        .bytes()
        .zip(wanted.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let from = (0..=at.saturating_sub(60))
        .rev()
        .find(|&at| wanted.is_char_boundary(at) && text.is_char_boundary(at));
    let excerpt = |text: &str| {
        text[from.unwrap_or(0)..]
            .chars()
            .take(160)
            .collect::<String>()
    };
    Some(format!(
        "{kind} instead of {wanted_kind}, differing at byte {at}:\n     ours {:?}\n  python's {:?}",
        excerpt(&text),
        excerpt(wanted)
    ))
}
