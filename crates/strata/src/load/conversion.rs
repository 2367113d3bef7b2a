//! What a converter writes must open: the loader looks at it before it is written.

use super::checked_model::parse_failure;
use super::model_file::{bad_folder, bad_model};
use super::parsed_model::{ContextChoice, ParsedModel, TokenizerUse};
use crate::error::Error;
use std::path::Path;
use strata_convert::{Outline, Plan};
use strata_model::Whisper;
use strata_tokenizer::vocabulary::Vocabulary;

/// Refuses a plan whose file could not be run afterwards, with the sentence that running the folder would fail with.
/// A plan without a vocabulary is for tokens given as numbers.
pub fn check_conversion(
    source: &Path,
    plan: &Plan<'_, '_>,
    vocabulary: Option<&Vocabulary>,
) -> Result<(), Error> {
    let tokenizer = match vocabulary {
        Some(_) => TokenizerUse::Required,
        None => TokenizerUse::Optional,
    };
    let fail = |error| bad_folder(source, &error);
    let outline = Outline::new(plan).map_err(fail)?;
    let file = outline.parse().map_err(fail)?;
    let arch = file.metadata().str("general.architecture");
    if arch.is_ok_and(|arch| arch == Some("whisper")) {
        let checked = Whisper::check(&file);
        return checked.map(drop).map_err(|error| bad_model(source, error));
    }
    ParsedModel::new(&file, ContextChoice::default(), tokenizer)
        .map(drop)
        .map_err(|error| parse_failure(source, error))
}
