//! Vocabularies as Hugging Face publishes them, and the GGUF metadata that they become.
//!
//! `tokenizer.json` is read, or SentencePiece's `tokenizer.model`; `tokenizer_config.json`, `generation_config.json` and
//! `chat_template.jinja` add which tokens have a role and how a chat is written.

mod error;
mod pre_tokenizer;
mod roles;
mod sentencepiece;
mod texts;
mod tokenizer_json;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};
use strata_weights::gguf::{Builder, WriteError};

pub use error::VocabularyError;

use crate::{MAX_TOKENS, TokenKind};
use texts::Texts;

/// The most bytes of a file; the largest published one has 34 million.
pub const MAX_FILE: usize = 128 << 20;
/// The most bytes of all texts together.
pub const MAX_TEXT: usize = 64 << 20;

/// The score of tokens that only a list of added tokens has, as llama.cpp writes it.
const ADDED_SCORE: f32 = -1000.0;
/// The score of tokens that fill a gap.
const PADDING_SCORE: f32 = -10_000.0;

/// The files of a folder, those that are there.
#[derive(Copy, Clone, Debug, Default)]
pub struct Files<'a> {
    /// `tokenizer.json`.
    pub tokenizer_json: Option<&'a [u8]>,
    /// `tokenizer.model`.
    pub sentencepiece: Option<&'a [u8]>,
    /// `tokenizer_config.json`.
    pub tokenizer_config: Option<&'a [u8]>,
    /// `generation_config.json`.
    pub generation_config: Option<&'a [u8]>,
    /// `config.json`.
    pub config: Option<&'a [u8]>,
    /// `chat_template.jinja`.
    pub chat_template: Option<&'a [u8]>,
}

/// The algorithm, as GGUF names it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Algorithm {
    Spm,
    Bpe,
    WordPiece,
    Unigram,
}

/// A vocabulary, ready to be written.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    algorithm: Algorithm,
    pre: &'static str,
    tokens: Texts,
    scores: Vec<f32>,
    kinds: Vec<TokenKind>,
    merges: Texts,
    charsmap: Vec<u8>,
    /// Keys after `tokenizer.ggml.`.
    ids: BTreeMap<&'static str, u32>,
    flags: BTreeMap<&'static str, bool>,
    chat_template: Option<String>,
    named_templates: Vec<(String, String)>,
}

/// A token while the order of ids is not known yet.
struct Token {
    text: String,
    score: f32,
    kind: TokenKind,
}

