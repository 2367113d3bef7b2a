//! What options say of drafting tokens ahead.

use crate::device::Device;
use crate::error::{Error, ErrorKind};
use crate::options::{Drafts, Options};
use strata_engine::Speculation;
use strata_model::NextnUse;

/// Tokens that a draft model drafts at a time where no number is given.
const DRAFT: usize = 8;

impl Options {
    /// How requests draft tokens ahead.
    pub(crate) fn speculation(&self) -> Speculation {
        let max_draft = self.draft_length();
        match (self.drafts, &self.draft) {
            _ if max_draft == 0 => Speculation::Off,
            (Drafts::Given, None) => Speculation::PromptLookup { max_draft },
            (Drafts::Given, Some(_)) => Speculation::DraftModel { max_draft },
            (Drafts::Nextn, _) => Speculation::Nextn { max_draft },
            (Drafts::Auto, _) => Speculation::Auto { max_draft },
        }
    }

    /// Whether the layer that predicts the token after the next is loaded.
    pub(crate) fn nextn(&self) -> Result<NextnUse, Error> {
        let other = match (&self.draft, &self.device, &self.peers) {
            (Some(_), ..) => Some("there is a draft model to draft with"),
            (_, Device::Cuda(_) | Device::Vulkan(_), _) => Some("GPUs do not compute that layer"),
            (_, _, Some(_)) => Some("peers do not compute that layer"),
            _ => None,
        };
        match (self.drafts, other) {
            (Drafts::Given, _) | (Drafts::Auto, Some(_)) => Ok(NextnUse::Omit),
            (Drafts::Auto, None) if self.device == Device::Auto => Ok(NextnUse::Omit),
            (Drafts::Auto, None) => Ok(NextnUse::IfPresent),
            (Drafts::Nextn, None) => Ok(NextnUse::Require),
            (Drafts::Nextn, Some(problem)) => {
                let sentence = format!("cannot draft with the model's own layer (MTP): {problem}");
                Err(Error::new(ErrorKind::InvalidArgument, sentence))
            }
        }
    }

    pub(crate) fn draft_length(&self) -> usize {
        let asked = self.draft.is_some() || self.drafts != Drafts::Given;
        if asked && self.max_draft == 0 {
            return DRAFT;
        }
        self.max_draft
    }
}
