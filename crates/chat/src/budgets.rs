//! What a request may make a model's front do: how much text is read, rendered and tokenized at most.
//!
//! A prompt that cannot fit the context is refused by its length, before it is tokenized.

use crate::fault::{Fault, FaultKind};
use crate::model_profile::ModelProfile;

/// Values of a JSON body: strings, numbers, lists, objects.
pub const VALUES_OF_A_BODY: usize = 1 << 20;
/// Messages of a conversation, beside those that a longer context has room for.
pub const MESSAGES: usize = 8192;
/// Prompts of a completion, texts to embed, documents to rank.
pub const INPUTS: usize = 2048;
/// Bytes of a text that is only tokenized, beside eight for each position of the context.
pub const TOKENIZED_BYTES: usize = 1 << 20;
/// Bytes of an error's message.
pub const BYTES_OF_AN_ERROR: usize = 2048;

/// Bytes of text that tokens may stand for where a vocabulary has only short ones: some tokenizers drop spaces.
const SHORTEST_LONGEST: usize = 16;
/// What a template may add to messages that fit.
const SLACK: usize = 4096;

impl ModelProfile {
    /// The most bytes of text that so many positions can have.
    pub(crate) fn text_room(&self, positions: usize) -> usize {
        let longest = self.tokenizer.longest_token().max(SHORTEST_LONGEST);
        positions.saturating_mul(longest).saturating_add(SLACK)
    }

    /// Refuses a text that cannot fit so many positions.
    pub(crate) fn check_text(&self, bytes: usize, positions: usize) -> Result<(), Fault> {
        if bytes <= self.text_room(positions) {
            return Ok(());
        }
        let longest = self.tokenizer.longest_token().max(SHORTEST_LONGEST);
        let kind = FaultKind::ContextExceeded {
            // At least.
            prompt_tokens: bytes / longest,
            context: positions,
        };
        let problem = format_args!(
            "the prompt has {bytes} bytes, more than {} tokens, and the context has room for {positions}",
            bytes / longest
        );
        Err(Fault::new(kind, problem))
    }

    /// Refuses more messages than a context could need.
    pub(crate) fn check_messages(&self, messages: usize) -> Result<(), Fault> {
        let most = self.context.max(MESSAGES);
        if messages <= most {
            return Ok(());
        }
        let problem = format_args!("messages: there are {messages}; at most {most} are allowed");
        Err(Fault::new(FaultKind::TooLarge, problem))
    }

    /// Refuses a text to tokenize that is longer than any use has for it.
    pub(crate) fn check_tokenized(&self, bytes: usize) -> Result<(), Fault> {
        let most = self.context.saturating_mul(8).max(TOKENIZED_BYTES);
        if bytes <= most {
            return Ok(());
        }
        let problem = format_args!("the text has {bytes} bytes; at most {most} are tokenized");
        Err(Fault::new(FaultKind::TooLarge, problem))
    }
}

/// Refuses more inputs than one request may have.
pub(crate) fn check_inputs(inputs: usize) -> Result<(), Fault> {
    if inputs <= INPUTS {
        return Ok(());
    }
    let problem = format_args!("there are {inputs} inputs; a request may have {INPUTS}");
    Err(Fault::new(FaultKind::TooLarge, problem))
}
