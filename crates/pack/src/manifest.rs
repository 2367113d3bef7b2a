//! What is in an artifact, what it needs and how it starts, as JSON.

use crate::error::PackError;
use serde::{Deserialize, Serialize};

/// The version of manifests that this program writes and reads.
const FORMAT: u32 = 1;

/// What kind of artifact.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An executable with its models behind it.
    Run,
    /// A container image with that executable in it.
    Oci,
    /// A Debian package of that executable, with a service.
    Deb,
    /// A snap of that executable, with a service.
    Snap,
    /// A component of a snap: one of its models.
    #[serde(rename = "comp")]
    Component,
}

impl Kind {
    /// All that are asked for by their ending. Components are written with their snap.
    pub const ALL: [Self; 4] = [Self::Run, Self::Oci, Self::Deb, Self::Snap];

    /// The ending of its files.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Oci => "oci",
            Self::Deb => "deb",
            Self::Snap => "snap",
            Self::Component => "comp",
        }
    }

    /// The kind that a file's ending names.
    pub fn by_ending(ending: &str) -> Option<Self> {
        let same = |kind: &Self| kind.ending().eq_ignore_ascii_case(ending);
        Self::ALL.into_iter().find(same)
    }
}

/// How an artifact starts where it is not told otherwise.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StartMode {
    /// As a chat, or with one prompt.
    Chat,
    /// As a server.
    Serve,
    /// As a server at a Unix socket, and at no port.
    Socket,
}

/// What an artifact does by default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Chat, or which server.
    pub mode: StartMode,
    /// Context length in tokens.
    pub context: u64,
}

/// A message that conversations begin with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "plain words")]
pub struct PackedMessage {
    pub role: String,
    pub content: String,
}

/// What a Modelfile says of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedPreset {
    /// A chat template that counts more than the one in the model's file.
    pub template: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// Messages that conversations begin with.
    pub messages: Vec<PackedMessage>,
    /// How it samples, in the words of Modelfiles.
    pub parameters: serde_json::Map<String, serde_json::Value>,
}

impl PackedPreset {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The program in an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedProgram {
    /// Its version of Strata.
    pub version: String,
    /// Bytes.
    pub bytes: u64,
    /// Digest.
    pub sha256: String,
}

/// The memory that a model takes, planned for the artifact's context with [`MemoryNeeds::THREADS`] threads. That of the
/// program around it is estimated, from the size of the vocabulary.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "plain words")]
pub struct MemoryNeeds {
    pub weights_bytes: u64,
    pub kv_bytes: u64,
    pub workspace_bytes: u64,
    pub program_bytes: u64,
    pub total_bytes: u64,
}

impl MemoryNeeds {
    /// Plans depend a little on the number of threads. A manifest must not depend on the machine it was made on.
    pub const THREADS: usize = 4;
}

/// A model in an artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedModel {
    /// The file's name in the artifact's folder of models.
    pub file: String,
    /// Bytes.
    pub bytes: u64,
    /// Digest.
    pub sha256: String,
    /// As its file calls it.
    pub architecture: String,
    /// The types of its weights.
    pub quantization: String,
    /// Its licences, as the store or the file has them.
    pub licenses: Vec<String>,
    /// SHA-256 of its chat template, if it has one.
    pub template_sha256: Option<String>,
    /// Tokens that it was trained for.
    pub trained_context: u64,
    /// What its Modelfile says, if that says something.
    pub preset: Option<PackedPreset>,
    /// What it takes.
    pub memory: MemoryNeeds,
    /// The component of the snap that it comes in, if it is not in the snap itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
}

/// The least machine that runs an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineNeeds {
    /// The processor, in Linux's word for it.
    pub architecture: String,
    /// Memory for the smallest of the models.
    pub memory_bytes: u64,
}

/// What is in an artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of this format.
    pub format: u32,
    /// What kind of artifact.
    pub kind: Kind,
    /// What it is called.
    pub name: String,
    /// The program.
    pub program: PackedProgram,
    /// The models, those that take most memory first.
    pub models: Vec<PackedModel>,
    /// What it does by default.
    pub start: Start,
    /// What it needs.
    pub machine: MachineNeeds,
    /// The public key of who signed it, if someone did.
    pub signer: Option<String>,
}

impl Manifest {
    /// The version of manifests that are written.
    pub const FORMAT: u32 = FORMAT;

    /// Whether a model is in the artifact itself.
    pub(crate) fn holds(&self, model: &PackedModel) -> bool {
        self.kind != Kind::Snap || model.component.is_none()
    }

    /// The models that are in the artifact itself.
    pub(crate) fn held(&self) -> impl Iterator<Item = &PackedModel> {
        self.models.iter().filter(|model| self.holds(model))
    }

    /// As it is stored and signed.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Strings, numbers and lists are always JSON.
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads one.
    pub fn parse(bytes: &[u8]) -> Result<Self, PackError> {
        let wrong = |error: serde_json::Error| PackError::Manifest(error.to_string());
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(wrong)?;
        let format = value.get("format").and_then(serde_json::Value::as_u64);
        let format = format.ok_or_else(|| PackError::Manifest("it names no format".into()))?;
        if format != u64::from(FORMAT) {
            return Err(PackError::Format {
                found: u32::try_from(format).unwrap_or(u32::MAX),
                known: FORMAT,
            });
        }
        let manifest: Self = serde_json::from_value(value).map_err(wrong)?;
        for model in &manifest.models {
            check_file_name(&model.file)?;
            if let Some(component) = &model.component {
                check_file_name(component)?;
            }
        }
        Ok(manifest)
    }
}

/// Names that are the same everywhere, and climb nowhere.
pub(crate) fn check_file_name(name: &str) -> Result<(), PackError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    let good = !name.is_empty() && name.len() <= 80 && name.chars().all(plain);
    if good && !name.starts_with(['.', '-']) {
        Ok(())
    } else {
        Err(PackError::Name(name.into()))
    }
}
