//! What a model of the store says beside its weights: the template, system prompt, parameters, messages and adapters of
//! its Modelfile. They are defaults: whoever asks for something else gets it.

use super::stored::store_error;
use super::template_text::TemplateText;
use crate::error::{Error, ErrorKind};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;
use strata_chat::json::Json;
use strata_chat::parameters::Parameters;
use strata_chat::{Message, Role};
use strata_pack::{PackedModel, PackedPreset};
use strata_store::{StoreError, StoredModel};

/// What a Modelfile made of a model.
#[derive(Clone, Debug)]
pub struct Preset {
    /// The model's name in the store.
    pub name: String,
    /// SHA-256 of its manifest.
    pub digest: String,
    /// Bytes of all its layers.
    pub bytes: u64,
    /// Seconds since 1970 when it was made or fetched.
    pub modified: u64,
    /// Its chat template.
    pub template: Option<TemplateText>,
    /// Whether the template was written here for this very model. Then it counts more than the one in the file.
    pub own_template: bool,
    /// The system prompt of conversations that bring none.
    pub system: Option<String>,
    /// Messages that every conversation begins with.
    pub messages: Vec<Message>,
    /// How it samples, where a request does not say.
    pub parameters: Parameters,
    /// The parameters as they are written in the store.
    pub written: Vec<(String, Json)>,
    /// The texts of its licenses.
    pub licenses: Vec<String>,
    /// Adapters that belong to it.
    pub adapters: Vec<PathBuf>,
    /// Projectors that belong to it.
    pub projectors: Vec<PathBuf>,
    /// The Modelfile that would make it again.
    pub modelfile: String,
}

impl Preset {
    /// What the store has beside a model's weights.
    pub fn new(model: &StoredModel) -> Result<Self, Error> {
        let fail = |error: StoreError| store_error(&error);
        let written: Vec<(String, Json)> = model
            .parameters()
            .map_err(fail)?
            .into_iter()
            .map(|(name, value)| (name, json(&value)))
            .collect();
        let parameters = Parameters::of_model(written.clone()).map_err(|fault| {
            let sentence = format_args!("{} cannot be run: {}", model.name, fault.message);
            Error::new(ErrorKind::InvalidModel, sentence)
                .with_hint("recreate it with valid parameters, using `strata create`")
        })?;
        let messages = model.messages().map_err(fail)?.into_iter();
        let modified = model.modified.duration_since(UNIX_EPOCH).ok();
        let mut modelfile = model.modelfile().map_err(fail)?;
        modelfile.from.truncate(1);
        let template = model.template().map_err(fail)?;
        Ok(Self {
            name: model.name.to_string(),
            digest: model.digest.hex(),
            bytes: model.size(),
            modified: modified.map_or(0, |time| time.as_secs()),
            template: template
                .filter(|text| !text.is_empty())
                .map(TemplateText::of_modelfile),
            own_template: model.has_own_template(),
            system: model.system().map_err(fail)?,
            messages: messages.filter_map(|m| said(&m.role, m.content)).collect(),
            parameters,
            written,
            licenses: model.licenses().map_err(fail)?,
            adapters: model.adapters().map_err(fail)?,
            projectors: model.projectors().map_err(fail)?,
            modelfile: format!("# Modelfile of {}\n{modelfile}", model.name),
        })
    }

    /// What an artifact has beside one of its models.
    pub(super) fn packed(model: &PackedModel, preset: &PackedPreset) -> Result<Self, Error> {
        let written = preset.parameters.iter();
        let written: Vec<(String, Json)> = written
            .map(|(name, value)| (name.clone(), json(value)))
            .collect();
        let parameters = Parameters::of_model(written.clone()).map_err(|fault| {
            let sentence = format_args!("{} cannot be run: {}", model.file, fault.message);
            Error::new(ErrorKind::InvalidModel, sentence)
        })?;
        let messages = preset.messages.iter().cloned();
        let name = model.file.strip_suffix(".gguf").unwrap_or(&model.file);
        Ok(Self {
            name: format!("{name}:latest"),
            digest: model.sha256.clone(),
            bytes: model.bytes,
            modified: 0,
            template: preset.template.clone().map(TemplateText::of_modelfile),
            own_template: true,
            system: preset.system.clone(),
            messages: messages.filter_map(|m| said(&m.role, m.content)).collect(),
            parameters,
            written,
            licenses: model.licenses.clone(),
            adapters: Vec::new(),
            projectors: Vec::new(),
            modelfile: format!("FROM {}\n", model.file),
        })
    }

    /// The template that counts, given the one in the model's file. Whoever publishes a model writes the file's; what
    /// Ollama's registry has beside it is a translation, good where the file has none. What someone wrote here for
    /// this very model is what he wants.
    pub fn choose(&self, in_file: Option<TemplateText>) -> Option<TemplateText> {
        if self.own_template {
            self.template.clone().or(in_file)
        } else {
            in_file.or_else(|| self.template.clone())
        }
    }
}

fn said(role: &str, content: String) -> Option<Message> {
    let roles = [Role::System, Role::User, Role::Assistant, Role::Tool];
    let role = roles.into_iter().find(|known| known.name() == role)?;
    Some(Message::text(role, content))
}

/// One kind of JSON as the other.
pub fn json(value: &serde_json::Value) -> Json {
    use serde_json::Value;
    match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Json::Int(whole),
            (None, Some(large)) => Json::Large(large),
            (None, None) => Json::Float(number.as_f64().unwrap_or(0.0)),
        },
        Value::String(text) => Json::String(text.clone()),
        Value::Array(items) => Json::Array(items.iter().map(json).collect()),
        Value::Object(pairs) => {
            Json::Object(pairs.iter().map(|(k, v)| (k.clone(), json(v))).collect())
        }
    }
}
