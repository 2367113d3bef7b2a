//! `model.safetensors.index.json` and `pytorch_model.bin.index.json`: which files a checkpoint is split over.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use core::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::gguf::Name;

/// The most bytes of an index that is read; the largest published ones have about ten megabytes.
const MAX_LEN: usize = 64 << 20;
/// The most files of a checkpoint.
const MAX_FILES: usize = 10_000;

/// Why an index was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum IndexError {
    #[error("the index has {len} bytes; at most {MAX_LEN} are read")]
    TooLong { len: usize },
    #[error("the index is not the JSON that was expected: {reason}")]
    Json { reason: Box<str> },
    #[error("the index names the file {name}, which is not a plain file name")]
    FileName { name: Name },
    #[error("the index names more than {MAX_FILES} files")]
    TooManyFiles,
    #[error("the index names no file")]
    Empty,
}

/// The names of the files that an index names, in order. None of them leads out of the index's folder.
pub fn shard_files(index: &[u8]) -> Result<BTreeSet<String>, IndexError> {
    if index.len() > MAX_LEN {
        return Err(IndexError::TooLong { len: index.len() });
    }
    let parsed: Index = serde_json::from_slice(index).map_err(|error| IndexError::Json {
        reason: error.to_string().into(),
    })?;
    let Files(files) = parsed.weight_map;
    if files.len() > MAX_FILES {
        return Err(IndexError::TooManyFiles);
    }
    let plain = |name: &str| {
        let bad = |c: char| matches!(c, '/' | '\\' | ':') || c.is_control();
        !name.is_empty() && !name.starts_with('.') && !name.contains(bad) && name.len() <= 255
    };
    match files.iter().find(|name| !plain(name)) {
        Some(name) => Err(IndexError::FileName {
            name: Name::new(name),
        }),
        None if files.is_empty() => Err(IndexError::Empty),
        None => Ok(files),
    }
}

#[derive(serde::Deserialize)]
struct Index {
    weight_map: Files,
}

/// The values of a map, each once, up to one more than allowed.
struct Files(BTreeSet<String>);

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Files;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from tensors to files")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Files, A::Error> {
                let mut files = BTreeSet::new();
                while let Some((IgnoredAny, file)) = map.next_entry::<IgnoredAny, String>()? {
                    if files.len() <= MAX_FILES {
                        files.insert(file);
                    }
                }
                Ok(Files(files))
            }
        }
        deserializer.deserialize_map(Map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn index(file: &str) -> String {
        format!(r#"{{"metadata":{{}},"weight_map":{{"a":{file:?},"b":"x-2.safetensors"}}}}"#)
    }

    #[test]
    fn files_are_named_once() {
        let files = shard_files(index("x-2.safetensors").as_bytes()).expect("an index");
        assert_eq!(files.len(), 1);
    }

    #[test]
    fn files_stay_in_the_folder() {
        for name in [
            "../x",
            "/etc/passwd",
            "a/b",
            "",
            ".hidden",
            "C:x",
            "a\\b",
            "a\nb",
        ] {
            let error = shard_files(index(name).as_bytes()).expect_err(name);
            assert!(
                matches!(error, IndexError::FileName { .. }),
                "{name}: {error}"
            );
        }
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"weight_map":{}}"#,
            r#"{"weight_map":{"a":1}}"#,
        ] {
            shard_files(bad.as_bytes()).expect_err(bad);
        }
    }
}
