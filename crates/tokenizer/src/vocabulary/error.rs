//! Why a published vocabulary was refused.

use alloc::boxed::Box;

use super::{MAX_FILE, MAX_TEXT};
use crate::MAX_TOKENS;

/// Why a published vocabulary was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum VocabularyError {
    #[error("{file} has {len} bytes; at most {MAX_FILE} are read")]
    TooLong { file: &'static str, len: usize },
    #[error("{file} is not the JSON that was expected: {reason}")]
    Json {
        file: &'static str,
        reason: Box<str>,
    },
    #[error("tokenizer.model is not a SentencePiece model: byte {offset} makes no sense")]
    Protobuf { offset: usize },
    #[error("tokenizer.model has a piece at byte {offset} that is not valid UTF-8")]
    NotUtf8 { offset: usize },
    #[error("the vocabulary gives the token {id}; at most {MAX_TOKENS} are supported")]
    TooManyTokens { id: u64 },
    #[error("the vocabulary's texts take more than {MAX_TEXT} bytes")]
    TextTooLong,
    #[error("the vocabulary has no tokens")]
    Empty,
    #[error("tokenizer.json has a model of the type {name}, which is not supported")]
    Model { name: Box<str> },
    #[error("tokenizer.json has a merge without a space in it: {merge}")]
    Merge { merge: Box<str> },
    #[error("tokenizer.json cuts text in a way that no GGUF can name: {steps}")]
    PreTokenizer { steps: Box<str> },
    #[error("tokenizer.json has a character map that is not valid base64")]
    Charsmap,
}
