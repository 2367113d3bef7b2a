//! Why a checkpoint cannot be converted.

use alloc::boxed::Box;
use alloc::string::String;

use strata_quant::{GgmlType, QuantError};
use strata_tokenizer::vocabulary::VocabularyError;
use strata_weights::gguf::{Name, WriteError};
use strata_weights::{GgufError, IndexError, ReadError};

/// Why a checkpoint cannot be converted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum ConvertError {
    #[error("config.json is not the JSON that was expected: {reason}")]
    Json { reason: Box<str> },
    #[error("config.json has {len} bytes; at most {limit} are read")]
    TooLong { len: usize, limit: usize },
    #[error("config.json names no architecture")]
    NoClass,
    #[error("the architecture {name} cannot be converted")]
    Class { name: Name },
    #[error("config.json has no {key}")]
    Missing { key: &'static str },
    #[error("config.json has a {key} of {found}, which cannot be used")]
    Value { key: &'static str, found: Box<str> },
    #[error("config.json asks for a {key} of {found}, which no GGUF of this architecture can say")]
    Unsupported { key: &'static str, found: Box<str> },
    #[error("vocab.json is not the list of letters that was expected: {reason}")]
    Letters { reason: Box<str> },
    #[error("the checkpoint has no tensors")]
    NoTensors,
    #[error("the architecture {arch} has no tensor {tensor}")]
    UnknownTensor { tensor: Name, arch: &'static str },
    #[error("two tensors of the checkpoint would be {tensor}")]
    DuplicateTensor { tensor: String },
    #[error("number {item} of the tensors that make {tensor} is missing")]
    MissingItem { tensor: String, item: usize },
    #[error("the tensor {tensor} has a shape that does not fit the heads or siblings that it has")]
    Shape { tensor: Name },
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the tensor {tensor} cannot be written: {source}")]
    Quant { tensor: String, source: QuantError },
    #[error("the importance of {tensor} is of {found} columns; the tensor has {expected}")]
    Importance {
        tensor: String,
        found: u64,
        expected: u64,
    },
    #[error("no matrix has {pattern} in its name")]
    UnusedRule { pattern: String },
    #[error("{ty} can be read but not written")]
    CannotWrite { ty: GgmlType },
    #[error("the file cannot be laid out: {0}")]
    Write(#[from] WriteError),
    #[error("the file's own description is damaged: {0}")]
    Gguf(#[from] GgufError),
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
}
