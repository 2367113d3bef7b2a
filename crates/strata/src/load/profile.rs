//! What requests see of a model.

use super::checked_model::CheckedModel;
use super::preset::TemplateText;
use crate::error::Error;
use std::sync::Arc;
use strata_chat::ModelProfile;
use strata_model::spec::Role;
use strata_tokenizer::Tokenizer;

/// What requests see of a model.
pub fn profile(checked: &CheckedModel<'_>) -> Result<ModelProfile, Error> {
    let tokenizer: Arc<Tokenizer> = checked.shared_tokenizer()?;
    let jinja = match checked.template() {
        Some(TemplateText::Jinja(source)) => Some(source.as_str()),
        _ => None,
    };
    let mut profile = ModelProfile::new(tokenizer, jinja, checked.context);
    if let Some(TemplateText::Go(source)) = checked.template() {
        profile = profile.with_go_template(source);
    }
    if let Some(preset) = checked.preset() {
        let parameters = preset.parameters.clone();
        profile.sampling = parameters.sampling;
        profile.stop = parameters.stop;
        profile.max_tokens = parameters.max_tokens;
        profile.system = preset.system.clone().filter(|text| !text.is_empty());
        profile.messages = preset.messages.clone();
    }
    let config = checked.blueprint.config();
    profile.encoder = config.spec.role == Role::Encoder;
    profile.pooling = config.pooling.unwrap_or(profile.pooling);
    Ok(profile)
}
