//! Tokenizing and detokenizing.

use crate::Fault;
use crate::model_profile::ModelProfile;
use alloc::string::String;
use alloc::vec::Vec;
use strata_tokenizer::{DecodeOptions, EncodeOptions};

/// A text to tokenize.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokenize {
    /// The model; the default one if `None`.
    pub model: Option<String>,
    /// The text.
    pub text: String,
    /// Add BOS and EOS as the model uses them.
    pub add_special: bool,
    /// Recognize control tokens in the text.
    pub parse_special: bool,
}

/// A token and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPiece {
    /// The token.
    pub token: u32,
    /// The bytes it stands for.
    pub bytes: Vec<u8>,
}

/// A tokenized text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokenized {
    /// Its tokens.
    pub pieces: Vec<TokenPiece>,
    /// The model's context length.
    pub context: usize,
}

/// A tokenizer's description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenizerFacts {
    /// The BOS token.
    pub bos: Option<String>,
    /// The EOS token.
    pub eos: Option<String>,
    /// The token for what is unknown.
    pub unknown: Option<String>,
    /// The padding token.
    pub padding: Option<String>,
    /// Whether BOS is put before a text.
    pub adds_bos: bool,
    /// Whether EOS is put after a text.
    pub adds_eos: bool,
    /// The size of the vocabulary.
    pub vocabulary: usize,
    /// The model's context length.
    pub context: usize,
    /// The chat template.
    pub template: Option<String>,
}

/// Tokens to turn back into text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detokenize {
    /// The model; the default one if `None`.
    pub model: Option<String>,
    /// The tokens.
    pub tokens: Vec<u32>,
}

impl ModelProfile {
    /// Tokenizes a text.
    pub fn tokenize(&self, request: &Tokenize) -> Result<Tokenized, Fault> {
        self.check_tokenized(request.text.len())?;
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
        Ok(Tokenized {
            pieces: tokens.into_iter().map(piece).collect(),
            context: self.context,
        })
    }

    /// Describes the tokenizer; `template` is the source of the chat template.
    pub fn tokenizer_facts(&self, template: Option<String>) -> TokenizerFacts {
        let (special, added) = (self.tokenizer.special(), self.tokenizer.added());
        let text = |token: Option<u32>| {
            let bytes = self.tokenizer.token_bytes(token?)?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        TokenizerFacts {
            bos: text(special.bos),
            eos: text(special.eos),
            unknown: text(special.unk),
            padding: text(special.pad),
            adds_bos: added.bos,
            adds_eos: added.eos,
            vocabulary: self.tokenizer.vocab_size(),
            context: self.context,
            template,
        }
    }

    /// Turns tokens back into text.
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
