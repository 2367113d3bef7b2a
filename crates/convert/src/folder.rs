//! A Hugging Face folder: its files mapped into memory, converted to a file or run as they are.

use std::borrow::ToOwned;
use std::boxed::Box;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::vec::Vec;

use strata_host::MappedFile;
use strata_platform::{Backing, Pool};
use strata_quant::GgmlType;
use strata_tokenizer::vocabulary::{Files, Vocabulary};
use strata_weights::ggml_speech::GgmlSpeech;
use strata_weights::gguf::{Dims, Extent};
use strata_weights::safetensors;
use strata_weights::torch;
use strata_weights::{CheckpointTensor, Gguf, GgufSet, Tensor, shard_files};

use crate::config::HfConfig;
use crate::error::ConvertError;
use crate::folder_error::FolderError;
use crate::ggml_speech;
use crate::plan::{Options, Plan};
use crate::write::WriteFailure;

/// The small files beside the weights, by name.
const BESIDE: &[&str] = &[
    "config.json",
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "vocab.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "1_Pooling/config.json",
    "2_Dense/config.json",
    "3_Dense/config.json",
];
/// Layers after pooling that sentence-transformers keep in folders of their own, and GGUF's names of them.
const DENSE: [(&str, &str); 2] = [("2_Dense", "dense_2"), ("3_Dense", "dense_3")];
/// Indices of split checkpoints and whole ones, the best first.
const CHECKPOINTS: &[(&str, &str)] = &[
    ("model.safetensors.index.json", "model.safetensors"),
    ("pytorch_model.bin.index.json", "pytorch_model.bin"),
];

/// A folder's files, mapped.
pub struct Folder {
    path: PathBuf,
    /// One for each of [`BESIDE`].
    beside: Vec<Option<MappedFile>>,
    weights: Vec<(PathBuf, MappedFile)>,
}

impl Folder {
    /// Whether a path looks like a checkpoint: a folder with a `config.json`, or a file that is no GGUF.
    pub fn is_checkpoint(path: &Path) -> bool {
        if path.is_dir() {
            path.join("config.json").is_file()
        } else {
            is_safetensors(path) || is_torch(path)
        }
    }

    /// Opens a folder, or the folder of one of its files, which is then all of the weights.
    pub fn open(path: &Path) -> Result<Folder, FolderError> {
        let (folder, files) = if path.is_dir() {
            let mut files = weight_files(path)?;
            let dense = DENSE.map(|(folder, _)| path.join(folder).join("model.safetensors"));
            files.extend(dense.into_iter().filter(|path| path.is_file()));
            (path.to_owned(), files)
        } else {
            let parent = path.parent().filter(|parent| *parent != Path::new(""));
            let parent = parent.unwrap_or(Path::new("."));
            (parent.to_owned(), [path.to_owned()].into())
        };
        let beside = BESIDE
            .iter()
            .map(|name| match map(&folder.join(name)) {
                Ok(file) => Ok(Some(file)),
                Err(FolderError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    Ok(None)
                }
                Err(error) => Err(error),
            })
            .collect::<Result<_, _>>()?;
        let weights = files
            .into_iter()
            .map(|path| map(&path).map(|file| (path, file)))
            .collect::<Result<_, _>>()?;
        Ok(Folder {
            path: folder,
            beside,
            weights,
        })
    }

    fn file(&self, name: &str) -> Option<&[u8]> {
        let index = BESIDE.iter().position(|beside| *beside == name)?;
        self.beside.get(index)?.as_ref().map(MappedFile::bytes)
    }

