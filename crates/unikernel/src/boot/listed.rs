//! The setting `models`: models on disks that clients and the shell may change to, as `NAME=PATH` or `NAME=PATH=SHA256`
//! with commas between them.

use strata_image::signed::from_hex;
use thiserror::Error;

/// A model that the machine may change to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ListedModel<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Its path on a disk.
    pub path: &'a str,
    /// What it should sum to.
    pub sha256: Option<[u8; 32]>,
}

/// A part of the list that names no model.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
#[error("models= has {0:?}, which is neither NAME=PATH nor NAME=PATH=SHA256")]
pub struct ListError<'a>(pub &'a str);

/// The models of a list, in order.
pub fn models(list: &str) -> impl Iterator<Item = Result<ListedModel<'_>, ListError<'_>>> {
    let parts = list.split(',').map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(|part| model(part).ok_or(ListError(part)))
}

fn model(part: &str) -> Option<ListedModel<'_>> {
    let (name, rest) = part.split_once('=')?;
    let (path, sum) = match rest.split_once('=') {
        Some((path, digits)) => (path, Some(from_hex(digits)?)),
        None => (rest, None),
    };
    (!name.is_empty() && !path.is_empty()).then_some(ListedModel {
        name,
        path,
        sha256: sum,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn models_are_listed_with_and_without_digests() {
        let digits = "0f".repeat(32);
        let list = format!("fox:1b=strata/fox.gguf, owl=owl.gguf={digits},");
        let found: Vec<_> = models(&list).map(Result::unwrap).collect();
        let of = |name, path, sha256| ListedModel { name, path, sha256 };
        assert_eq!(
            found,
            [
                of("fox:1b", "strata/fox.gguf", None),
                of("owl", "owl.gguf", Some([0x0f; 32]))
            ]
        );
        assert_eq!(models("").count() + models(" , ").count(), 0);
    }

    #[test]
    fn what_names_no_model_is_told() {
        for bad in ["fox", "=a.gguf", "fox=", "fox=a.gguf=12", "fox=a.gguf="] {
            let list = format!("owl=owl.gguf,{bad}");
            let found: Vec<_> = models(&list).collect();
            assert_eq!(found[1], Err(ListError(bad)));
            assert!(found[1].unwrap_err().to_string().contains(bad));
        }
    }
}
