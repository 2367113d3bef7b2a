//! Descriptions of models and adapters.

use crate::json::Json;
use crate::message::Message;
use crate::parameters::of_file;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_weights::GgufSet;

/// A model's description.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelFacts {
    /// The name with its tag.
    pub name: String,
    /// SHA-256 of the manifest or file, in hexadecimal.
    pub digest: String,
    /// Size of the files in bytes.
    pub bytes: u64,
    /// When it was last modified, in seconds since 1970.
    pub modified: u64,
    /// The architecture.
    pub family: String,
    /// The number of weights.
    pub parameters: u64,
    /// The quantization, such as `Q4_K_M`.
    pub quantization: String,
    /// The context length it was trained for.
    pub trained_context: usize,
    /// The context length of requests here.
    pub context: usize,
    /// Dimensions of an embedding.
    pub embedding: usize,
    /// The size of the vocabulary.
    pub vocabulary: usize,
    /// The chat template.
    pub template: Option<String>,
    /// The system prompt of its Modelfile.
    pub system: Option<String>,
    /// The messages of its Modelfile, which begin every conversation.
    pub messages: Vec<Message>,
    /// The parameters of its Modelfile, and those that its file recommends.
    pub settings: Vec<(String, Json)>,
    /// License texts or names.
    pub licenses: Vec<String>,
    /// A Modelfile that creates it.
    pub modelfile: String,
    /// What the model can do.
    pub capabilities: Vec<Capability>,
    /// The file's metadata; long arrays may be `null`.
    pub metadata: Vec<(String, Json)>,
    /// Name, type and dimensions of each tensor.
    pub tensors: Vec<(String, String, Vec<u64>)>,
    /// The path of its file.
    pub path: Option<String>,
    /// Requests that run at once.
    pub slots: usize,
}

impl ModelFacts {
    /// Describes a model by its file.
    pub fn of_file(name: &str, file: &GgufSet<'_>) -> Self {
        let (metadata, tensors) = (file.metadata(), file.tensors());
        let text = |key: &str| metadata.str(key).ok().flatten().map(str::to_owned);
        let family = text("general.architecture").unwrap_or_else(|| "unknown".into());
        let number = |key: &str| {
            let value = metadata.u64(&format!("{family}.{key}")).ok().flatten();
            value.unwrap_or(0) as usize
        };
        let vocabulary = metadata.array("tokenizer.ggml.tokens").ok().flatten();
        Self {
            name: name.into(),
            bytes: tensors.iter().map(|t| t.data.len() as u64).sum(),
            parameters: tensors.iter().map(|t| t.dims.iter().product::<u64>()).sum(),
            trained_context: number("context_length"),
            embedding: number("embedding_length"),
            vocabulary: vocabulary.map_or(0, |tokens| tokens.len()),
            template: text("tokenizer.chat_template"),
            settings: of_file(metadata),
            licenses: text("general.license").into_iter().collect(),
            family,
            ..Self::default()
        }
    }

    /// Whether this name refers to the model. As with Ollama, no tag means `latest`.
    pub fn is_called(&self, name: &str) -> bool {
        fn plain(name: &str) -> &str {
            name.strip_suffix(":latest").unwrap_or(name)
        }
        plain(&self.name) == plain(name)
    }
}

/// Something a model can do.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Continues text.
    Completion,
    /// Calls tools.
    Tools,
    /// Fills in the middle of a text.
    Insert,
    /// Sees images.
    Vision,
    /// Hears audio.
    Audio,
    /// Embeds texts.
    Embedding,
    /// Thinks before it answers.
    Thinking,
}

impl Capability {
    /// The name Ollama's clients know.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completion => "completion",
            Self::Tools => "tools",
            Self::Insert => "insert",
            Self::Vision => "vision",
            Self::Audio => "audio",
            Self::Embedding => "embedding",
            Self::Thinking => "thinking",
        }
    }
}

/// A loaded model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadedModel {
    /// The model.
    pub facts: ModelFacts,
    /// Memory it takes, in bytes.
    pub bytes: u64,
    /// When it will be unloaded if it stays idle, in seconds since 1970; `None` if never.
    pub expires: Option<u64>,
}

/// A LoRA adapter that requests can use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdapterFacts {
    /// Its number.
    pub id: usize,
    /// The path of its file.
    pub path: String,
    /// Its scale in requests that name no adapter.
    pub scale: f32,
}