    /// The file of whisper.cpp that this is instead of a folder.
    fn speech(&self) -> Result<Option<GgmlSpeech<'_>>, FolderError> {
        let [(path, file)] = &self.weights[..] else {
            return Ok(None);
        };
        if !GgmlSpeech::is(file.bytes()) {
            return Ok(None);
        }
        let path = path.clone();
        let parsed = GgmlSpeech::parse(file.bytes());
        let failed = |source| FolderError::GgmlSpeech { path, source };
        parsed.map(Some).map_err(failed)
    }

    /// `config.json`.
    pub fn config(&self) -> Result<HfConfig, FolderError> {
        if let Some(speech) = self.speech()? {
            return Ok(HfConfig::parse(&ggml_speech::config(&speech))?);
        }
        let config = self.file("config.json").ok_or_else(|| FolderError::Io {
            path: self.path.join("config.json"),
            source: io::ErrorKind::NotFound.into(),
        })?;
        let mut config = HfConfig::parse(config)?;
        if let Some(generation) = self.file("generation_config.json") {
            config = config.with_generation(generation)?;
        }
        for &name in config.needed_files() {
            if let Some(json) = self.file(name) {
                config = config.with_file(name, json)?;
            }
        }
        for (folder, name) in DENSE {
            if let Some(dense) = self.file(&std::format!("{folder}/config.json")) {
                config = config.with_dense(name, dense)?;
            }
        }
        Ok(match self.file("1_Pooling/config.json") {
            Some(pooling) => config.with_pooling(pooling)?,
            None => config,
        })
    }

    /// The vocabulary, if there is one.
    pub fn vocabulary(&self) -> Result<Option<Vocabulary>, FolderError> {
        if let Some(speech) = self.speech()? {
            let json = ggml_speech::tokenizer(&speech);
            let files = Files {
                tokenizer_json: Some(&json),
                ..Files::default()
            };
            return Ok(Vocabulary::read(&files).map_err(ConvertError::from)?);
        }
        let template = self.processor_template();
        let files = Files {
            tokenizer_json: self.file("tokenizer.json"),
            sentencepiece: self
                .file("tokenizer.model")
                .or_else(|| self.file("spiece.model")),
            tokenizer_config: self.file("tokenizer_config.json"),
            generation_config: self.file("generation_config.json"),
            config: self.file("config.json"),
            chat_template: self
                .file("chat_template.jinja")
                .or(template.as_deref().map(str::as_bytes)),
        };
        Ok(Vocabulary::read(&files).map_err(ConvertError::from)?)
    }

    /// The template in `chat_template.json`, where older processors of models that see or hear have it.
    fn processor_template(&self) -> Option<String> {
        let json = self.file("chat_template.json")?;
        let json: serde_json::Value = serde_json::from_slice(json).ok()?;
        Some(json.get("chat_template")?.as_str()?.into())
    }

    /// The file of the model's eyes or ears, if it has any; see [`Plan::projector`].
    pub fn projector<'t, 'a>(
        &self,
        config: &HfConfig,
        checkpoint: &'t [CheckpointTensor<'a>],
    ) -> Result<Option<Plan<'t, 'a>>, FolderError> {
        let beside = self.file("preprocessor_config.json");
        let name = self.name();
        Ok(Plan::projector(
            config,
            checkpoint,
            beside,
            name.as_deref(),
        )?)
    }

    /// The tensors of all files.
    pub fn tensors(&self) -> Result<Vec<CheckpointTensor<'_>>, FolderError> {
        if let Some(speech) = self.speech()? {
            return Ok(ggml_speech::tensors(&speech));
        }
        let mut tensors = Vec::new();
        for (path, file) in &self.weights {
            let bytes = file.bytes();
            let first = tensors.len();
            tensors.extend(if is_safetensors(path) {
                safetensors::parse(bytes).map_err(|source| FolderError::Safetensors {
                    path: path.clone(),
                    source,
                })?
            } else {
                torch::parse(bytes).map_err(|source| FolderError::Torch {
                    path: path.clone(),
                    source,
                })?
            });
            let parent = path.parent().and_then(Path::file_name);
            let dense = DENSE.iter().find(|(folder, _)| {
                parent.is_some_and(|parent| parent == *folder) && path.parent() != Some(&self.path)
            });
            if let Some((folder, _)) = dense {
                for tensor in &mut tensors[first..] {
                    tensor.name = std::format!("{folder}.{}", tensor.name).into();
                }
            }
        }
        Ok(tensors)
    }

    /// The folder's own name.
    pub fn name(&self) -> Option<String> {
        let path = fs::canonicalize(&self.path).ok()?;
        Some(path.file_name()?.to_string_lossy().to_string())
    }

    /// Writes the folder as one GGUF; `progress` hears of bytes written and bytes in all.
    pub fn convert(
        &self,
        plan: &Plan<'_, '_>,
        out: impl Write,
        pool: &dyn Pool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), WriteFailure<io::Error>> {
        let layout = plan.layout();
        let mut out = BufWriter::with_capacity(1 << 20, out);
        out.write_all(&layout.header).map_err(WriteFailure::Sink)?;
        let mut done = layout.header.len() as u64;
        for (tensor, extent) in plan.tensors().iter().zip(&layout.tensors) {
            plan.write(tensor, pool, &mut |bytes| {
                done += bytes.len() as u64;
                progress(done, layout.total_len);
                out.write_all(bytes)
            })?;
            done += pad(&mut out, extent).map_err(WriteFailure::Sink)?;
            self.done_with(plan.sources(tensor));
        }
        out.flush().map_err(WriteFailure::Sink)
    }
}

