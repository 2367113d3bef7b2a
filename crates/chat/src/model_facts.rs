//! What is known of models and adapters.

use crate::json::Json;
use crate::message::Message;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_weights::GgufSet;

/// What is known of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelFacts {
    /// Its name, with its tag.
    pub name: String,
    /// SHA-256 of its manifest or file, in hexadecimal.
    pub digest: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// Seconds since 1970 when it was made or last changed.
    pub modified: u64,
    /// The architecture.
    pub family: String,
    /// Weights, counted.
    pub parameters: u64,
    /// The type of most weights, such as `Q4_K_M`.
    pub quantization: String,
    /// Positions that it was trained for.
    pub trained_context: usize,
    /// Positions that requests get here.
    pub context: usize,
    /// Numbers of an embedding.
    pub embedding: usize,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// The chat template.
    pub template: Option<String>,
    /// The system prompt that it comes with.
    pub system: Option<String>,
    /// The messages that its conversations begin with.
    pub messages: Vec<Message>,
    /// Parameters that it comes with, as a Modelfile's lines.
    pub settings: Vec<(String, Json)>,
    /// Its licences.
    pub licenses: Vec<String>,
    /// The Modelfile that would make it.
    pub modelfile: String,
    /// What it can do.
    pub capabilities: Vec<Capability>,
    /// The metadata of its file; long lists are `null` unless asked for.
    pub metadata: Vec<(String, Json)>,
    /// Its tensors: name, type, sizes.
    pub tensors: Vec<(String, String, Vec<u64>)>,
    /// Where it is.
    pub path: Option<String>,
    /// Requests that run side by side.
    pub slots: usize,
}

impl ModelFacts {
    /// What a model's file says of it, under a name.
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
            licenses: text("general.license").into_iter().collect(),
            family,
            ..Self::default()
        }
    }

    /// Whether a client's name means this model. A name without a tag means the latest, as with Ollama.
    pub fn is_called(&self, name: &str) -> bool {
        fn plain(name: &str) -> &str {
            name.strip_suffix(":latest").unwrap_or(name)
        }
        plain(&self.name) == plain(name)
    }
}

/// What a model can do.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub enum Capability {
    Completion,
    Tools,
    Insert,
    Vision,
    Embedding,
    Thinking,
}

impl Capability {
    /// The word that clients know.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completion => "completion",
            Self::Tools => "tools",
            Self::Insert => "insert",
            Self::Vision => "vision",
            Self::Embedding => "embedding",
            Self::Thinking => "thinking",
        }
    }
}

/// A model in memory.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "plain words")]
pub struct LoadedModel {
    pub facts: ModelFacts,
    /// Bytes in memory.
    pub bytes: u64,
    /// Seconds since 1970 when it is dropped unless it is used again; `None` if never.
    pub expires: Option<u64>,
}

/// An adapter that requests can name.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "plain words")]
pub struct AdapterFacts {
    pub id: usize,
    pub path: String,
    pub scale: f32,
}
