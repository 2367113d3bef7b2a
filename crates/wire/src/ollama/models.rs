//! What models there are: `/api/tags`, `/api/ps`, `/api/show`.

use super::model;
use crate::answer::Reply;
use crate::calendar::rfc3339;
use crate::call::Call;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::{Fault, LoadedModel, ModelFacts};

pub(super) fn tags() -> Call {
    Call::Models(Box::new(|models| {
        let list = models.iter().map(|facts| {
            let mut model = head(facts, facts.bytes);
            model.push("modified_at", rfc3339(facts.modified));
            model.push("capabilities", capabilities(facts));
            model
        });
        Reply::json(&Json::object([("models", Json::array(list))]))
    }))
}

pub(super) fn loaded() -> Call {
    Call::Loaded(Box::new(|models| {
        let list = models.iter().map(running);
        Reply::json(&Json::object([("models", Json::array(list))]))
    }))
}

/// All that is known of a model.
pub(super) fn show(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let name = model(&mut fields)?;
    let verbose = fields.maybe_boolean("verbose")?.unwrap_or(false);
    fields.finish()?;
    let write = Box::new(|facts: &ModelFacts| Reply::json(&whole(facts)));
    Ok(if verbose {
        Call::ModelInFull(name, write)
    } else {
        Call::Model(Some(name), write)
    })
}

fn head(facts: &ModelFacts, bytes: u64) -> Json {
    Json::object([
        ("name", facts.name.as_str().into()),
        ("model", facts.name.as_str().into()),
        ("size", bytes.into()),
        ("digest", facts.digest.as_str().into()),
        ("details", details(facts)),
    ])
}

fn details(facts: &ModelFacts) -> Json {
    Json::object([
        ("parent_model", "".into()),
        ("format", "gguf".into()),
        ("family", facts.family.as_str().into()),
        ("families", Json::array([facts.family.as_str().into()])),
        ("parameter_size", counted(facts.parameters).into()),
        ("quantization_level", facts.quantization.as_str().into()),
    ])
}

fn capabilities(facts: &ModelFacts) -> Json {
    let names = facts.capabilities.iter().map(|one| one.name().into());
    Json::array(names)
}

fn running(model: &LoadedModel) -> Json {
    // A date that no clock reaches, as clients read it.
    let expires = model.expires.map_or("2318-01-01T00:00:00Z".into(), rfc3339);
    let mut line = head(&model.facts, model.bytes);
    line.push("expires_at", expires);
    line.push("size_vram", 0_u64);
    line.push("context_length", model.facts.context);
    line
}

fn whole(facts: &ModelFacts) -> Json {
    let tensors = facts.tensors.iter().map(|(name, kind, sizes)| {
        Json::object([
            ("name", name.as_str().into()),
            ("type", kind.as_str().into()),
            ("shape", sizes.clone().into()),
        ])
    });
    let settings = facts.settings.iter();
    let settings: Vec<String> = settings
        .flat_map(|(name, value)| lines(name, value))
        .collect();
    let mut whole = Json::object([
        ("license", facts.licenses.join("\n").into()),
        ("modelfile", facts.modelfile.as_str().into()),
        ("parameters", settings.join("\n").into()),
        ("template", facts.template.as_deref().unwrap_or("").into()),
    ]);
    if let Some(system) = &facts.system {
        whole.push("system", system.as_str());
    }
    if !facts.messages.is_empty() {
        let messages = facts.messages.iter().map(|message| {
            Json::object([
                ("role", message.role.name().into()),
                ("content", message.joined().into()),
            ])
        });
        whole.push("messages", Json::array(messages));
    }
    whole.push("details", details(facts));
    whole.push("model_info", Json::Object(facts.metadata.clone()));
    whole.push("tensors", Json::array(tensors));
    whole.push("capabilities", capabilities(facts));
    whole.push("modified_at", rfc3339(facts.modified));
    whole
}

/// A parameter as a Modelfile has it: a line, or one for each of several texts.
fn lines(name: &str, value: &Json) -> Vec<String> {
    match value {
        Json::Array(items) => items
            .iter()
            .map(|item| format!("{name:<30} {item}"))
            .collect(),
        value => [format!("{name:<30} {value}")].into(),
    }
}

/// `7.6B`, `135M`, `900K`.
fn counted(parameters: u64) -> String {
    let (unit, word) = match parameters {
        1_000_000_000.. => (1e9, "B"),
        1_000_000.. => (1e6, "M"),
        1_000.. => (1e3, "K"),
        _ => return format!("{parameters}"),
    };
    let number = parameters as f64 / unit;
    if number < 100.0 {
        format!("{number:.1}{word}")
    } else {
        format!("{number:.0}{word}")
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn numbers_of_weights_are_told_in_short() {
        for (number, text) in [
            (42, "42"),
            (900_000, "900K"),
            (134_515_008, "135M"),
            (1_543_714_304, "1.5B"),
            (70_553_706_496, "70.6B"),
        ] {
            assert_eq!(counted(number), text);
        }
    }
}
