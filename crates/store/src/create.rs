//! Making a model of files, or of another model: layers as Ollama writes them.

use crate::digest::Digest;
use crate::error::StoreError;
use crate::gguf_facts::{GgufFacts, human_count};
use crate::go_json;
use crate::manifest::{CONFIG_TYPE, Config, Layer, Manifest, media_type};
use crate::model::StoredMessage;
use crate::modelfile::Modelfile;
use crate::name::Name;
use crate::progress::{OnProgress, Progress};
use crate::store::Store;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use strata_weights::SplitName;

/// Where layers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// A model that is here: all its layers.
    Model(Name),
    /// A GGUF file; of a split one any part, which brings the others.
    File(PathBuf),
    /// A GGUF file that is a blob here.
    Blob(Digest),
}

/// What a model is to be made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recipe {
    /// Weights; at least one.
    pub bases: Vec<Base>,
    /// LoRA adapters.
    pub adapters: Vec<Base>,
    /// The chat template, in Go's language, instead of the base's.
    pub template: Option<String>,
    /// The system prompt, instead of the base's; none if it is empty.
    pub system: Option<String>,
    /// Licences, in addition to the base's.
    pub licenses: Vec<String>,
    /// Parameters, over the base's.
    pub parameters: Map<String, Value>,
    /// Messages that conversations begin with, instead of the base's unless there are none.
    pub messages: Vec<StoredMessage>,
    /// The version of Ollama that it asks for.
    pub requires: Option<String>,
}

impl Recipe {
    /// What a Modelfile says; its paths are those of files in or under `folder`, what is no file is a model's name.
    pub fn from_modelfile(file: &Modelfile, folder: &Path) -> Result<Self, StoreError> {
        let path = |text: &str| match (text.strip_prefix("~/"), strata_host::home_folder()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => folder.join(text),
        };
        let base = |text: &String| {
            let path = path(text);
            // What looks like a path is one, also if nothing is there: the error then names the path.
            if path.exists() || text.starts_with(['.', '/', '~']) || text.ends_with(".gguf") {
                return Ok(Base::File(path));
            }
            match Digest::parse(text.trim_start_matches('@')) {
                Some(digest) => Ok(Base::Blob(digest)),
                None => Ok(Base::Model(text.parse()?)),
            }
        };
        let message = |(role, content): &(crate::modelfile::Role, String)| StoredMessage {
            role: role.name().into(),
            content: content.clone(),
        };
        Ok(Self {
            bases: file
                .from
                .iter()
                .map(base)
                .collect::<Result<_, StoreError>>()?,
            adapters: file
                .adapters
                .iter()
                .map(|text| Base::File(path(text)))
                .collect(),
            template: file.template.clone(),
            system: file.system.clone(),
            licenses: file.licenses.clone(),
            parameters: file.parameters.clone(),
            messages: file.messages.iter().map(message).collect(),
            requires: file.requires.clone(),
        })
    }
}

/// Layers as they come together, and what is known of the whole.
struct Making<'a> {
    store: &'a Store,
    config: Config,
    layers: Vec<Layer>,
    parameters: Map<String, Value>,
}

impl Store {
    /// Makes a model. What has the name is replaced.
    pub fn create(
        &self,
        name: &Name,
        recipe: &Recipe,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), StoreError> {
        if recipe.bases.is_empty() {
            return Err(StoreError::NoBase(name.clone()));
        }
        let mut making = Making {
            store: self,
            config: Config::default(),
            layers: Vec::new(),
            parameters: Map::new(),
        };
        // What exists is kept from being collected; what is made now is too young for it.
        let known: Vec<Digest> = self.known(recipe)?;
        let _pins = self.pin(known.iter())?;
        for base in &recipe.bases {
            making.add(base, None, progress)?;
        }
        for base in &recipe.adapters {
            making.add(base, Some(media_type::ADAPTER), progress)?;
        }
        making.dress(recipe)?;
        let config = making.config.to_json(&making.layers);
        let manifest = Manifest {
            config: Some(self.put_layer(CONFIG_TYPE, &config)?),
            layers: making.layers,
        };
        Progress::status("writing manifest").tell(progress)?;
        self.put_manifest(name, &manifest.to_json())?;
        Progress::status("success").tell(progress)
    }

    fn known(&self, recipe: &Recipe) -> Result<Vec<Digest>, StoreError> {
        let mut known = Vec::new();
        for base in recipe.bases.iter().chain(&recipe.adapters) {
            match base {
                Base::Model(name) => {
                    let model = self.find(name)?;
                    known.extend(model.manifest.all().map(|layer| layer.digest));
                }
                Base::Blob(digest) => known.push(*digest),
                Base::File(_) => {}
            }
        }
        Ok(known)
    }
}

