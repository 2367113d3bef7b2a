//! Calls about a model's words, which need no engine.

use crate::Fault;
use crate::model_profile::ModelProfile;
use alloc::string::String;
use alloc::vec::Vec;
use strata_tokenizer::{DecodeOptions, EncodeOptions};

/// A text to cut into tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct Tokenize {
    pub model: Option<String>,
    pub text: String,
    pub add_special: bool,
    pub parse_special: bool,
}

/// A token and what it spells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct TokenPiece {
    pub token: u32,
    pub bytes: Vec<u8>,
}

/// Tokens to join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct Detokenize {
    pub model: Option<String>,
    pub tokens: Vec<u32>,
}

impl ModelProfile {
    /// A text's tokens with their bytes.
    pub fn tokenize(&self, request: &Tokenize) -> Vec<TokenPiece> {
        let options = EncodeOptions {
            add_special: request.add_special,
            parse_special: request.parse_special,
        };
        let tokens = self.tokenizer.encode(&request.text, options);
        let piece = |token| TokenPiece {
            token,
            bytes: self
                .tokenizer
                .token_bytes(token)
                .map(|bytes| bytes.to_vec())
                .unwrap_or_default(),
        };
        tokens.into_iter().map(piece).collect()
    }

    /// The text of tokens.
    pub fn detokenize(&self, request: &Detokenize) -> Result<String, Fault> {
        let most = self.tokenizer.vocab_size();
        if let Some(token) = request.tokens.iter().find(|&&t| t as usize >= most) {
            return Err(Fault::bad_request(format_args!(
                "token {token} is not in the vocabulary of {most}"
            )));
        }
        let options = DecodeOptions { show_special: true };
        Ok(self.tokenizer.decode(&request.tokens, options))
    }
}
