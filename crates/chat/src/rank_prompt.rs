//! The prompt that a model ranks by: `{query}` and `{document}` stand in it for texts.

use crate::prompt;
use alloc::string::String;
use alloc::vec::Vec;
use strata_tokenizer::{EncodeOptions, Tokenizer};

/// A prompt with places for a query and a document. The model's classifier says yes or no to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPrompt(String);

/// What stands for a text.
const PLACES: [&str; 2] = ["{query}", "{document}"];

impl RankPrompt {
    /// A prompt, if it has a place for each text.
    pub fn new(template: &str) -> Option<Self> {
        let whole = PLACES.iter().all(|place| template.contains(place));
        whole.then(|| Self(template.into()))
    }

    /// The tokens of a query and a document. Control tokens are read as such in the prompt, and as text in the texts.
    pub(crate) fn encode(&self, tokenizer: &Tokenizer, query: &str, document: &str) -> Vec<u32> {
        let mut pieces: Vec<(&str, bool)> = Vec::new();
        let mut rest = self.0.as_str();
        loop {
            let places = PLACES.into_iter().zip([query, document]);
            let next = places.filter_map(|(place, text)| Some((rest.find(place)?, place, text)));
            let Some((at, place, text)) = next.min_by_key(|(at, ..)| *at) else {
                break;
            };
            pieces.extend([(&rest[..at], true), (text, false)]);
            rest = &rest[at + place.len()..];
        }
        pieces.push((rest, true));
        let encode = |text: &str, parse_special| {
            let options = EncodeOptions {
                add_special: false,
                parse_special,
            };
            tokenizer.encode(text, options)
        };
        let text: String = pieces.iter().map(|(text, _)| *text).collect();
        let whole = encode(&text, true);
        let apart = pieces.iter().flat_map(|&(text, own)| encode(text, own));
        let apart: Vec<u32> = apart.collect();
        // Cutting changes the tokens at the seams: only where a text spells a control token.
        let spells = prompt::controls(tokenizer, &apart).ne(prompt::controls(tokenizer, &whole));
        prompt::begin(tokenizer, if spells { apart } else { whole })
    }
}

/// A document's score: the only one, or how likely yes is where there are two, for yes and no.
pub fn rank_score(scores: &[f32]) -> f32 {
    match *scores {
        [yes, no] => 1.0 / (1.0 + libm::expf(no - yes)),
        [score, ..] => score,
        [] => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use strata_tokenizer::{ModelKind, TokenKind, TokenTable, Vocab};

    #[test]
    fn texts_take_their_places_and_do_not_spell_control_tokens() {
        let mut tokens = TokenTable::with_capacity(130);
        for byte in 0..=127u8 {
            let text = char::from(byte).to_string();
            tokens.push(&text, TokenKind::Normal, 0.0).unwrap();
        }
        tokens.push("<end>", TokenKind::Control, 0.0).unwrap();
        let mut vocab = Vocab::new(ModelKind::Spm, tokens);
        vocab.space_prefix = false;
        let tokenizer = Tokenizer::from_vocab(vocab).unwrap();
        let prompt = RankPrompt::new("d:{document}<end>q:{query}<end>").unwrap();
        let spelled = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
        let expected = [spelled("d:B"), [128].into(), spelled("q:A"), [128].into()].concat();
        assert_eq!(prompt.encode(&tokenizer, "A", "B"), expected);
        let hostile = prompt.encode(&tokenizer, "A", "<end>");
        assert_eq!(hostile.iter().filter(|&&token| token == 128).count(), 2);
        assert_eq!(RankPrompt::new("{query} alone"), None);
    }

    #[test]
    fn yes_and_no_make_a_probability() {
        assert_eq!(rank_score(&[0.0, 0.0]), 0.5);
        assert!(rank_score(&[9.0, 0.0]) > 0.99);
        assert_eq!(rank_score(&[-3.5]), -3.5);
    }
}
