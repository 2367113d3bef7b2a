//! Weights on their way to a model of the store: checkpoints are converted, and types are changed.

use super::adapter;
use crate::failure::Failure;
use std::fs::DirBuilder;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use strata::load::{ModelFile, TemplateText, bad_folder, bad_model, check_conversion};
use strata_convert::{ConvertError, Folder, Mix, Options, Plan, Requantizing, WriteFailure};
use strata_host::ThreadPool;
use strata_store::{
    Base, BlobWriter, Digest, Name, Network, OnProgress, Progress, Recipe, Store, StoreError,
    StoredModel,
};

/// Fetches a model. A repository that has only a checkpoint is fetched file by file and converted.
pub(crate) fn pull(
    store: &Store,
    name: &str,
    network: &Network,
    progress: &mut OnProgress<'_>,
) -> Result<Name, Failure> {
    let fail = |error: StoreError| super::failure(&error);
    match store.pull(name, network, progress) {
        Err(StoreError::OnlyCheckpoint(_)) => {}
        pulled => return pulled.map_err(fail),
    }
    let (name, checkpoint) = store
        .pull_checkpoint(name, network, progress)
        .map_err(fail)?;
    let folder = TemporaryFolder::new(name.model())?;
    for (file, blob) in &checkpoint.files {
        folder.link(file, blob)?;
    }
    // The tag is the type that the weights shall have.
    let mix = Mix::from_name(&name.tag().to_ascii_lowercase());
    let digest = convert(store, folder.path(), mix, progress)?;
    let recipe = Recipe {
        bases: vec![Base::Blob(digest)],
        ..Recipe::default()
    };
    store.create(&name, &recipe, progress).map_err(fail)?;
    Ok(name)
}

/// A folder of links to files, gone when it is dropped.
pub(crate) struct TemporaryFolder {
    outer: PathBuf,
    inner: PathBuf,
}

impl TemporaryFolder {
    /// A folder that is called so, in one of its own: converted models are called like their folders.
    pub(crate) fn new(name: &str) -> Result<Self, Failure> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let outer = format!("strata-{}-{number}", std::process::id());
        let outer = std::env::temp_dir().join(outer);
        let inner = outer.join(name);
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let made = builder
            .create(&outer)
            .and_then(|()| DirBuilder::new().create(&inner));
        made.map_err(|error| Failure::io(outer.display(), &error))?;
        Ok(Self { outer, inner })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.inner
    }

    pub(crate) fn link(&self, name: &str, to: &Path) -> Result<(), Failure> {
        let linked = to
            .canonicalize()
            .and_then(|to| stand_in(&to, &self.inner.join(name)));
        linked.map_err(|error| Failure::io(to.display(), &error))
    }
}

#[cfg(unix)]
fn stand_in(file: &Path, name: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(file, name)
}

/// A second name of the file, since links to files need rights that few accounts of Windows have; a copy where the two are
/// on different drives.
#[cfg(not(unix))]
fn stand_in(file: &Path, name: &Path) -> io::Result<()> {
    std::fs::hard_link(file, name).or_else(|_| std::fs::copy(file, name).map(drop))
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.outer);
    }
}

/// Puts the weights of a recipe into the store where that is more than copying: checkpoints and PEFT's adapters are
/// converted, and all weights get the types of `mix` if there is one.
pub(crate) fn prepare(
    store: &Store,
    recipe: &mut Recipe,
    mix: Option<Mix>,
    progress: &mut OnProgress<'_>,
) -> Result<(), Failure> {
    if let Some(template) = &recipe.template {
        TemplateText::of_modelfile(template.clone()).check()?;
    }
    let mut bases = Vec::new();
    for base in std::mem::take(&mut recipe.bases) {
        bases.push(match (base, mix) {
            (Base::File(path), mix) if Folder::is_checkpoint(&path) => {
                Base::Blob(convert(store, &path, mix, progress)?)
            }
            (base, None) => base,
            (Base::File(path), Some(mix)) => {
                let file = ModelFile::open(&path)?;
                Base::Blob(requantize(store, &file, mix, progress)?)
            }
            (Base::Blob(digest), Some(mix)) => {
                let file = ModelFile::open(&store.blob_path(&digest))?;
                Base::Blob(requantize(store, &file, mix, progress)?)
            }
            (Base::Model(name), Some(mix)) => {
                let model = store.find(&name).map_err(|error| super::failure(&error))?;
                let file = ModelFile::open_stored(&model)?;
                inherit(recipe, &model, &file)?;
                Base::Blob(requantize(store, &file, mix, progress)?)
            }
        });
    }
    recipe.bases = bases;
    adapter::prepare(store, recipe, progress)
}

