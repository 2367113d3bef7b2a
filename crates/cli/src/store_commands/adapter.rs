//! Adapters as PEFT saves them, on their way to a model of the store, where they are GGUF files.

use crate::failure::{Failure, Kind};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use strata::load;
use strata::load::ModelFile;
use strata::load::{CheckedModel, TokenizerUse};
use strata_convert::{Lora, LoraBase};
use strata_store::{Base, Digest, OnProgress, Progress, Recipe, Store, StoreError};
use strata_weights::GgmlType;
use strata_weights::gguf::{Builder, WriteError};

/// The folder of PEFT that a path means: itself, or the one that a file of weights is in.
fn folder(path: &Path) -> Option<PathBuf> {
    let weights = path
        .extension()
        .is_some_and(|ending| ending == "safetensors" || ending == "bin");
    let folder = if weights { path.parent()? } else { path };
    Lora::is_folder(folder).then(|| folder.to_owned())
}

/// Writes those adapters of a recipe that are folders into the store, for the model that the recipe begins with.
pub(super) fn prepare(
    store: &Store,
    recipe: &mut Recipe,
    progress: &mut OnProgress<'_>,
) -> Result<(), Failure> {
    for index in 0..recipe.adapters.len() {
        let Base::File(path) = &recipe.adapters[index] else {
            continue;
        };
        let Some(folder) = folder(path) else {
            continue;
        };
        let fail = |error: StoreError| super::failure(&error);
        let step = Progress {
            status: "converting adapter".into(),
            ..Progress::default()
        };
        if progress(&step) == ControlFlow::Break(()) {
            return Err(fail(StoreError::Stopped));
        }
        let base = match recipe.bases.first() {
            Some(Base::Model(name)) => ModelFile::open_stored(&store.find(name).map_err(fail)?)?,
            Some(Base::Blob(digest)) => ModelFile::open(&store.blob_path(digest))?,
            Some(Base::File(path)) => ModelFile::open(path)?,
            // The store says that there is nothing to make a model of.
            None => return Ok(()),
        };
        let bytes = gguf(&folder, &base)?;
        let digest = put(store, &bytes).map_err(fail)?;
        recipe.adapters[index] = Base::Blob(digest);
    }
    Ok(())
}

fn put(store: &Store, bytes: &[u8]) -> Result<Digest, StoreError> {
    let mut blob = store.blob_writer()?;
    blob.write(bytes)?;
    Ok(blob.finish(None)?.0)
}

/// A folder's adapter for a model, as llama.cpp's converter would write it.
fn gguf(folder: &Path, base: &ModelFile) -> Result<Vec<u8>, Failure> {
    let checked = CheckedModel::new(base, None, TokenizerUse::Optional)?;
    let config = checked.blueprint.config();
    let arch = config.spec.name;
    let attention = config.attention().next();
    let lora = load::read_folder(
        folder,
        LoraBase {
            arch,
            heads: attention.map_or(0, |a| a.heads),
            kv_heads: attention.map_or(0, |a| a.kv_heads),
        },
    )?;
    let bad = |error| {
        let sentence = format_args!("{}: {error}", folder.display());
        Failure::new(Kind::BadModel, sentence)
    };
    write(&lora, arch).map_err(bad)
}

fn write(lora: &Lora, arch: &str) -> Result<Vec<u8>, WriteError> {
    let mut builder = Builder::new();
    for (key, text) in [
        ("general.architecture", arch),
        ("general.type", "adapter"),
        ("adapter.type", "lora"),
    ] {
        builder.set(key, text)?;
    }
    builder.set("adapter.lora.alpha", lora.alpha)?;
    for tensor in &lora.tensors {
        builder.tensor(&tensor.name, GgmlType::F32, &tensor.dims)?;
    }
    let layout = builder.finish()?;
    let mut bytes = layout.header;
    for (tensor, extent) in lora.tensors.iter().zip(&layout.tensors) {
        let start = bytes.len();
        bytes.extend_from_slice(&tensor.data);
        bytes.resize(start + extent.padded_len as usize, 0);
    }
    Ok(bytes)
}