impl Vocabulary {
    /// Reads a folder's vocabulary; `None` if it has none.
    pub fn read(files: &Files<'_>) -> Result<Option<Vocabulary>, VocabularyError> {
        let json = match files.tokenizer_json {
            Some(bytes) => Some(tokenizer_json::read(check("tokenizer.json", bytes)?)?),
            None => None,
        };
        let pieces = match (files.sentencepiece, &json) {
            // The pieces have true scores; but a Unigram of tokenizer.json may number its tokens otherwise.
            (Some(bytes), None) => Some(bytes),
            (Some(bytes), Some(json)) if json.algorithm == Algorithm::Spm => Some(bytes),
            _ => None,
        };
        let settings = Settings::read(files)?;
        let mut vocabulary = match (pieces, json) {
            (Some(bytes), json) => {
                let mut vocabulary = sentencepiece::read(check("tokenizer.model", bytes)?)?;
                let added = json.map_or_else(Vec::new, |json| json.added);
                vocabulary.add(&added)?;
                vocabulary
            }
            (None, Some(json)) => json.into_vocabulary()?,
            (None, None) => return Ok(None),
        };
        vocabulary.add(&settings.added()?)?;
        vocabulary.pad(settings.vocab_size())?;
        if vocabulary.tokens.is_empty() {
            return Err(VocabularyError::Empty);
        }
        roles::assign(&mut vocabulary, &settings);
        vocabulary.read_templates(files, &settings);
        Ok(Some(vocabulary))
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Writes the vocabulary as GGUF metadata.
    pub fn write(&self, builder: &mut Builder) -> Result<(), WriteError> {
        let key = |name: &str| ["tokenizer.ggml.", name].concat();
        let model = match self.algorithm {
            Algorithm::Spm => "llama",
            Algorithm::Bpe => "gpt2",
            Algorithm::WordPiece => "bert",
            Algorithm::Unigram => "t5",
        };
        builder.set(&key("model"), model)?;
        builder.set(&key("pre"), self.pre)?;
        builder.set_array(&key("tokens"), self.tokens.iter())?;
        if matches!(self.algorithm, Algorithm::Spm | Algorithm::Unigram) {
            builder.set_array(&key("scores"), self.scores.iter().copied())?;
        }
        let kinds = self.kinds.iter().map(|kind| *kind as i32);
        builder.set_array(&key("token_type"), kinds)?;
        if self.algorithm == Algorithm::Bpe {
            builder.set_array(&key("merges"), self.merges.iter())?;
        }
        if !self.charsmap.is_empty() {
            let bytes = self.charsmap.iter().copied();
            builder.set_array(&key("precompiled_charsmap"), bytes)?;
        }
        for (name, id) in &self.ids {
            builder.set(&key(name), *id)?;
        }
        for (name, flag) in &self.flags {
            builder.set(&key(name), *flag)?;
        }
        if let Some(template) = &self.chat_template {
            builder.set("tokenizer.chat_template", template)?;
        }
        for (name, template) in &self.named_templates {
            builder.set(&["tokenizer.chat_template.", name].concat(), template)?;
        }
        if !self.named_templates.is_empty() {
            let names = self.named_templates.iter().map(|(name, _)| name.as_str());
            builder.set_array("tokenizer.chat_templates", names)?;
        }
        Ok(())
    }

    fn new(algorithm: Algorithm) -> Vocabulary {
        Vocabulary {
            algorithm,
            pre: "default",
            tokens: Texts::default(),
            scores: Vec::new(),
            kinds: Vec::new(),
            merges: Texts::default(),
            charsmap: Vec::new(),
            ids: BTreeMap::new(),
            flags: BTreeMap::new(),
            chat_template: None,
            named_templates: Vec::new(),
        }
    }

    fn push(&mut self, text: &str, score: f32, kind: TokenKind) -> Result<(), VocabularyError> {
        if self.tokens.len() >= MAX_TOKENS {
            return Err(VocabularyError::TooManyTokens {
                id: self.tokens.len() as u64,
            });
        }
        self.tokens.push(text)?;
        self.scores.push(score);
        self.kinds.push(kind);
        Ok(())
    }

    /// Fills up to a number of tokens with some that are never used.
    fn pad(&mut self, size: usize) -> Result<(), VocabularyError> {
        if size > MAX_TOKENS {
            return Err(VocabularyError::TooManyTokens { id: size as u64 });
        }
        for id in self.tokens.len()..size {
            let text = alloc::format!("[PAD{id}]");
            self.push(&text, PADDING_SCORE, TokenKind::Unused)?;
        }
        Ok(())
    }

    /// Adds tokens that are found before anything else is done, or changes the kind of those that are there.
    fn add(&mut self, added: &[Added]) -> Result<(), VocabularyError> {
        let last = added.iter().map(|token| token.id).max();
        let Some(last) = last else {
            return Ok(());
        };
        if last >= MAX_TOKENS as u64 {
            return Err(VocabularyError::TooManyTokens { id: last });
        }
        let old = self.tokens.len();
        let mut new: BTreeMap<u64, &Added> = BTreeMap::new();
        for token in added {
            if let Some(kind) = self.kinds.get_mut(token.id as usize)
                && (token.id as usize) < old
            {
                let same = self.tokens.get(token.id as usize) == Some(&token.content);
                if same && !matches!(kind, TokenKind::Unknown | TokenKind::Byte) {
                    *kind = token.kind();
                }
            } else {
                new.insert(token.id, token);
            }
        }
        for (id, token) in new {
            self.pad(id as usize)?;
            self.push(&token.content, ADDED_SCORE, token.kind())?;
        }
        Ok(())
    }

    fn find(&self, text: &str) -> Option<u32> {
        let position = self.tokens.iter().position(|token| token == text);
        position.map(|id| id as u32)
    }

    fn read_templates(&mut self, files: &Files<'_>, settings: &Settings) {
        let own = files
            .chat_template
            .and_then(|file| core::str::from_utf8(file).ok());
        match settings.tokenizer.get("chat_template") {
            Some(Value::String(text)) => self.chat_template = Some(text.clone()),
            Some(Value::Array(list)) => {
                for entry in list {
                    let text = |key| entry.get(key).and_then(Value::as_str).map(String::from);
                    match (text("name"), text("template")) {
                        (Some(name), Some(template)) if name == "default" => {
                            self.chat_template = Some(template);
                        }
                        (Some(name), Some(template)) if is_plain(&name) => {
                            let known = self.named_templates.iter().any(|(old, _)| *old == name);
                            if !known {
                                self.named_templates.push((name, template));
                            }
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if let Some(text) = own {
            self.chat_template = Some(text.to_string());
        }
    }
}

/// A name that can be part of a key.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.len() <= 64 && name.chars().all(plain)
}

/// A token that a tokenizer finds before it does anything else.
#[derive(Clone, Debug, serde::Deserialize)]
struct Added {
    id: u64,
    content: String,
    #[serde(default)]
    special: bool,
}

impl Added {
    fn kind(&self) -> TokenKind {
        if self.special {
            TokenKind::Control
        } else {
            TokenKind::UserDefined
        }
    }
}

/// The small JSON files, those that are there.
struct Settings {
    tokenizer: Map<String, Value>,
    generation: Map<String, Value>,
    model: Map<String, Value>,
    /// Which tokens `tokenizer.json` puts around a text, in front and behind.
    around: Option<[Option<String>; 2]>,
}

impl Settings {
    fn read(files: &Files<'_>) -> Result<Settings, VocabularyError> {
        let map = |file: &'static str, bytes: Option<&[u8]>| match bytes {
            None => Ok(Map::new()),
            Some(bytes) => json(file, check(file, bytes)?),
        };
        let around = match files.tokenizer_json {
            Some(bytes) => tokenizer_json::around(check("tokenizer.json", bytes)?)?,
            None => None,
        };
        Ok(Settings {
            tokenizer: map("tokenizer_config.json", files.tokenizer_config)?,
            generation: map("generation_config.json", files.generation_config)?,
            model: map("config.json", files.config)?,
            around,
        })
    }

    /// `added_tokens_decoder` of `tokenizer_config.json`.
    fn added(&self) -> Result<Vec<Added>, VocabularyError> {
        let Some(Value::Object(map)) = self.tokenizer.get("added_tokens_decoder") else {
            return Ok(Vec::new());
        };
        let token = |(id, value): (&String, &Value)| {
            Some(Added {
                id: id.parse().ok()?,
                content: value.get("content")?.as_str()?.into(),
                special: value.get("special").and_then(Value::as_bool)?,
            })
        };
        Ok(map.iter().filter_map(token).collect())
    }

    /// How many tokens the model scores; 0 if unknown.
    fn vocab_size(&self) -> usize {
        let text = self
            .model
            .get("text_config")
            .and_then(|text| text.get("vocab_size"));
        let size = text.or_else(|| self.model.get("vocab_size"));
        size.and_then(Value::as_u64).unwrap_or(0) as usize
    }
}

fn check<'a>(file: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], VocabularyError> {
    if bytes.len() > MAX_FILE {
        Err(VocabularyError::TooLong {
            file,
            len: bytes.len(),
        })
    } else {
        Ok(bytes)
    }
}

fn json<'a, T: serde::Deserialize<'a>>(
    file: &'static str,
    bytes: &'a [u8],
) -> Result<T, VocabularyError> {
    serde_json::from_slice(bytes).map_err(|error| {
        // It would repeat the whole of a text that is in the wrong place.
        let reason: String = error.to_string().chars().take(300).collect();
        VocabularyError::Json {
            file,
            reason: reason.into(),
        }
    })
}