/// Takes over what a model has beside its weights, which become others: what the recipe says itself counts more.
fn inherit(recipe: &mut Recipe, model: &StoredModel, file: &ModelFile) -> Result<(), Failure> {
    let fail = |error: StoreError| super::failure(&error);
    let parsed = file.parse()?;
    let in_file = parsed.metadata().str("tokenizer.chat_template");
    let in_file = matches!(in_file, Ok(Some(_)));
    // One that does not count before the file's own shall not do so afterwards.
    if recipe.template.is_none() && (model.has_own_template() || !in_file) {
        recipe.template = model.template().map_err(fail)?;
    }
    if recipe.system.is_none() {
        recipe.system = model.system().map_err(fail)?;
    }
    if recipe.messages.is_empty() {
        recipe.messages = model.messages().map_err(fail)?;
    }
    let mut licenses = model.licenses().map_err(fail)?;
    licenses.append(&mut recipe.licenses);
    recipe.licenses = licenses;
    let mut parameters = model.parameters().map_err(fail)?;
    parameters.append(&mut recipe.parameters);
    recipe.parameters = parameters;
    let mut adapters: Vec<Base> = model
        .adapters()
        .map_err(fail)?
        .into_iter()
        .map(Base::File)
        .collect();
    adapters.append(&mut recipe.adapters);
    recipe.adapters = adapters;
    Ok(())
}

/// Converts a folder, or one file of it, into a blob.
pub(crate) fn convert(
    store: &Store,
    path: &Path,
    mix: Option<Mix>,
    progress: &mut OnProgress<'_>,
) -> Result<Digest, Failure> {
    let fail = |error| bad_folder(path, &error);
    let folder = Folder::open(path).map_err(fail)?;
    let config = folder.config().map_err(fail)?;
    let vocabulary = folder.vocabulary().map_err(fail)?;
    let checkpoint = folder.tensors().map_err(fail)?;
    let name = folder.name();
    let options = Options {
        mix,
        name: name.as_deref(),
    };
    let plan = Plan::new(&config, &checkpoint, vocabulary.as_ref(), &options)
        .map_err(|error| fail(error.into()))?;
    check_conversion(path, &plan, vocabulary.as_ref())?;
    let status = match mix {
        Some(mix) => format!("quantizing model to {}", mix.name()),
        None => "converting model".into(),
    };
    let blame = |error: ConvertError| Failure::from(fail(error.into()));
    fill(store, &status, progress, blame, |blob, pool, show| {
        folder.convert(&plan, blob, pool, show)
    })
}

/// A GGUF file with its weights in other types, as a blob.
fn requantize(
    store: &Store,
    file: &ModelFile,
    mix: Mix,
    progress: &mut OnProgress<'_>,
) -> Result<Digest, Failure> {
    let parsed = file.parse()?;
    let blame = |error: ConvertError| Failure::from(bad_model(file.path(), error));
    let types = strata_convert::Recipe::from(mix);
    let plan = Requantizing::new(&parsed, &types).map_err(blame)?;
    let status = format!("quantizing model to {}", mix.name());
    fill(store, &status, progress, blame, |blob, pool, show| {
        let layout = plan.layout();
        let mut out = BufWriter::with_capacity(1 << 20, blob);
        out.write_all(&layout.header).map_err(WriteFailure::Sink)?;
        let mut done = layout.header.len() as u64;
        for (tensor, extent) in plan.tensors().iter().zip(&layout.tensors) {
            plan.write(tensor, pool, &mut |bytes| {
                done += bytes.len() as u64;
                show(done, layout.total_len);
                out.write_all(bytes)
            })?;
            let padding = vec![0; (extent.padded_len - extent.len) as usize];
            done += padding.len() as u64;
            out.write_all(&padding).map_err(WriteFailure::Sink)?;
        }
        out.flush().map_err(WriteFailure::Sink)
    })
}

type Written = Result<(), WriteFailure<io::Error>>;

/// A blob of what `write` writes, which tells how many of how many bytes are done.
fn fill(
    store: &Store,
    status: &str,
    progress: &mut OnProgress<'_>,
    blame: impl FnOnce(ConvertError) -> Failure,
    write: impl FnOnce(&mut BlobWriter, &ThreadPool, &mut dyn FnMut(u64, u64)) -> Written,
) -> Result<Digest, Failure> {
    let pool = ThreadPool::new(None)
        .map_err(|error| Failure::io("cannot start the worker threads", &error))?;
    let stored = |error: StoreError| super::failure(&error);
    let mut blob = store.blob_writer().map_err(stored)?;
    let (mut stopped, mut told) = (false, 0);
    let show = &mut |done: u64, total: u64| {
        // A thousand steps are enough for anyone.
        if done < total && done - told < total / 1000 {
            return;
        }
        told = done;
        let step = Progress {
            status: status.into(),
            digest: None,
            total: Some(total),
            completed: Some(done),
        };
        stopped |= progress(&step) == ControlFlow::Break(());
    };
    let written = write(&mut blob, &pool, show);
    if stopped {
        return Err(stored(StoreError::Stopped));
    }
    written.map_err(|failure| match failure {
        WriteFailure::Convert(error) => blame(error),
        WriteFailure::Sink(error) => Failure::io(store.root().display(), &error),
    })?;
    let (digest, _) = blob.finish(None).map_err(stored)?;
    Ok(digest)
}
