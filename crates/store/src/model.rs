//! A model of the store: what its layers say.

use crate::digest::Digest;
use crate::error::{At, LayerFault, StoreError};
use crate::manifest::{Config, Layer, Manifest, media_type};
use crate::modelfile::{Modelfile, Role};
use crate::name::Name;
use crate::own_file;
use crate::store::Store;
use serde_json::{Map, Value};
use std::io::Read;
use std::path::PathBuf;
use std::time::SystemTime;

/// Texts in layers that are longer are refused.
const LONGEST_TEXT: u64 = 16 << 20;

/// A model that has a name here.
#[derive(Clone, Debug)]
pub struct StoredModel {
    /// Its name.
    pub name: Name,
    /// SHA-256 of its manifest: what `list` shows as its ID.
    pub digest: Digest,
    /// Its blobs.
    pub manifest: Manifest,
    /// When the name was given.
    pub modified: SystemTime,
    /// Whether it was made on this machine, not fetched.
    pub made_here: bool,
    pub(crate) store: Store,
}

/// A message that conversations begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct StoredMessage {
    pub role: String,
    pub content: String,
}

impl StoredModel {
    /// Bytes of all blobs.
    pub fn size(&self) -> u64 {
        self.manifest.size()
    }

    /// The GGUF files of the weights, in order; several where a model comes in parts.
    pub fn weights(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.files(media_type::MODEL)
    }

    /// The GGUF files of adapters.
    pub fn adapters(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.files(media_type::ADAPTER)
    }

    /// The GGUF files of projectors.
    pub fn projectors(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.files(media_type::PROJECTOR)
    }

    /// What the description says; empty if there is none.
    pub fn config(&self) -> Result<Config, StoreError> {
        let Some(layer) = &self.manifest.config else {
            return Ok(Config::default());
        };
        let text = self.text(layer)?;
        Config::parse(text.as_bytes()).ok_or_else(|| bad(layer, LayerFault::Json))
    }

    /// The chat template, in Go's language.
    pub fn template(&self) -> Result<Option<String>, StoreError> {
        let layer = self.manifest.layer(media_type::TEMPLATE);
        let layer = layer.or_else(|| self.manifest.layer(media_type::PROMPT));
        layer.map(|layer| self.text(layer)).transpose()
    }

    /// Whether its template was written for this very model by someone on this machine: it was made here, and the
    /// template is not its base's.
    pub fn has_own_template(&self) -> bool {
        let layer = self.manifest.layer(media_type::TEMPLATE);
        self.made_here && layer.is_some_and(|layer| layer.from.is_none())
    }

    /// The system prompt.
    pub fn system(&self) -> Result<Option<String>, StoreError> {
        let layer = self.manifest.layer(media_type::SYSTEM);
        layer.map(|layer| self.text(layer)).transpose()
    }

    /// The licences.
    pub fn licenses(&self) -> Result<Vec<String>, StoreError> {
        self.layers(media_type::LICENSE)
            .map(|layer| self.text(layer))
            .collect()
    }

    /// The parameters, by the names that Modelfiles have for them.
    pub fn parameters(&self) -> Result<Map<String, Value>, StoreError> {
        let Some(layer) = self.manifest.layer(media_type::PARAMS) else {
            return Ok(Map::new());
        };
        serde_json::from_str(&self.text(layer)?).map_err(|_| bad(layer, LayerFault::Json))
    }

    /// The messages that conversations begin with.
    pub fn messages(&self) -> Result<Vec<StoredMessage>, StoreError> {
        let Some(layer) = self.manifest.layer(media_type::MESSAGES) else {
            return Ok(Vec::new());
        };
        let wrong = || bad(layer, LayerFault::Json);
        let messages: Vec<Value> = serde_json::from_str(&self.text(layer)?).map_err(|_| wrong())?;
        let read = |message: &Value| {
            Some(StoredMessage {
                role: message["role"].as_str()?.into(),
                content: message["content"].as_str()?.into(),
            })
        };
        let messages: Option<_> = messages.iter().map(read).collect();
        messages.ok_or_else(wrong)
    }

    /// The Modelfile that would make it again.
    pub fn modelfile(&self) -> Result<Modelfile, StoreError> {
        let shown = |paths: Vec<PathBuf>| {
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        let messages = self.messages()?.into_iter();
        Ok(Modelfile {
            from: shown(self.weights()?),
            adapters: shown(self.adapters()?),
            parameters: self.parameters()?,
            template: self.template()?,
            system: self.system()?,
            licenses: self.licenses()?,
            messages: messages
                .filter_map(|message| Some((Role::parse(&message.role)?, message.content)))
                .collect(),
            requires: self.config()?.requires,
        })
    }

    fn layers(&self, media_type: &str) -> impl Iterator<Item = &Layer> {
        self.manifest
            .layers
            .iter()
            .filter(move |layer| layer.media_type == media_type)
    }

    fn files(&self, media_type: &str) -> Result<Vec<PathBuf>, StoreError> {
        self.layers(media_type)
            .map(|layer| {
                self.check(layer)?;
                Ok(self.store.blob_path(&layer.digest))
            })
            .collect()
    }

    fn check(&self, layer: &Layer) -> Result<(), StoreError> {
        if self.store.has_blob(&layer.digest) {
            return Ok(());
        }
        let path = self.store.blob_path(&layer.digest);
        if path.symlink_metadata().is_ok() {
            return Err(StoreError::NotAFile(path));
        }
        Err(StoreError::MissingBlob {
            name: Box::new(self.name.clone()),
            digest: layer.digest,
            media_type: layer.media_type.clone(),
        })
    }

    fn text(&self, layer: &Layer) -> Result<String, StoreError> {
        self.check(layer)?;
        if layer.size > LONGEST_TEXT {
            return Err(bad(layer, LayerFault::Long(layer.size)));
        }
        let path = self.store.blob_path(&layer.digest);
        let mut bytes = Vec::new();
        own_file::open(&path)?
            .take(LONGEST_TEXT + 1)
            .read_to_end(&mut bytes)
            .at(&path)?;
        if bytes.len() as u64 > LONGEST_TEXT {
            return Err(bad(layer, LayerFault::Long(bytes.len() as u64)));
        }
        String::from_utf8(bytes).map_err(|_| bad(layer, LayerFault::Text))
    }
}

fn bad(layer: &Layer, fault: LayerFault) -> StoreError {
    StoreError::Layer {
        media_type: layer.media_type.clone(),
        digest: layer.digest,
        fault,
    }
}
