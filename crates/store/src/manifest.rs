//! Manifests: which blobs make a model, and what each is for.
//!
//! The JSON that is written is byte for byte what Ollama writes: the same members in the same order, `<`, `>` and `&`
//! escaped as Go's encoder does, and a line feed at the end.

use crate::digest::Digest;
use crate::error::ManifestFault;
use crate::go_json;
use serde_json::Value;

/// The type of manifests themselves.
pub const MANIFEST_TYPE: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// The type of the layer that describes the model.
pub const CONFIG_TYPE: &str = "application/vnd.docker.container.image.v1+json";

/// What layers hold.
pub mod media_type {
    /// Weights, as GGUF.
    pub const MODEL: &str = "application/vnd.ollama.image.model";
    /// What turns images into embeddings, as GGUF.
    pub const PROJECTOR: &str = "application/vnd.ollama.image.projector";
    /// A LoRA adapter, as GGUF.
    pub const ADAPTER: &str = "application/vnd.ollama.image.adapter";
    /// The chat template, in Go's language.
    pub const TEMPLATE: &str = "application/vnd.ollama.image.template";
    /// The chat template, in models of the first days.
    pub const PROMPT: &str = "application/vnd.ollama.image.prompt";
    /// The system prompt.
    pub const SYSTEM: &str = "application/vnd.ollama.image.system";
    /// Parameters, as JSON.
    pub const PARAMS: &str = "application/vnd.ollama.image.params";
    /// Messages that conversations begin with, as JSON.
    pub const MESSAGES: &str = "application/vnd.ollama.image.messages";
    /// A licence.
    pub const LICENSE: &str = "application/vnd.ollama.image.license";
}

/// Manifests that are longer are refused.
pub(crate) const LONGEST: u64 = 4 << 20;
/// Manifests with more layers are refused.
const MOST_LAYERS: usize = 4096;

/// The blobs of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Describes the model; old manifests have none.
    pub config: Option<Layer>,
    /// The rest, in order.
    pub layers: Vec<Layer>,
}

/// A blob and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// What it holds: see [`media_type`].
    pub media_type: String,
    /// The blob.
    pub digest: Digest,
    /// Its bytes.
    pub size: u64,
    /// The model or file that it was taken from.
    pub from: Option<String>,
}

impl Manifest {
    /// Reads a manifest, from whoever it comes.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestFault> {
        if bytes.len() as u64 > LONGEST {
            return Err(ManifestFault::Long(LONGEST));
        }
        let value: Value = serde_json::from_slice(bytes).map_err(|error| ManifestFault::Json {
            line: error.line(),
            column: error.column(),
        })?;
        let version = value["schemaVersion"]
            .as_u64()
            .ok_or(ManifestFault::Member("schemaVersion"))?;
        if version != 2 {
            return Err(ManifestFault::Version(version));
        }
        let config = match &value["config"] {
            Value::Null => None,
            // Manifests of the first days have an empty one.
            config if config["digest"].as_str() == Some("") => None,
            config => Some(Layer::read(config)?),
        };
        let layers = match &value["layers"] {
            Value::Null => &[][..],
            Value::Array(layers) => layers,
            _ => return Err(ManifestFault::Member("layers")),
        };
        if layers.len() > MOST_LAYERS {
            return Err(ManifestFault::Layers(layers.len()));
        }
        let layers = layers.iter().map(Layer::read).collect::<Result<_, _>>()?;
        let manifest = Self { config, layers };
        manifest
            .all()
            .try_fold(0u64, |sum, layer| sum.checked_add(layer.size))
            .filter(|&sum| i64::try_from(sum).is_ok())
            .ok_or(ManifestFault::Size)?;
        Ok(manifest)
    }

    /// What Ollama would write.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = String::from("{\"schemaVersion\":2,\"mediaType\":");
        go_json::string(&mut out, MANIFEST_TYPE);
        out.push_str(",\"config\":");
        match &self.config {
            Some(config) => config.write(&mut out),
            None => out.push_str("{\"mediaType\":\"\",\"digest\":\"\",\"size\":0}"),
        }
        out.push_str(",\"layers\":[");
        for (i, layer) in self.layers.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            layer.write(&mut out);
        }
        out.push_str("]}\n");
        out.into_bytes()
    }

    /// All blobs, the description last, as Ollama fetches them.
    pub fn all(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().chain(&self.config)
    }

    /// The first layer of a type.
    pub fn layer(&self, media_type: &str) -> Option<&Layer> {
        self.layers
            .iter()
            .find(|layer| layer.media_type == media_type)
    }

    /// Whether it lists weights, without which there is nothing to run.
    pub fn has_weights(&self) -> bool {
        self.layer(media_type::MODEL).is_some()
    }

    /// Bytes of all blobs; [`parse`](Self::parse) saw that they can be counted.
    pub fn size(&self) -> u64 {
        self.all()
            .fold(0, |sum, layer| sum.saturating_add(layer.size))
    }
}

impl Layer {
    fn read(value: &Value) -> Result<Self, ManifestFault> {
        let text = |key| value[key].as_str();
        let digest = text("digest").ok_or(ManifestFault::Member("a layer's digest"))?;
        Ok(Self {
            media_type: text("mediaType")
                .ok_or(ManifestFault::Member("a layer's mediaType"))?
                .into(),
            digest: Digest::parse(digest)
                .ok_or_else(|| ManifestFault::Digest(digest.chars().take(100).collect()))?,
            size: value["size"]
                .as_u64()
                .ok_or(ManifestFault::Member("a layer's size"))?,
            from: text("from").filter(|from| !from.is_empty()).map(Into::into),
        })
    }

