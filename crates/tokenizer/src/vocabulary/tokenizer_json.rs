//! `tokenizer.json` of the `tokenizers` library: BPE, Unigram and WordPiece.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::error::VocabularyError;
use super::texts::Texts;
use super::{Added, Algorithm, Token, Vocabulary, json, pre_tokenizer};
use crate::table::byte;
use crate::{MAX_TOKENS, TokenKind};

/// What stands for a space.
const SPACE: &str = "▁";
/// Where the merges of a vocabulary do not lead to a token, spelling must not either.
const UNREACHABLE: f32 = -1e9;

/// A parsed file.
pub(super) struct TokenizerJson {
    pub(super) algorithm: Algorithm,
    pub(super) added: Vec<Added>,
    file: File,
}

#[derive(serde::Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    model: Model,
}

#[derive(serde::Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: Vocab,
    #[serde(default)]
    merges: Merges,
    #[serde(default)]
    unk_token: Option<String>,
    #[serde(default)]
    unk_id: Option<u64>,
    #[serde(default)]
    byte_fallback: Option<bool>,
    #[serde(default)]
    ignore_merges: Option<bool>,
}

/// Tokens with their ids, or in their order with scores.
#[derive(Default)]
struct Vocab {
    texts: Texts,
    ids: Vec<u64>,
    scores: Vec<f32>,
}

/// Both sides of each merge with a space between.
#[derive(Default)]
struct Merges(Texts);

/// Reads the file and sees what kind of tokenizer it is.
pub(super) fn read(bytes: &[u8]) -> Result<TokenizerJson, VocabularyError> {
    let mut file: File = json("tokenizer.json", bytes)?;
    let listed = !file.model.vocab.scores.is_empty();
    let kind = file.model.kind.as_deref();
    let algorithm = match kind.unwrap_or(if listed { "Unigram" } else { "BPE" }) {
        "BPE" if is_byte_level(&file.pre_tokenizer) => Algorithm::Bpe,
        "BPE" => Algorithm::Spm,
        "Unigram" => Algorithm::Unigram,
        "WordPiece" => Algorithm::WordPiece,
        other => return Err(VocabularyError::Model { name: other.into() }),
    };
    let added = core::mem::take(&mut file.added_tokens);
    Ok(TokenizerJson {
        algorithm,
        added,
        file,
    })
}

/// The special tokens that the file's template puts in front of a text and behind it, if it has a template.
pub(super) fn around(bytes: &[u8]) -> Result<Option<[Option<String>; 2]>, VocabularyError> {
    #[derive(serde::Deserialize)]
    struct Ends {
        #[serde(default)]
        post_processor: Value,
    }
    let ends: Ends = json("tokenizer.json", bytes)?;
    let processors = ends.post_processor.get("processors");
    let list = processors.and_then(Value::as_array).map(Vec::as_slice);
    let all = list.unwrap_or(core::slice::from_ref(&ends.post_processor));
    let is_template =
        |step: &&Value| step.get("type").and_then(Value::as_str) == Some("TemplateProcessing");
    let pair = |step: &Value| {
        let kind = step.get("type")?.as_str()?;
        let token = |key| Some(step.get(key)?.get(0)?.as_str()?.to_owned());
        matches!(kind, "BertProcessing" | "RobertaProcessing").then(|| [token("cls"), token("sep")])
    };
    if let Some(around) = all.iter().find_map(pair) {
        return Ok(Some(around));
    }
    let Some(template) = all.iter().find(is_template) else {
        // Without a template nothing is put around a text.
        return Ok(Some([None, None]));
    };
    let single = template.get("single").and_then(Value::as_array);
    let single = single.map_or(&[][..], Vec::as_slice);
    let special = |step: Option<&Value>| {
        let id = step?.get("SpecialToken")?.get("id")?;
        id.as_str().map(ToOwned::to_owned)
    };
    Ok(Some([special(single.first()), special(single.last())]))
}

fn is_byte_level(pre_tokenizer: &Value) -> bool {
    let kind = |step: &Value| step.get("type").and_then(Value::as_str) == Some("ByteLevel");
    let steps = pre_tokenizer.get("pretokenizers").and_then(Value::as_array);
    kind(pre_tokenizer) || steps.is_some_and(|steps| steps.iter().any(kind))
}

