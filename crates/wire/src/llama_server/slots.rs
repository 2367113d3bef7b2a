//! What the server has: `/props`, `/slots`, `/lora-adapters`.

use super::{errors, settings};
use crate::answer::Reply;
use crate::call::Call;
use crate::url::{queried, unescape};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use strata_chat::json::{Fields, Json, JsonPath, parse_body};
use strata_chat::{
    Capability, Fault, FaultKind, ModelFacts, Sampling, Slot, SlotAction, SlotOutcome,
};

/// The longest name that most file systems take.
const MAX_FILE_NAME: usize = 255;

pub(super) fn props(query: &str) -> Result<Call, Fault> {
    let model = queried(query, "model").map(unescape).transpose()?;
    let write = |facts: &ModelFacts| Reply::json(&properties(facts));
    Ok(Call::Model(model, Box::new(write)))
}

/// `POST /props`, which llama-server has.
pub(super) fn change_props() -> Result<Call, Fault> {
    Err(Fault::new(
        FaultKind::Unsupported,
        "properties are not changed by requests",
    ))
}

fn properties(facts: &ModelFacts) -> Json {
    let mut params = Json::Object(facts.settings.clone());
    let mut defaults = Json::Object(Vec::new());
    settings::sampling(&Sampling::defaults(), &mut defaults);
    // The model's own come first.
    for (name, value) in defaults.as_object().unwrap_or(&[]) {
        if params.get(name).is_none() {
            params.push(name, value.clone());
        }
    }
    if params.get("seed").is_none() {
        params.push("seed", settings::ANY_SEED);
    }
    let settings = Json::object([("n_ctx", facts.context.into()), ("params", params)]);
    let can = |capability| Json::from(facts.capabilities.contains(&capability));
    let modalities = Json::object([
        ("vision", can(Capability::Vision)),
        ("audio", can(Capability::Audio)),
    ]);
    Json::object([
        ("default_generation_settings", settings),
        ("total_slots", facts.slots.into()),
        ("model_alias", facts.name.as_str().into()),
        ("model_path", facts.path.as_deref().unwrap_or("").into()),
        ("modalities", modalities),
        (
            "chat_template",
            facts.template.as_deref().unwrap_or("").into(),
        ),
        (
            "build_info",
            concat!("strata-", env!("CARGO_PKG_VERSION")).into(),
        ),
    ])
}

/// The slots; with `fail_on_no_slot` an error if all are busy.
pub(super) fn list(query: &str) -> Result<Call, Fault> {
    let strict = matches!(queried(query, "fail_on_no_slot"), Some(value) if value != "0");
    Ok(Call::Slots(Box::new(move |slots: &Vec<Slot>| {
        if strict && slots.iter().all(|slot| slot.busy) {
            let kind = FaultKind::Unavailable {
                retry_after: Duration::from_secs(1),
            };
            return errors::fault(&Fault::new(kind, "no slot is free"));
        }
        Reply::json(&Json::array(slots.iter().map(|slot| {
            Json::object([
                ("id", slot.id.into()),
                ("n_ctx", slot.context.into()),
                ("is_processing", slot.busy.into()),
                ("n_prompt_tokens", slot.prompt_tokens.into()),
                ("n_decoded", slot.generated_tokens.into()),
            ])
        })))
    })))
}

/// Saves, restores or erases what is kept of a slot.
pub(super) fn act(id: &str, query: &str, body: &[u8]) -> Result<Call, Fault> {
    let root = JsonPath::root();
    let slot: usize = id
        .parse()
        .map_err(|_| Fault::field(&root.field("id"), format_args!("{id:?} is not a number")))?;
    let action = match queried(query, "action") {
        Some("save") => SlotAction::Save {
            slot,
            file: file(body)?,
        },
        Some("restore") => SlotAction::Restore {
            slot,
            file: file(body)?,
        },
        Some("erase") => SlotAction::Erase { slot },
        _ => {
            let problem = format_args!("must be one of save, restore, erase, in the query");
            return Err(Fault::field(&root.field("action"), problem));
        }
    };
    let asked = action.clone();
    let write = move |outcome: &SlotOutcome| Reply::json(&acted(&asked, outcome));
    Ok(Call::SlotAction(action, Box::new(write)))
}

/// A plain name: where files are is the server's affair.
fn file(body: &[u8]) -> Result<String, Fault> {
    let mut fields = Fields::parse(body)?;
    let name = fields.string("filename")?;
    let path = fields.at("filename");
    fields.finish()?;
    let odd = |c: char| c.is_control() || matches!(c, '/' | '\\' | ':');
    if name.is_empty() || name.starts_with('.') || name.contains(odd) {
        let problem = format_args!("must be the plain name of a file");
        return Err(Fault::field(&path, problem));
    }
    if name.len() > MAX_FILE_NAME {
        let problem = format_args!("must have at most {MAX_FILE_NAME} bytes");
        return Err(Fault::field(&path, problem));
    }
    Ok(name)
}

fn acted(action: &SlotAction, outcome: &SlotOutcome) -> Json {
    let (slot, file, [tokens, bytes, time]) = match action {
        SlotAction::Erase { slot } => {
            return Json::object([
                ("id_slot", (*slot).into()),
                ("n_erased", outcome.tokens.into()),
            ]);
        }
        SlotAction::Save { slot, file } => (slot, file, ["n_saved", "n_written", "save_ms"]),
        SlotAction::Restore { slot, file } => (slot, file, ["n_restored", "n_read", "restore_ms"]),
    };
    let milliseconds = outcome.timings.total.as_secs_f64() * 1e3;
    Json::object([
        ("id_slot", (*slot).into()),
        ("filename", file.as_str().into()),
        (tokens, outcome.tokens.into()),
        (bytes, outcome.bytes.into()),
        ("timings", Json::object([(time, milliseconds.into())])),
    ])
}

pub(super) fn adapters() -> Call {
    Call::Adapters(Box::new(|adapters| {
        Reply::json(&Json::array(adapters.iter().map(|adapter| {
            Json::object([
                ("id", adapter.id.into()),
                ("path", adapter.path.as_str().into()),
                ("scale", adapter.scale.into()),
            ])
        })))
    }))
}

/// `[{"id", "scale"}]`.
pub(super) fn scale(body: &[u8]) -> Result<Call, Fault> {
    let value = parse_body(body)?;
    let Json::Array(items) = value else {
        let problem = format_args!("the body must be a JSON array, not {}", value.kind());
        return Err(Fault::bad_request(problem));
    };
    let mut scales = Vec::new();
    for (i, item) in items.into_iter().enumerate() {
        let mut fields = JsonPath::root().item(i).object(item)?;
        let id = fields.maybe_integer("id", 0..=i64::from(u32::MAX))?;
        let id = id.ok_or_else(|| fields.missing("id"))? as usize;
        let range = f64::from(f32::MIN)..=f64::from(f32::MAX);
        let scale = fields.maybe_number("scale", range)?;
        let scale = scale.ok_or_else(|| fields.missing("scale"))? as f32;
        fields.finish()?;
        scales.push((id, scale));
    }
    Ok(Call::ScaleAdapters(
        scales,
        Box::new(|()| Reply::json(&Json::object([("success", true.into())]))),
    ))
}