/// Writes the zeros behind a tensor.
fn pad(out: &mut impl Write, extent: &Extent) -> io::Result<u64> {
    let zeros = extent.padded_len - extent.len;
    io::copy(&mut io::Read::take(io::repeat(0), zeros), out)
}

/// A folder that runs as it is.
///
/// Tensors that GGUF would hold byte for byte are used where they lie in the checkpoint's files. The others (heads to be
/// reordered, norms, stacks of experts, everything if types are to change) are made once, into a temporary file that has
/// no name any more: disk space for them in the system's folder for such files, and no more memory than a converter takes.
pub struct Direct {
    folder: Folder,
    /// A GGUF of the metadata alone.
    metadata: Vec<u8>,
    scratch: Option<MappedFile>,
    tensors: Vec<Placed>,
}

/// A tensor and where its bytes are.
struct Placed {
    name: String,
    ty: GgmlType,
    dims: Dims,
    /// The number of a file of weights; `None` for the temporary one.
    file: Option<usize>,
    range: Range<usize>,
}

impl Direct {
    /// Makes what has to be made; `progress` hears of bytes written and bytes in all.
    pub fn new(
        folder: Folder,
        options: &Options<'_>,
        pool: &dyn Pool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Direct, FolderError> {
        let config = folder.config()?;
        let vocabulary = folder.vocabulary()?;
        let checkpoint = folder.tensors()?;
        let plan = Plan::new(&config, &checkpoint, vocabulary.as_ref(), options)?;
        let io = |source| FolderError::Io {
            path: std::env::temp_dir(),
            source,
        };
        let changed = plan.tensors().iter().zip(&plan.layout().tensors);
        let changed = changed.filter(|(tensor, _)| plan.unchanged(tensor).is_none());
        let total: u64 = changed.map(|(_, extent)| extent.padded_len).sum();
        let file = tempfile::NamedTempFile::new().map_err(io)?;
        let mut out = BufWriter::with_capacity(1 << 20, file.as_file());
        let (mut tensors, mut done) = (Vec::with_capacity(plan.tensors().len()), 0u64);
        for (tensor, extent) in plan.tensors().iter().zip(&plan.layout().tensors) {
            let dims = Dims::new(&tensor.dims).map_err(|_| ConvertError::NoTensors)?;
            let place = match plan.unchanged(tensor) {
                Some(bytes) => folder.place(bytes).map(|(file, range)| (Some(file), range)),
                None => {
                    let start = done as usize;
                    plan.write(tensor, pool, &mut |bytes| {
                        done += bytes.len() as u64;
                        progress(done, total);
                        out.write_all(bytes)
                    })
                    .map_err(|failure| match failure {
                        WriteFailure::Convert(error) => FolderError::Convert(error),
                        WriteFailure::Sink(source) => io(source),
                    })?;
                    done += pad(&mut out, extent).map_err(io)?;
                    folder.done_with(plan.sources(tensor));
                    Some((None, start..start + extent.len as usize))
                }
            };
            let (file, range) = place.ok_or(ConvertError::NoTensors)?;
            tensors.push(Placed {
                name: tensor.name.clone(),
                ty: tensor.ty,
                dims,
                file,
                range,
            });
        }
        out.flush().map_err(io)?;
        drop(out);
        let scratch = match done {
            0 => None,
            // The file has lost its name when it is mapped: nothing is left of it, however the program ends.
            _ => Some(MappedFile::open(file.path()).map_err(io)?),
        };
        let metadata = plan.metadata().to_owned();
        drop(checkpoint);
        Ok(Direct {
            folder,
            metadata,
            scratch,
            tensors,
        })
    }

    /// The model, as if it had been a GGUF.
    pub fn parse(&self) -> Result<GgufSet<'_>, FolderError> {
        let metadata = Gguf::parse(&self.metadata)?;
        let tensors = self.tensors.iter().map(|tensor| {
            let bytes = match tensor.file {
                Some(index) => self.folder.weights.get(index).map(|(_, file)| file),
                None => self.scratch.as_ref(),
            };
            let bytes = bytes.map_or(&[][..], MappedFile::bytes);
            Tensor {
                name: &tensor.name,
                ty: tensor.ty,
                dims: tensor.dims,
                offset: tensor.range.start as u64,
                data: bytes.get(tensor.range.clone()).unwrap_or(&[]),
            }
        });
        Ok(GgufSet::assemble(metadata, tensors.collect())?)
    }

