//! Models that other programs keep on this machine: the Hugging Face cache and LM Studio's folders. They are only read.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use strata_weights::SplitName;

/// Folders below a place that are looked into.
const DEEPEST: usize = 4;
/// Models that are listed at most.
const MOST: usize = 10_000;

/// Who keeps a model.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// The cache of Hugging Face's libraries.
    HuggingFace,
    /// LM Studio.
    LmStudio,
}

impl Keeper {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::HuggingFace => "Hugging Face",
            Self::LmStudio => "LM Studio",
        }
    }
}

/// A model that another program keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundModel {
    /// Who keeps it.
    pub keeper: Keeper,
    /// The repository, as `user/repo`.
    pub repository: String,
    /// The GGUF file, the first of several parts, or the folder of a checkpoint: what can be run.
    pub path: PathBuf,
    /// Bytes of its weights.
    pub size: u64,
    /// When it came there.
    pub modified: SystemTime,
}

/// The models of other programs, where the environment says that they are.
pub fn elsewhere() -> Vec<FoundModel> {
    let set = |key| std::env::var_os(key).filter(|value| !value.is_empty());
    let home = strata_host::home_folder();
    let at_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let hub = set("HF_HUB_CACHE")
        .map(PathBuf::from)
        .or_else(|| set("HF_HOME").map(|home| Path::new(&home).join("hub")))
        .or_else(|| at_home(".cache/huggingface/hub"));
    let mut found = hub.map(|hub| hugging_face(&hub)).unwrap_or_default();
    for folder in [".lmstudio/models", ".cache/lm-studio/models"] {
        found.extend(
            at_home(folder)
                .map(|path| lm_studio(&path))
                .unwrap_or_default(),
        );
    }
    found
}

/// The models of a Hugging Face cache: `models--user--repo/snapshots/<commit>/…`.
pub fn hugging_face(hub: &Path) -> Vec<FoundModel> {
    let mut found = Vec::new();
    for (path, name) in children(hub) {
        let Some(name) = name.strip_prefix("models--") else {
            continue;
        };
        let snapshots = path.join("snapshots");
        let main = fs::read_to_string(path.join("refs/main")).unwrap_or_default();
        let main = main.trim();
        let current = children(&snapshots)
            .into_iter()
            .find(|(_, commit)| commit == main)
            .or_else(|| children(&snapshots).into_iter().next());
        if let Some((snapshot, _)) = current {
            let repository = name.replacen("--", "/", 1);
            collect(Keeper::HuggingFace, &repository, &snapshot, 0, &mut found);
        }
    }
    found
}

/// The models of LM Studio: `publisher/model/file.gguf`.
pub fn lm_studio(root: &Path) -> Vec<FoundModel> {
    let mut found = Vec::new();
    for (folder, publisher) in children(root) {
        for (path, model) in children(&folder) {
            let repository = format!("{publisher}/{model}");
            collect(Keeper::LmStudio, &repository, &path, 0, &mut found);
        }
    }
    found
}

/// The models in a folder and those below it.
fn collect(
    keeper: Keeper,
    repository: &str,
    folder: &Path,
    depth: usize,
    found: &mut Vec<FoundModel>,
) {
    let entries = children(folder);
    let ending = |end: &'static str| entries.iter().filter(move |(_, name)| name.ends_with(end));
    let mut push = |path: &Path, size: u64| {
        if found.len() < MOST {
            let modified = fs::metadata(path).and_then(|meta| meta.modified());
            found.push(FoundModel {
                keeper,
                repository: repository.into(),
                path: path.into(),
                size,
                modified: modified.unwrap_or(SystemTime::UNIX_EPOCH),
            });
        }
    };
    let safetensors: u64 = ending(".safetensors").map(|(path, _)| len(path)).sum();
    if safetensors > 0 && entries.iter().any(|(_, name)| name == "config.json") {
        push(folder, safetensors);
    }
    for (path, name) in ending(".gguf") {
        match SplitName::parse(name) {
            Some(split) if split.names().next().as_deref() == Some(name) => {
                let parts = entries.iter().filter(|(_, other)| {
                    SplitName::parse(other).is_some_and(|part| part.name(1) == split.name(1))
                });
                push(path, parts.map(|(path, _)| len(path)).sum());
            }
            // The first part stands for all.
            Some(_) => {}
            None if name.contains("mmproj") => {}
            None => push(path, len(path)),
        }
    }
    if depth < DEEPEST {
        for (path, _) in &entries {
            // Links to folders could go round in circles.
            if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir()) {
                collect(keeper, repository, path, depth + 1, found);
            }
        }
    }
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// What is in a folder, by name; nothing if it cannot be read.
fn children(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = |entry: fs::DirEntry| Some((entry.path(), entry.file_name().into_string().ok()?));
    let mut found: Vec<_> = entries.filter_map(named).collect();
    found.sort_by(|(_, a), (_, b)| a.cmp(b));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, bytes: usize) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![0; bytes]).unwrap();
    }

    #[test]
    fn models_of_other_programs_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let hub = folder.path().join("hub");
        let repo = hub.join("models--u--r--x-GGUF");
        put(&repo.join("snapshots/aaa/old.gguf"), 1);
        put(&repo.join("snapshots/bbb/r-Q4_0.gguf"), 10);
        put(&repo.join("snapshots/bbb/mmproj-F16.gguf"), 5);
        put(&repo.join("snapshots/bbb/big/r-00001-of-00002.gguf"), 20);
        put(&repo.join("snapshots/bbb/big/r-00002-of-00002.gguf"), 30);
        put(&repo.join("refs/main"), 0);
        fs::write(repo.join("refs/main"), "bbb\n").unwrap();
        put(&hub.join("models--v--s/snapshots/c/config.json"), 2);
        put(&hub.join("models--v--s/snapshots/c/model.safetensors"), 7);
        put(&hub.join("datasets--v--s/snapshots/c/x.gguf"), 7);
        let found = hugging_face(&hub);
        let seen: Vec<(String, u64)> = found
            .iter()
            .map(|m| (m.repository.clone(), m.size))
            .collect();
        let expected = [("u/r--x-GGUF", 10), ("u/r--x-GGUF", 50), ("v/s", 7)];
        assert_eq!(seen, expected.map(|(name, size)| (name.to_string(), size)));
        assert!(found[1].path.ends_with("big/r-00001-of-00002.gguf"));
        assert!(found[2].path.ends_with("snapshots/c"));

        let studio = folder.path().join("studio");
        put(&studio.join("pub/model/m.gguf"), 3);
        let found = lm_studio(&studio);
        assert_eq!(
            (found.len(), found[0].repository.as_str()),
            (1, "pub/model")
        );
        assert!(lm_studio(&folder.path().join("none")).is_empty());
    }
}
