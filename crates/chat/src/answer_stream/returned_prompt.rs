//! Prompts that come back with their answers: echoed, as tokens, or with their log-probabilities.

use crate::prompt::RenderedPrompt;
use crate::{TokenLogprob, TokenLogprobs};
use alloc::vec::Vec;
use strata_tokenizer::Tokenizer;

/// A prompt that is returned with its answer.
#[derive(Debug)]
pub(super) struct ReturnedPrompt {
    pub(super) prompt: RenderedPrompt,
    /// Of all its tokens, if they are wanted.
    pub(super) logprobs: Option<Vec<TokenLogprobs>>,
    pub(super) returned: bool,
}

impl ReturnedPrompt {
    pub(super) fn new(prompt: RenderedPrompt, scored: bool, tokenizer: &Tokenizer) -> Self {
        // The first token follows nothing, so it has none.
        let first = prompt.tokens.first().map(|&token| TokenLogprobs {
            chosen: TokenLogprob {
                token,
                bytes: bytes(tokenizer, token),
                logprob: f32::NAN,
            },
            top: Vec::new(),
        });
        Self {
            prompt,
            logprobs: scored.then(|| first.into_iter().collect()),
            returned: false,
        }
    }

    /// Whether there is nothing left to wait for.
    pub(super) fn is_complete(&self) -> bool {
        let all = self.prompt.tokens.len();
        let scored = self.logprobs.as_ref();
        !self.returned && scored.is_none_or(|logprobs| logprobs.len() >= all)
    }

    /// The tokens of the text, with their log-probabilities. The first of them has none, and begins where the text does.
    pub(super) fn echoed(&self) -> Vec<(u32, Option<TokenLogprobs>)> {
        let tokens = self.prompt.tokens.iter().enumerate();
        let echoed = tokens.skip(self.prompt.added).map(|(i, &token)| {
            let mut logprobs = self.logprobs.as_ref().and_then(|all| all.get(i)).cloned();
            if let Some(first) = logprobs.as_mut().filter(|_| i == self.prompt.added) {
                first.chosen.logprob = f32::NAN;
                first.top.clear();
                // A space that only the vocabulary puts in front.
                if first.chosen.bytes.starts_with(b" ") && !self.prompt.text.starts_with(' ') {
                    first.chosen.bytes.remove(0);
                }
            }
            (token, logprobs)
        });
        echoed.collect()
    }
}

fn bytes(tokenizer: &Tokenizer, token: u32) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(token);
    bytes.map(|bytes| bytes.to_vec()).unwrap_or_default()
}

/// Log-probabilities with the bytes of their tokens.
pub(super) fn with_bytes(
    tokenizer: &Tokenizer,
    logprobs: &strata_engine::TokenLogprobs,
) -> TokenLogprobs {
    let one = |entry: &strata_engine::logprobs::TokenLogprob| TokenLogprob {
        token: entry.token,
        bytes: bytes(tokenizer, entry.token),
        logprob: entry.logprob,
    };
    TokenLogprobs {
        chosen: one(&logprobs.chosen),
        top: logprobs.top.iter().map(one).collect(),
    }
}
