//! The tokens that Whisper's prompts and rules are made of.

use super::languages;
use crate::error::{Error, ErrorKind};
use strata_tokenizer::{EncodeOptions, Tokenizer};
use strata_weights::{GgufError, Metadata};

/// Whisper's special tokens, and the lists of its rules.
#[derive(Clone, Debug)]
pub(super) struct SpeechTokens {
    /// Ends a text. Tokens of text come before it.
    pub(super) end: u32,
    /// Begins a transcript.
    pub(super) start: u32,
    /// Languages by their codes; none for models that know only English.
    pub(super) languages: Vec<(String, u32)>,
    pub(super) translate: u32,
    pub(super) transcribe: u32,
    /// Begins the text that came before.
    pub(super) previous: u32,
    pub(super) no_speech: u32,
    /// Asks for text without stamps.
    pub(super) no_stamps: u32,
    /// Stamps are this and those after it, 20 ms apart.
    pub(super) first_stamp: u32,
    /// Never written.
    pub(super) suppressed: Vec<u32>,
    /// Not written first.
    pub(super) suppressed_first: Vec<u32>,
    /// How many stamps after 0 the first may be.
    pub(super) first_limit: usize,
}

/// What a model must have: a second is the latest for the first stamp.
const FIRST_LIMIT: usize = 50;

/// Tokens of the models that know only English.
const ENGLISH_VOCABULARY: usize = 51_864;

impl SpeechTokens {
    pub(super) fn new(
        metadata: &Metadata<'_>,
        tokenizer: &Tokenizer,
        vocabulary: usize,
    ) -> Result<Self, Error> {
        let find = |names: &[&str]| {
            let found = names.iter().find_map(|name| tokenizer.token_id(name));
            found
                .filter(|&id| (id as usize) < vocabulary)
                .ok_or_else(|| {
                    let name = names[0];
                    Error::new(
                        ErrorKind::InvalidModel,
                        format_args!("the model's vocabulary has no token {name}"),
                    )
                })
        };
        let (start, translate) = (find(&["<|startoftranscript|>"])?, find(&["<|translate|>"])?);
        let damaged = |error: GgufError| Error::new(ErrorKind::InvalidModel, error);
        let multilingual = metadata.bool("whisper.multilingual").map_err(damaged)?;
        let languages = if multilingual.unwrap_or(vocabulary != ENGLISH_VOCABULARY) {
            let between = start.saturating_add(1)..translate;
            let code = |id: u32| {
                let text = tokenizer.token_text(id)?;
                let code = text.strip_prefix("<|")?.strip_suffix("|>")?;
                Some((code.to_owned(), id))
            };
            between.filter_map(code).collect()
        } else {
            Vec::new()
        };
        let (transcribe, previous) = (find(&["<|transcribe|>"])?, find(&["<|startofprev|>"])?);
        let no_stamps = find(&["<|notimestamps|>"])?;
        let no_speech = find(&["<|nospeech|>", "<|nocaptions|>"])?;
        let end = find(&["<|endoftext|>"])?;
        let list = |key: &str| -> Result<Option<Vec<u32>>, Error> {
            let array = metadata.array(key).map_err(damaged)?;
            let numbers = array.and_then(|array| array.integers());
            let known = |number: i128| {
                let number = u32::try_from(number).ok()?;
                ((number as usize) < vocabulary).then_some(number)
            };
            Ok(numbers.map(|numbers| numbers.filter_map(known).collect()))
        };
        let mut suppressed = list("whisper.suppress_tokens")?.unwrap_or_default();
        suppressed.extend([start, translate, transcribe, previous, no_speech]);
        suppressed.extend(tokenizer.token_id("<|startoflm|>"));
        let suppressed_first = match list("whisper.begin_suppress_tokens")? {
            Some(list) => list,
            None => {
                let mut list = tokenizer.encode(" ", EncodeOptions::default());
                list.push(end);
                list
            }
        };
        let first_limit = metadata.u32("whisper.first_stamp_limit").map_err(damaged)?;
        Ok(Self {
            end,
            start,
            languages,
            translate,
            transcribe,
            previous,
            no_speech,
            no_stamps,
            first_stamp: no_stamps + 1,
            suppressed,
            suppressed_first,
            first_limit: first_limit.map_or(FIRST_LIMIT, |limit| limit as usize),
        })
    }

    /// The token of a language, by its code or its name.
    pub(super) fn language(&self, asked: &str) -> Result<Option<(&str, u32)>, Error> {
        let code = languages::code(asked);
        if self.languages.is_empty() {
            return match code.as_str() {
                "en" => Ok(None),
                _ => Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format_args!("the model knows English only, not {asked:?}"),
                )),
            };
        }
        let found = self.languages.iter().find(|(known, _)| *known == code);
        let (code, id) = found.ok_or_else(|| {
            let sentence = format_args!("the model knows no language {asked:?}");
            Error::new(ErrorKind::InvalidArgument, sentence)
                .with_hint("languages are named by their codes: en, de, ja")
        })?;
        Ok(Some((code, *id)))
    }
}
