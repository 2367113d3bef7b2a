//! Fill-in-the-middle prompts.

use super::refused;
use crate::fault::{Fault, FaultKind};
use crate::model_profile::ModelProfile;
use crate::prompt::{self, RenderedPrompt};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_tokenizer::EncodeOptions;

/// The prompt of a model with fill-in-the-middle tokens: other files, prefix, suffix, middle.
pub(super) fn infill(
    profile: &ModelProfile,
    prefix: &str,
    suffix: &str,
    files: &[(String, String)],
) -> Result<RenderedPrompt, Fault> {
    let tokenizer = &*profile.tokenizer;
    let special = tokenizer.special();
    let (Some(before), Some(after)) = (special.fim_pre, special.fim_suf) else {
        if let Some(Ok(template)) = &profile.template
            && files.is_empty()
            && let Some(prompt) = template.fill(tokenizer, prefix, suffix)
        {
            return prompt.map_err(|error| refused(&error));
        }
        return Err(Fault::new(
            FaultKind::Unsupported,
            "the model was not trained to fill gaps in a text",
        ));
    };
    let encode = |text: &str| tokenizer.encode(text, EncodeOptions::default());
    let mut tokens = Vec::new();
    for (name, text) in files {
        match special.fim_sep {
            Some(separator) => tokens.push(separator),
            None => tokens.extend(encode("\n\n--- snippet ---\n\n")),
        }
        tokens.extend(encode(&format!("{name}\n{text}")));
    }
    tokens.push(before);
    tokens.extend(encode(prefix));
    tokens.push(after);
    tokens.extend(encode(suffix));
    tokens.extend(special.fim_mid);
    Ok(RenderedPrompt {
        tokens: prompt::begin(tokenizer, tokens),
        text: [prefix, suffix].concat(),
        ..RenderedPrompt::default()
    })
}