    fn write(&self, out: &mut String) {
        out.push_str("{\"mediaType\":");
        go_json::string(out, &self.media_type);
        out.push_str(&format!(
            ",\"digest\":\"{}\",\"size\":{}",
            self.digest, self.size
        ));
        if let Some(from) = &self.from {
            out.push_str(",\"from\":");
            go_json::string(out, from);
        }
        out.push('}');
    }
}

/// What the description of a model says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `gguf`.
    pub format: String,
    /// The architecture.
    pub family: String,
    /// The architectures of all GGUF files.
    pub families: Vec<String>,
    /// How many weights, such as `8.0B`.
    pub parameters: String,
    /// The type of most weights, such as `Q4_K_M`.
    pub file_type: String,
    /// The version of Ollama that it asks for.
    pub requires: Option<String>,
}

impl Config {
    /// Reads a description; what is not there stays empty.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_string();
        let families = value["model_families"].as_array();
        Some(Self {
            format: text("model_format"),
            family: text("model_family"),
            families: families
                .into_iter()
                .flatten()
                .filter_map(|family| Some(family.as_str()?.into()))
                .collect(),
            parameters: text("model_type"),
            file_type: text("file_type"),
            requires: value["requires"].as_str().map(Into::into),
        })
    }

    /// What Ollama would write for a model of these layers.
    pub fn to_json(&self, layers: &[Layer]) -> Vec<u8> {
        let mut out = String::from("{");
        let member = |out: &mut String, key: &str, value: &str| {
            out.push_str(&format!("\"{key}\":"));
            go_json::string(out, value);
            out.push(',');
        };
        member(&mut out, "model_format", &self.format);
        member(&mut out, "model_family", &self.family);
        out.push_str("\"model_families\":");
        if self.families.is_empty() {
            out.push_str("null");
        } else {
            go_json::strings(&mut out, self.families.iter().map(String::as_str));
        }
        out.push(',');
        member(&mut out, "model_type", &self.parameters);
        member(&mut out, "file_type", &self.file_type);
        if let Some(requires) = &self.requires {
            member(&mut out, "requires", requires);
        }
        member(&mut out, "architecture", "amd64");
        member(&mut out, "os", "linux");
        out.push_str("\"rootfs\":{\"type\":\"layers\",\"diff_ids\":");
        let digests: Vec<String> = layers
            .iter()
            .map(|layer| layer.digest.to_string())
            .collect();
        go_json::strings(&mut out, digests.iter().map(String::as_str));
        out.push_str("}}\n");
        out.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn text(size: &str, digest: &str) -> String {
        format!(
            "{{\"schemaVersion\":2,\"mediaType\":\"{MANIFEST_TYPE}\",\
             \"config\":{{\"mediaType\":\"{CONFIG_TYPE}\",\"digest\":\"{DIGEST}\",\"size\":1}},\
             \"layers\":[{{\"mediaType\":\"{}\",\"digest\":\"{digest}\",\"size\":{size},\"from\":\"a\\u003cb\"}}]}}\n",
            media_type::MODEL
        )
    }

    #[test]
    fn a_manifest_is_written_as_it_was_read() {
        let text = text("7", DIGEST);
        let manifest = Manifest::parse(text.as_bytes()).unwrap();
        assert_eq!(manifest.size(), 8);
        assert_eq!(manifest.layers[0].from.as_deref(), Some("a<b"));
        assert_eq!(String::from_utf8(manifest.to_json()).unwrap(), text);
    }

    #[test]
    fn hostile_manifests_are_refused() {
        let fault = |text: &str| Manifest::parse(text.as_bytes()).unwrap_err();
        assert!(matches!(
            fault(&text("1", "sha256:../../../../etc/passwd")),
            ManifestFault::Digest(_)
        ));
        assert_eq!(
            fault(&text("-1", DIGEST)),
            ManifestFault::Member("a layer's size")
        );
        assert_eq!(
            fault(&text("18446744073709551615", DIGEST)),
            ManifestFault::Size
        );
        assert!(matches!(
            fault(&text("1e400", DIGEST)),
            ManifestFault::Json { line: 1, .. }
        ));
        assert_eq!(fault("{}"), ManifestFault::Member("schemaVersion"));
        assert_eq!(fault("{\"schemaVersion\":1}"), ManifestFault::Version(1));
        assert!(matches!(
            fault("<html>"),
            ManifestFault::Json { line: 1, .. }
        ));
        assert!(matches!(
            fault(&"[".repeat(100_000)),
            ManifestFault::Json { .. }
        ));
    }

    #[test]
    fn a_description_is_the_one_of_published_models() {
        let config = Config {
            format: "gguf".into(),
            family: "llama".into(),
            families: vec!["llama".into()],
            parameters: "8.0B".into(),
            file_type: "Q4_0".into(),
            requires: None,
        };
        let layer = Layer {
            media_type: media_type::MODEL.into(),
            digest: Digest::of(b""),
            size: 0,
            from: None,
        };
        let json = config.to_json(&[layer]);
        let expected = format!(
            "{{\"model_format\":\"gguf\",\"model_family\":\"llama\",\"model_families\":[\"llama\"],\
             \"model_type\":\"8.0B\",\"file_type\":\"Q4_0\",\"architecture\":\"amd64\",\"os\":\"linux\",\
             \"rootfs\":{{\"type\":\"layers\",\"diff_ids\":[\"{DIGEST}\"]}}}}\n"
        );
        assert_eq!(String::from_utf8(json.clone()).unwrap(), expected);
        assert_eq!(Config::parse(&json), Some(config));
    }
}