impl Making<'_> {
    fn add(
        &mut self,
        base: &Base,
        media_type: Option<&'static str>,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), StoreError> {
        match base {
            Base::Model(name) => self.add_model(name, progress),
            Base::Blob(digest) => {
                let Some(size) = self.store.blob_len(digest) else {
                    return Err(StoreError::NoSuchBlob(*digest));
                };
                let facts = GgufFacts::read(&self.store.blob_path(digest))?;
                self.add_file(facts, (*digest, size), media_type);
                Progress::status(format!("using existing layer {digest}")).tell(progress)
            }
            Base::File(path) => {
                for path in parts(path) {
                    if path.is_dir() {
                        return Err(StoreError::Folder(path));
                    }
                    Progress::status("parsing GGUF").tell(progress)?;
                    // Before anything is copied.
                    let facts = GgufFacts::read(&path)?;
                    let (digest, size) = self.store.import(&path, progress)?;
                    self.add_file(facts, (digest, size), media_type);
                    Progress::status(format!("creating new layer {digest}")).tell(progress)?;
                }
                Ok(())
            }
        }
    }

    fn add_model(&mut self, name: &Name, progress: &mut OnProgress<'_>) -> Result<(), StoreError> {
        let model = self.store.find(name)?;
        let config = model.config()?;
        if self.config.family.is_empty() {
            self.config = config;
        } else {
            self.config.families.extend(config.families);
        }
        for (key, value) in model.parameters()? {
            self.parameters.insert(key, value);
        }
        for layer in &model.manifest.layers {
            Progress::status(format!("using existing layer {}", layer.digest)).tell(progress)?;
            self.layers.push(Layer {
                from: Some(model.name.to_string()),
                ..layer.clone()
            });
        }
        Ok(())
    }

    fn add_file(
        &mut self,
        facts: GgufFacts,
        (digest, size): (Digest, u64),
        media_type: Option<&'static str>,
    ) {
        let config = &mut self.config;
        if config.format.is_empty() {
            config.format = "gguf".into();
        }
        if config.family.is_empty() {
            config.family = facts.architecture.clone();
        }
        if config.parameters.is_empty() {
            config.parameters = human_count(facts.weights);
        }
        if config.file_type.is_empty() {
            config.file_type = facts.file_type.into();
        }
        config.families.push(facts.architecture);
        self.layers.push(Layer {
            media_type: media_type.unwrap_or(facts.media_type).into(),
            digest,
            size,
            from: None,
        });
    }

    /// Template, system prompt, licences, parameters and messages, in Ollama's order.
    fn dress(&mut self, recipe: &Recipe) -> Result<(), StoreError> {
        if let Some(template) = recipe.template.as_ref().filter(|text| !text.is_empty()) {
            self.remove(media_type::TEMPLATE);
            self.put(media_type::TEMPLATE, template.as_bytes())?;
        }
        if let Some(system) = &recipe.system {
            self.remove(media_type::SYSTEM);
            if !system.is_empty() {
                self.put(media_type::SYSTEM, system.as_bytes())?;
            }
        }
        for license in &recipe.licenses {
            self.put(media_type::LICENSE, license.as_bytes())?;
        }
        let mut parameters = std::mem::take(&mut self.parameters);
        parameters.extend(recipe.parameters.clone());
        if !parameters.is_empty() {
            self.remove(media_type::PARAMS);
            let mut json = String::new();
            go_json::value(&mut json, &Value::Object(parameters));
            json.push('\n');
            self.put(media_type::PARAMS, json.as_bytes())?;
        }
        if !recipe.messages.is_empty() {
            self.remove(media_type::MESSAGES);
            let json = messages(&recipe.messages);
            self.put(media_type::MESSAGES, json.as_bytes())?;
        }
        if recipe.requires.is_some() {
            self.config.requires = recipe.requires.clone();
        }
        Ok(())
    }

    fn remove(&mut self, media_type: &str) {
        self.layers.retain(|layer| layer.media_type != media_type);
    }

    fn put(&mut self, media_type: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.layers.push(self.store.put_layer(media_type, bytes)?);
        Ok(())
    }
}

fn messages(messages: &[StoredMessage]) -> String {
    let mut json = String::from("[");
    for (i, message) in messages.iter().enumerate() {
        json.push_str(if i > 0 { ",{\"role\":" } else { "{\"role\":" });
        go_json::string(&mut json, &message.role);
        json.push_str(",\"content\":");
        go_json::string(&mut json, &message.content);
        json.push('}');
    }
    json.push_str("]\n");
    json
}

/// All parts of a split file, or the file.
fn parts(path: &Path) -> Vec<PathBuf> {
    let split = path
        .file_name()
        .and_then(|name| SplitName::parse(name.to_str()?));
    match split {
        Some(split) => split
            .names()
            .map(|name| path.with_file_name(name))
            .collect(),
        None => vec![path.into()],
    }
}