impl TokenizerJson {
    pub(super) fn into_vocabulary(self) -> Result<Vocabulary, VocabularyError> {
        let TokenizerJson {
            algorithm,
            added,
            file,
        } = self;
        let mut vocabulary = Vocabulary::new(algorithm);
        for token in tokens(&file.model, algorithm)? {
            match token {
                Some(token) => vocabulary.push(&token.text, token.score, token.kind)?,
                None => vocabulary.pad(vocabulary.len() + 1)?,
            }
        }
        if algorithm == Algorithm::Unigram {
            for ((score, text), kind) in vocabulary
                .scores
                .iter_mut()
                .zip(vocabulary.tokens.iter())
                .zip(&mut vocabulary.kinds)
            {
                if *kind == TokenKind::Normal
                    && byte(text).is_some()
                    && file.model.byte_fallback == Some(true)
                {
                    *kind = TokenKind::Byte;
                }
                if !score.is_finite() {
                    *score = 0.0;
                }
            }
        }
        vocabulary.add(&added)?;
        let steps = Steps::new(&file);
        match algorithm {
            Algorithm::Bpe => {
                let whole = file.model.ignore_merges.unwrap_or(false);
                vocabulary.pre = pre_tokenizer::name(&file.pre_tokenizer, whole)?;
                vocabulary.merges = file.model.merges.0;
            }
            Algorithm::Spm => {
                rank(&mut vocabulary, &file.model.merges.0)?;
                vocabulary
                    .flags
                    .insert("add_space_prefix", steps.space_prefix);
            }
            Algorithm::Unigram => {
                vocabulary.charsmap = steps.charsmap()?;
                vocabulary
                    .flags
                    .insert("add_space_prefix", steps.space_prefix);
                vocabulary
                    .flags
                    .insert("remove_extra_whitespaces", steps.collapse);
            }
            Algorithm::WordPiece => {
                if let Some(lower) = steps.lowercase {
                    vocabulary.flags.insert("normalizer.lowercase", lower);
                }
                if let Some(strip) = steps.strip_accents {
                    vocabulary.flags.insert("normalizer.strip_accents", strip);
                }
            }
        }
        Ok(vocabulary)
    }
}

/// The tokens by id; `None` where an id has none.
fn tokens(model: &Model, algorithm: Algorithm) -> Result<Vec<Option<Token>>, VocabularyError> {
    let vocab = &model.vocab;
    let count = vocab.texts.len();
    // Ids may have gaps, but not so many that a small file makes a large vocabulary.
    let limit = (2 * count + 65_536).min(MAX_TOKENS) as u64;
    let mut tokens = Vec::new();
    for (index, text) in vocab.texts.iter().enumerate() {
        let id = vocab.ids.get(index).copied().unwrap_or(index as u64);
        if id >= limit {
            return Err(VocabularyError::TooManyTokens { id });
        }
        if tokens.len() <= id as usize {
            tokens.resize_with(id as usize + 1, || None);
        }
        let unknown = model.unk_token.as_deref() == Some(text) || model.unk_id == Some(id);
        let fallback = model.byte_fallback == Some(true) && byte(text).is_some();
        let kind = match algorithm {
            _ if unknown => TokenKind::Unknown,
            Algorithm::Spm if fallback => TokenKind::Byte,
            _ => TokenKind::Normal,
        };
        tokens[id as usize] = Some(Token {
            text: match algorithm {
                Algorithm::WordPiece => word_piece(text),
                _ => text.into(),
            },
            score: vocab.scores.get(index).copied().unwrap_or(0.0),
            kind,
        });
    }
    Ok(tokens)
}

/// GGUF marks where words begin, WordPiece where they go on.
fn word_piece(text: &str) -> String {
    match text.strip_prefix("##") {
        _ if text.starts_with('[') && text.ends_with(']') => text.into(),
        Some(rest) => rest.into(),
        None => [SPACE, text].concat(),
    }
}

/// Gives tokens the scores that SentencePiece would: the sooner they are merged, the higher.
fn rank(vocabulary: &mut Vocabulary, merges: &Texts) -> Result<(), VocabularyError> {
    let ids: BTreeMap<&str, usize> = vocabulary.tokens.iter().zip(0..).collect();
    let mut scores = alloc::vec![UNREACHABLE; vocabulary.scores.len()];
    for (order, merge) in merges.iter().enumerate() {
        let (left, right) = halves(merge).ok_or_else(|| VocabularyError::Merge {
            merge: merge[..merge.floor_char_boundary(80)].into(),
        })?;
        let joined = [left, right].concat();
        if let Some(score) = ids.get(joined.as_str()).and_then(|&id| scores.get_mut(id))
            && *score == UNREACHABLE
        {
            *score = -(order as f32) - 1.0;
        }
    }
    for ((score, text), kind) in scores
        .iter_mut()
        .zip(vocabulary.tokens.iter())
        .zip(&vocabulary.kinds)
    {
        // Single characters need no merge.
        if *kind != TokenKind::Normal || text.chars().count() == 1 {
            *score = match *score {
                UNREACHABLE => 0.0,
                score => score,
            };
        }
    }
    vocabulary.scores = scores;
    Ok(())
}

