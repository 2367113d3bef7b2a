//! Why a vocabulary was refused.

use alloc::string::String;

use strata_weights::GgufError;

/// Why no tokenizer could be made of a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum TokenizerError {
    #[error(transparent)]
    Metadata(#[from] GgufError),
    #[error("the vocabulary is incomplete: the metadata key {key} is missing")]
    Missing { key: &'static str },
    #[error("the tokenizer model {name:?} is not known")]
    UnknownModel { name: String },
    #[error("the pre-tokenizer {name:?} is not known")]
    UnknownPreTokenizer { name: String },
    #[error("the elements of {key} are not {expected}")]
    ElementType {
        key: &'static str,
        expected: &'static str,
    },
    #[error("{key} has {found} elements for {tokens} tokens")]
    Length {
        key: &'static str,
        tokens: usize,
        found: usize,
    },
    #[error("{key} is {id}, and there are only {tokens} tokens")]
    NoSuchToken {
        key: String,
        id: i128,
        tokens: usize,
    },
    #[error("token {id} is of type {number}, which is not known")]
    UnknownType { id: u32, number: i128 },
    #[error("token {id} is a byte, but its text is {text:?} and not of the form <0x0A>")]
    ByteToken { id: u32, text: String },
    #[error("the score of token {id} is not a number")]
    Score { id: u32 },
    #[error("{key} has {found} elements; at most {limit} are supported")]
    TooMany {
        key: &'static str,
        found: usize,
        limit: usize,
    },
    #[error("token {id} is {len} bytes long; at most {limit} are supported")]
    TokenTooLong { id: u32, len: usize, limit: usize },
    #[error("the texts of the tokens up to {id} take more than 4 GiB")]
    TextTooLong { id: u32 },
    #[error(
        "the table of the precompiled character map claims {claimed} bytes; {found} are there, and they must be a multiple of 4"
    )]
    CharsmapTable { claimed: u64, found: usize },
    #[error(
        "a replacement in the precompiled character map at byte {offset} is not ended by a zero within {limit} bytes"
    )]
    CharsmapReplacement { offset: usize, limit: usize },
}