    /// Bytes of the temporary file.
    pub fn made_bytes(&self) -> usize {
        self.scratch.as_ref().map_or(0, |file| file.bytes().len())
    }

    fn files(&self) -> impl Iterator<Item = &MappedFile> {
        let weights = self.folder.weights.iter().map(|(_, file)| file);
        weights.chain(&self.scratch)
    }
}

impl Backing for Direct {
    fn part(&self, index: usize) -> Option<&[u8]> {
        self.files().nth(index).map(MappedFile::bytes)
    }

    fn will_need(&self, bytes: &[u8]) {
        self.files().for_each(|file| file.will_need(bytes));
    }

    fn done_with(&self, bytes: &[u8]) {
        self.files().for_each(|file| file.done_with(bytes));
    }
}

impl Folder {
    /// Lets the system take back the memory of bytes that will not be read again.
    fn done_with<'a>(&self, sources: impl Iterator<Item = &'a [u8]>) {
        for bytes in sources {
            let files = self.weights.iter();
            files.for_each(|(_, file)| file.done_with(bytes));
        }
    }

    /// The file in which bytes lie, and where.
    fn place(&self, bytes: &[u8]) -> Option<(usize, Range<usize>)> {
        self.weights
            .iter()
            .enumerate()
            .find_map(|(index, (_, file))| {
                let start = bytes
                    .as_ptr()
                    .addr()
                    .checked_sub(file.bytes().as_ptr().addr())?;
                let end = start.checked_add(bytes.len())?;
                (end <= file.bytes().len()).then_some((index, start..end))
            })
    }
}

fn weight_files(folder: &Path) -> Result<Vec<PathBuf>, FolderError> {
    for (index, whole) in CHECKPOINTS {
        let path = folder.join(index);
        if path.is_file() {
            let index = map(&path)?;
            let names = shard_files(index.bytes());
            let names = names.map_err(|source| FolderError::Index { path, source })?;
            return Ok(names.iter().map(|name| folder.join(name)).collect());
        }
        let path = folder.join(whole);
        if path.is_file() {
            return Ok([path].into());
        }
    }
    let io = |source| FolderError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if is_safetensors(&path) || is_torch(&path) {
            found.push(path);
        }
    }
    // A single file under another name is clear; of several nobody knows which belong together.
    match found.len() {
        1 => Ok(found),
        _ => Err(FolderError::NoCheckpoint {
            path: folder.to_owned(),
        }),
    }
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| extensions.contains(&extension))
}

fn is_safetensors(path: &Path) -> bool {
    has_extension(path, &["safetensors"])
}

fn is_torch(path: &Path) -> bool {
    has_extension(path, &["bin", "pt", "pth"])
}

fn map(path: &Path) -> Result<MappedFile, FolderError> {
    MappedFile::open(path).map_err(|source| FolderError::Io {
        path: path.to_owned(),
        source,
    })
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let paths: Box<[_]> = self.weights.iter().map(|(path, _)| path).collect();
        f.debug_struct("Folder")
            .field("path", &self.path)
            .field("weights", &paths)
            .finish()
    }
}
