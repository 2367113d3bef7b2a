//! Models of the Hugging Face hub: `hf.co/user/repo:Q4_K_M`.
//!
//! The hub lists a repository's files with their digests. The GGUF file of the quantization, with all its parts and
//! its projector, becomes a model here. Docs: <https://huggingface.co/docs/hub/api>.

use crate::create::{Base, Recipe};
use crate::digest::Digest;
use crate::error::StoreError;
use crate::fetch::{Fetch, again};
use crate::lock::Pins;
use crate::name::Name;
use crate::net::{Client, Credential, Method, NetError, Url, escape};
use crate::progress::{OnProgress, Progress};
use crate::store::Store;
use serde_json::Value;
use std::path::PathBuf;
use strata_weights::SplitName;

const HUB: &str = "https://huggingface.co";
/// The list of a repository's files.
const LONGEST_LIST: u64 = 32 << 20;
/// Files without a digest that are longer are no texts.
const LONGEST_TEXT: u64 = 128 << 20;
/// What `latest` means, best first.
const USUAL: [&str; 6] = ["Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "Q8_0", "F16"];

/// Whether a name is one of the hub's.
pub(crate) fn is_hub(name: &Name) -> bool {
    matches!(name.host(), "hf.co" | "huggingface.co")
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HubFile {
    path: String,
    digest: Option<Digest>,
    size: u64,
}

impl HubFile {
    fn is_gguf(&self) -> bool {
        self.path.to_ascii_lowercase().ends_with(".gguf") && self.digest.is_some()
    }
}

/// The files of a checkpoint, here as blobs until this is dropped: it is to be converted.
pub struct Checkpoint {
    /// Their names, and where they are.
    pub files: Vec<(String, PathBuf)>,
    store: Store,
    digests: Vec<Digest>,
    pins: Option<Pins>,
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        // Blobs that some model needs stay.
        drop(self.pins.take());
        if let Ok(lock) = self.store.lock() {
            let _ = self.store.collect(self.digests.iter().copied(), &lock);
        }
    }
}

/// Brings a model of the hub here.
pub(crate) fn pull(
    client: &Client,
    store: &Store,
    name: &Name,
    progress: &mut OnProgress<'_>,
) -> Result<(), StoreError> {
    let repo = Repo::look(client, name, progress)?;
    let files = repo.files.iter().filter(|file| file.is_gguf());
    let files: Vec<HubFile> = files.cloned().collect();
    if files.is_empty() && !checkpoint_files(&repo.files).is_empty() {
        return Err(StoreError::OnlyCheckpoint(name.clone()));
    }
    let chosen = choose(&files, name.tag()).ok_or_else(|| StoreError::NoSuchFile {
        name: Box::new(name.clone()),
        known: quantizations(&files),
    })?;
    let digests: Vec<Digest> = chosen.iter().filter_map(|file| file.digest).collect();
    let _pins = store.pin(digests.iter())?;
    let mut bases = Vec::new();
    for file in &chosen {
        bases.push(Base::Blob(repo.fetch(client, store, file, progress)?));
    }
    let recipe = Recipe {
        bases,
        ..Recipe::default()
    };
    store.create(name, &recipe, progress)
}

/// Brings the files of a checkpoint here.
pub(crate) fn pull_checkpoint(
    client: &Client,
    store: &Store,
    name: &Name,
    progress: &mut OnProgress<'_>,
) -> Result<Checkpoint, StoreError> {
    let repo = Repo::look(client, name, progress)?;
    let wanted = checkpoint_files(&repo.files);
    let known: Vec<Digest> = wanted.iter().filter_map(|file| file.digest).collect();
    let mut checkpoint = Checkpoint {
        files: Vec::new(),
        store: store.clone(),
        digests: Vec::new(),
        pins: Some(store.pin(known.iter())?),
    };
    for file in wanted {
        let digest = repo.fetch(client, store, file, progress)?;
        let place = (file.path.clone(), store.blob_path(&digest));
        checkpoint.files.push(place);
        checkpoint.digests.push(digest);
    }
    // Now all are known.
    checkpoint.pins = Some(store.pin(checkpoint.digests.iter())?);
    Ok(checkpoint)
}

/// The files of a repository that make a checkpoint: weights, and what says how to read them. None if there are no
/// weights.
fn checkpoint_files(files: &[HubFile]) -> Vec<&HubFile> {
    const BESIDE: [&str; 12] = [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "preprocessor_config.json",
        "chat_template.jinja",
        "chat_template.json",
        "model.safetensors.index.json",
    ];
    let weights = |file: &HubFile| {
        let last = file.path.as_str();
        let shard = last.starts_with("model-") && last.contains("-of-");
        last == "model.safetensors" || (shard && last.ends_with(".safetensors"))
    };
    if !files.iter().any(weights) || !files.iter().any(|file| file.path == "config.json") {
        return Vec::new();
    }
    let beside = |file: &HubFile| BESIDE.contains(&file.path.as_str());
    let wanted = files.iter().filter(|file| weights(file) || beside(file));
    wanted.collect()
}

/// A repository of the hub at one commit.
struct Repo {
    root: Url,
    name: String,
    revision: String,
    files: Vec<HubFile>,
    credential: Option<Credential>,
}

impl Repo {
    fn fetch(
        &self,
        client: &Client,
        store: &Store,
        file: &HubFile,
        progress: &mut OnProgress<'_>,
    ) -> Result<Digest, StoreError> {
        let path: Vec<String> = file.path.split('/').map(escape).collect();
        let (name, revision) = (&self.name, &self.revision);
        let label = file.digest.map(|digest| digest.hex()[..12].to_string());
        let fetch = Fetch {
            client,
            url: self
                .root
                .join(&format!("/{name}/resolve/{revision}/{}", path.join("/")))?,
            credential: self.credential.clone(),
            digest: file.digest,
            size: file.size,
            version: revision.clone(),
            status: format!("pulling {}", label.as_ref().unwrap_or(&file.path)),
        };
        fetch.run(store, progress)
    }

    fn look(
        client: &Client,
        name: &Name,
        progress: &mut OnProgress<'_>,
    ) -> Result<Self, StoreError> {
        let root = Url::parse(client.network.hub.as_deref().unwrap_or(HUB))?;
        client.permit(&root)?;
        let credential = client.network.hub_token.as_ref().map(|token| Credential {
            origin: root.clone(),
            value: format!("Bearer {token}"),
        });
        Progress::status("pulling manifest").tell(progress)?;
        let repo = format!("{}/{}", name.namespace(), name.model());
        let url = root.join(&format!("/api/models/{repo}/revision/main?blobs=true"))?;
        let answer = again(client, |by| {
            let answer = client.ask(&Method::GET, &url, &[], credential.as_ref(), Some(by))?;
            if answer.status().is_server_error() {
                answer.ok()
            } else {
                Ok(answer)
            }
        })?;
        match answer.status().as_u16() {
            404 => return Err(StoreError::NotInRegistry(name.clone())),
            401 | 403 => return Err(NetError::Login(answer.host()).into()),
            _ => {}
        }
        let host = answer.host();
        let listing = answer.ok()?.bytes(LONGEST_LIST)?;
        let not_understood = NetError::Answer {
            host,
            what: "the list of a repository's files",
        };
        let (revision, files) = read_listing(&listing).ok_or(not_understood)?;
        Ok(Self {
            root,
            name: repo,
            revision,
            files,
            credential,
        })
    }
}

/// The commit, and the files. Weights have digests; small texts beside them have none.
fn read_listing(bytes: &[u8]) -> Option<(String, Vec<HubFile>)> {
    let json: Value = serde_json::from_slice(bytes).ok()?;
    let revision = json["sha"].as_str()?;
    if revision.is_empty() || !revision.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let file = |entry: &Value| {
        let path = entry["rfilename"].as_str()?;
        let climbs = path.split('/').any(|part| matches!(part, "" | "." | ".."));
        let size = entry["lfs"]["size"].as_u64().or(entry["size"].as_u64())?;
        let digest = entry["lfs"]["sha256"].as_str().and_then(Digest::from_hex);
        if climbs || (digest.is_none() && size > LONGEST_TEXT) {
            return None;
        }
        Some(HubFile {
            path: path.into(),
            digest,
            size,
        })
    };
    let files = json["siblings"].as_array()?.iter().filter_map(file);
    Some((revision.into(), files.collect()))
}

fn is_projector(file: &HubFile) -> bool {
    let path = file.path.to_ascii_lowercase();
    path.rsplit('/')
        .next()
        .is_some_and(|name| name.contains("mmproj"))
}

/// Whether a file is of a quantization: the word stands between what is no part of such words.
fn is_of(file: &HubFile, quantization: &str) -> bool {
    let path = file.path.to_ascii_uppercase();
    let word = quantization.to_ascii_uppercase();
    let part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    path.match_indices(&word).any(|(at, _)| {
        let bytes = path.as_bytes();
        let before = at.checked_sub(1).map(|i| bytes[i]);
        let after = bytes.get(at + word.len());
        !before.is_some_and(part) && !after.copied().is_some_and(part)
    })
}

/// The files of a quantization: all parts of the weights in order, then a projector.
fn choose(files: &[HubFile], tag: &str) -> Option<Vec<HubFile>> {
    let weights: Vec<&HubFile> = files.iter().filter(|file| !is_projector(file)).collect();
    let of = |word: &str| -> Option<Vec<HubFile>> {
        let mut found = weights.iter().filter(|file| is_of(file, word));
        complete(found.next()?, &weights)
    };
    let mut chosen = match tag {
        "latest" => USUAL
            .iter()
            .find_map(|word| of(word))
            .or_else(|| complete(weights.first()?, &weights))?,
        word => of(word)?,
    };
    chosen.extend(files.iter().find(|file| is_projector(file)).cloned());
    Some(chosen)
}

/// A file with the other parts that its name says there are.
fn complete(file: &HubFile, files: &[&HubFile]) -> Option<Vec<HubFile>> {
    let (folder, last) = match file.path.rsplit_once('/') {
        Some((folder, last)) => (format!("{folder}/"), last),
        None => (String::new(), file.path.as_str()),
    };
    let Some(split) = SplitName::parse(last) else {
        return Some(vec![file.clone()]);
    };
    let part = |name: String| {
        let path = format!("{folder}{name}");
        files
            .iter()
            .find(|file| file.path == path)
            .map(|&file| file.clone())
    };
    // Each part is a file that is listed, so their number is bounded by the list.
    if split.names().len() > files.len() {
        return None;
    }
    split.names().map(part).collect()
}

/// The words that would have been understood.
fn quantizations(files: &[HubFile]) -> String {
    let words = files.iter().filter(|file| !is_projector(file)).map(|file| {
        let stem = file.path.rsplit('/').next().unwrap_or_default();
        stem.trim_end_matches(".gguf").to_string()
    });
    words.take(40).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> HubFile {
        HubFile {
            path: path.into(),
            digest: Some(Digest::of(path.as_bytes())),
            size: 1,
        }
    }

    fn chosen(paths: &[&str], tag: &str) -> Option<Vec<String>> {
        let files: Vec<HubFile> = paths.iter().map(|path| file(path)).collect();
        Some(
            choose(&files, tag)?
                .into_iter()
                .map(|file| file.path)
                .collect(),
        )
    }

    #[test]
    fn the_quantization_chooses_the_files() {
        let files = [
            "m-IQ4_XS.gguf",
            "m-Q4_K_M.gguf",
            "m-Q4_K_M_L.gguf",
            "m.q8_0.gguf",
            "mmproj-F16.gguf",
        ];
        assert_eq!(
            chosen(&files, "latest").unwrap(),
            ["m-Q4_K_M.gguf", "mmproj-F16.gguf"]
        );
        assert_eq!(chosen(&files, "q4_k_m").unwrap()[0], "m-Q4_K_M.gguf");
        assert_eq!(chosen(&files, "Q8_0").unwrap()[0], "m.q8_0.gguf");
        assert_eq!(chosen(&files, "Q4_K"), None);
        assert_eq!(chosen(&files, "F16"), None, "that is the projector");
        assert_eq!(chosen(&["only.gguf"], "latest").unwrap(), ["only.gguf"]);
        assert_eq!(chosen(&[], "latest"), None);
    }

    #[test]
    fn all_parts_are_fetched_or_none() {
        let parts = [
            "Q6_K/m-Q6_K-00002-of-00002.gguf",
            "Q6_K/m-Q6_K-00001-of-00002.gguf",
        ];
        assert_eq!(chosen(&parts, "Q6_K").unwrap(), [parts[1], parts[0]]);
        assert_eq!(chosen(&parts[..1], "Q6_K"), None);
        assert_eq!(chosen(&["m-Q6_K-00001-of-65535.gguf"], "Q6_K"), None);
    }

    #[test]
    fn listings_that_climb_or_lie_are_not_believed() {
        let digest = Digest::of(b"").hex();
        let listing = |path: &str| {
            format!(
                "{{\"sha\":\"abc\",\"siblings\":[{{\"rfilename\":\"{path}\",\"lfs\":{{\"sha256\":\"{digest}\",\"size\":1}}}}]}}"
            )
        };
        let count = |path: &str| read_listing(listing(path).as_bytes()).unwrap().1.len();
        assert_eq!(count("a/b.gguf"), 1);
        assert_eq!(count("../b.gguf"), 0);
        assert_eq!(count("a//b.gguf"), 0);
        assert_eq!(count("b.bin"), 1);
        assert!(read_listing(b"{\"sha\":\"../..\",\"siblings\":[]}").is_none());
        assert!(read_listing(b"[]").is_none());
    }
}
