//! Calls about a model's words, which need no engine.

use crate::card::Card;
use crate::request::Prepared;
use alloc::string::String;
use alloc::vec::Vec;
use strata_tokenizer::{DecodeOptions, EncodeOptions};
use strata_wire::call::{Detokenize, Rendered, TokenPiece, Tokenize};
use strata_wire::{Fault, FaultKind};

impl Card {
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

impl Prepared {
    /// What the model would be given.
    pub fn rendered(self) -> Rendered {
        let mut rendered = Rendered::default();
        for prompt in self.prompts {
            rendered.text.push_str(&prompt.text);
            rendered.tokens.extend(prompt.tokens);
        }
        rendered
    }
}

/// There is no model of this name.
pub fn unknown_model(name: &str) -> Fault {
    let problem = format_args!("model {name:?} not found; GET /v1/models lists those there are");
    Fault {
        place: Some("model".into()),
        ..Fault::new(FaultKind::NotFound, problem)
    }
}