/// The two tokens of a merge. A token may begin with a space.
fn halves(merge: &str) -> Option<(&str, &str)> {
    let first = merge.chars().next().map_or(0, char::len_utf8);
    let at = first + merge.get(first..)?.find(' ')?;
    Some((merge.get(..at)?, merge.get(at + 1..)?))
}

/// What normalizers and pre-tokenizers do, as far as GGUF can say it.
struct Steps<'f> {
    space_prefix: bool,
    collapse: bool,
    charsmap: Option<&'f str>,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
}

impl<'f> Steps<'f> {
    fn new(file: &'f File) -> Self {
        let mut steps = Steps {
            space_prefix: false,
            collapse: false,
            charsmap: None,
            lowercase: None,
            strip_accents: None,
        };
        steps.look(&file.normalizer);
        steps.look(&file.pre_tokenizer);
        steps
    }

    fn look(&mut self, step: &'f Value) {
        let text = |key: &str| step.get(key).and_then(Value::as_str);
        let truth = |key: &str| step.get(key).and_then(Value::as_bool);
        match text("type").unwrap_or("") {
            "Sequence" => {
                for key in ["normalizers", "pretokenizers"] {
                    let list = step.get(key).and_then(Value::as_array);
                    list.into_iter()
                        .flatten()
                        .for_each(|inner| self.look(inner));
                }
            }
            "Prepend" if text("prepend") == Some(SPACE) => self.space_prefix = true,
            "Metaspace" => {
                let scheme = text("prepend_scheme");
                self.space_prefix |= match scheme {
                    Some(scheme) => scheme != "never",
                    None => truth("add_prefix_space").unwrap_or(true),
                };
            }
            "Precompiled" => self.charsmap = text("precompiled_charsmap"),
            "Replace" => {
                let pattern = step.get("pattern").and_then(|p| p.get("Regex"));
                let runs = pattern.and_then(Value::as_str) == Some(" {2,}");
                self.collapse |= runs;
            }
            "WhitespaceSplit" => self.collapse = true,
            "BertNormalizer" => {
                self.lowercase = truth("lowercase");
                self.strip_accents = truth("strip_accents");
            }
            "Lowercase" => self.lowercase = Some(true),
            "StripAccents" => self.strip_accents = Some(true),
            _ => {}
        }
    }

    fn charsmap(&self) -> Result<Vec<u8>, VocabularyError> {
        match self.charsmap {
            None => Ok(Vec::new()),
            Some(text) => base64(text).ok_or(VocabularyError::Charsmap),
        }
    }
}

/// Decodes base64 with padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tokens;
        impl<'de> Visitor<'de> for Tokens {
            type Value = Vocab;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from tokens to ids, or a list of tokens and scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
                let mut vocab = Vocab::default();
                while let Some((text, id)) = map.next_entry::<String, u64>()? {
                    vocab.push::<A::Error>(&text)?;
                    vocab.ids.push(id);
                }
                Ok(vocab)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocab, A::Error> {
                let mut vocab = Vocab::default();
                while let Some((text, score)) = list.next_element::<(String, f64)>()? {
                    vocab.push::<A::Error>(&text)?;
                    vocab.scores.push(score as f32);
                }
                Ok(vocab)
            }
        }
        deserializer.deserialize_any(Tokens)
    }
}

impl Vocab {
    fn push<E: Error>(&mut self, text: &str) -> Result<(), E> {
        if self.texts.len() >= MAX_TOKENS {
            return Err(E::custom("too many tokens"));
        }
        self.texts.push(text).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Merges;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of merges")
            }

            fn visit_unit<E: Error>(self) -> Result<Merges, E> {
                Ok(Merges::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merges, A::Error> {
                let mut texts = Texts::default();
                while let Some(merge) = list.next_element::<Merge>()? {
                    if texts.len() >= MAX_TOKENS {
                        return Err(A::Error::custom("too many merges"));
                    }
                    texts.push(&merge.0).map_err(A::Error::custom)?;
                }
                Ok(Merges(texts))
            }
        }
        deserializer.deserialize_any(List)
    }
}

/// A merge as one text with a space, or as a list of two.
struct Merge(String);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sides;
        impl<'de> Visitor<'de> for Sides {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("two tokens")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Merge, E> {
                Ok(Merge(text.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merge, A::Error> {
                let mut next = || list.next_element::<String>();
                let (left, right) = (next()?, next()?);
                let (Some(left), Some(right)) = (left, right) else {
                    return Err(A::Error::custom("a merge of less than two tokens"));
                };
                if list.next_element::<IgnoredAny>()?.is_some() {
                    return Err(A::Error::custom("a merge of more than two tokens"));
                }
                Ok(Merge([left.as_str(), " ", right.as_str()].concat()))
            }
        }
        deserializer.deserialize_any(Sides)
    }
}
