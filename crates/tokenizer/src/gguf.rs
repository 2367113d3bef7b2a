//! Reading a vocabulary from GGUF metadata.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use strata_weights::{Array, Metadata};

use super::error::TokenizerError;
use super::split::{PreTokenizer, WholeWords};
use super::table::{MAX_TOKENS, TokenKind, TokenTable, byte};
use super::vocab::{Accents, Letters, ModelKind, SpecialTokens, Vocab};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";

/// The most merges in a vocabulary. The largest published ones have about 515,000.
const MAX_MERGES: usize = 1 << 21;

impl Vocab {
    /// The vocabulary that a GGUF file's metadata holds.
    pub fn from_gguf(meta: &Metadata<'_>) -> Result<Self, TokenizerError> {
        let name = meta
            .str(MODEL)?
            .ok_or(TokenizerError::Missing { key: MODEL })?;
        let model = match name {
            "llama" => ModelKind::Spm,
            "gpt2" | "gemma4" | "whitespace" => ModelKind::Bpe,
            "bert" => ModelKind::WordPiece,
            "t5" => ModelKind::Unigram,
            "rwkv" => ModelKind::Rwkv,
            _ => {
                return Err(TokenizerError::UnknownModel {
                    name: name.to_string(),
                });
            }
        };
        let mut vocab = Vocab::new(model, read_tokens(meta, model)?);
        if model == ModelKind::Bpe {
            let pre = match name {
                "gemma4" => "gemma4",
                _ => meta
                    .str(PRE)?
                    .filter(|pre| !pre.is_empty())
                    .unwrap_or("default"),
            };
            vocab.pre =
                PreTokenizer::by_name(pre).ok_or_else(|| TokenizerError::UnknownPreTokenizer {
                    name: pre.to_string(),
                })?;
            vocab.added.bos = vocab.pre.adds_bos;
            vocab.added.sep = matches!(pre, "jina-v1-en" | "jina-v2-code" | "roberta-bpe");
            vocab.read_merges(meta, pre)?;
        }
        if model == ModelKind::Unigram {
            vocab.charsmap = read_charsmap(meta)?;
        }
        vocab.read_special(meta)?;
        vocab.read_flags(meta)?;
        vocab.detect_special();
        vocab.detect_strips(meta)?;
        Ok(vocab)
    }

    fn read_merges(&mut self, meta: &Metadata<'_>, pre: &str) -> Result<(), TokenizerError> {
        let Some(array) = meta.array(MERGES)? else {
            // Its tokenizer has none; a file made without them can still be read.
            return match pre {
                "kimi-k2" => Ok(()),
                _ => Err(TokenizerError::Missing { key: MERGES }),
            };
        };
        check_limit(MERGES, &array, MAX_MERGES)?;
        let merges = array.strs().ok_or(TokenizerError::ElementType {
            key: MERGES,
            expected: "strings",
        })?;
        self.merges.reserve_exact(merges.len());
        let mut joined = String::new();
        for merge in merges {
            // A token may begin with a space, so the one between the two is looked for after the first character.
            let second = merge.chars().next().map_or(0, char::len_utf8);
            let split = merge.get(second..).and_then(|rest| rest.find(' '));
            if let Some((left, right)) = split.and_then(|at| merge.split_at_checked(second + at)) {
                self.push_joined(left, right.get(1..).unwrap_or(""), &mut joined);
            }
        }
        Ok(())
    }

    fn read_special(&mut self, meta: &Metadata<'_>) -> Result<(), TokenizerError> {
        // What llama.cpp assumes of a file that does not say.
        self.special = match self.model {
            ModelKind::Spm => SpecialTokens {
                bos: Some(1),
                eos: Some(2),
                unk: Some(0),
                ..SpecialTokens::default()
            },
            ModelKind::WordPiece => SpecialTokens {
                bos: Some(101),
                unk: Some(100),
                sep: Some(102),
                pad: Some(0),
                mask: Some(103),
                ..SpecialTokens::default()
            },
            ModelKind::Unigram => SpecialTokens {
                eos: Some(1),
                unk: Some(2),
                pad: Some(0),
                ..SpecialTokens::default()
            },
            ModelKind::Bpe | ModelKind::Rwkv => SpecialTokens::default(),
        };
        let special = &mut self.special;
        let count = self.tokens.len();
        if self.model == ModelKind::WordPiece
            && let Some(cls) = token_id(meta, "cls_token_id", self.model, count)?
        {
            special.bos = Some(cls);
        }
        for (slot, keys) in [
            (&mut special.cls, &["cls_token_id"][..]),
            (&mut special.bos, &["bos_token_id"]),
            (&mut special.eos, &["eos_token_id"]),
            (&mut special.eot, &["eot_token_id"]),
            (&mut special.eom, &["eom_token_id"]),
            (&mut special.unk, &["unknown_token_id"]),
            (
                &mut special.sep,
                &["seperator_token_id", "separator_token_id"],
            ),
            (&mut special.pad, &["padding_token_id"]),
            (&mut special.mask, &["mask_token_id"]),
            (
                &mut special.fim_pre,
                &["fim_pre_token_id", "prefix_token_id"],
            ),
            (
                &mut special.fim_suf,
                &["fim_suf_token_id", "suffix_token_id"],
            ),
            (
                &mut special.fim_mid,
                &["fim_mid_token_id", "middle_token_id"],
            ),
            (&mut special.fim_pad, &["fim_pad_token_id"]),
            (&mut special.fim_rep, &["fim_rep_token_id"]),
            (&mut special.fim_sep, &["fim_sep_token_id"]),
        ] {
            for key in keys.iter().rev() {
                if let Some(id) = token_id(meta, key, self.model, count)? {
                    *slot = Some(id);
                }
            }
            *slot = slot.filter(|id| (*id as usize) < count);
        }
        Ok(())
    }

    fn read_flags(&mut self, meta: &Metadata<'_>) -> Result<(), TokenizerError> {
        for (flag, key) in [
            (&mut self.added.bos, ADD_BOS),
            (&mut self.added.eos, "tokenizer.ggml.add_eos_token"),
            (&mut self.added.sep, "tokenizer.ggml.add_sep_token"),
            (&mut self.space_prefix, "tokenizer.ggml.add_space_prefix"),
            (
                &mut self.collapse_spaces,
                "tokenizer.ggml.remove_extra_whitespaces",
            ),
        ] {
            if let Some(stated) = meta.bool(key)? {
                *flag = stated;
            }
        }
        // Early files of this family say no and need it all the same.
        if self.model == ModelKind::Bpe && self.pre.whole_words == WholeWords::TakeLines {
            self.added.bos = true;
        }
        if let Some(lower) = meta.bool("tokenizer.ggml.normalizer.lowercase")? {
            self.normalizer.letters = if lower { Letters::Lower } else { Letters::AsIs };
            self.normalizer.accents = if lower { Accents::Strip } else { Accents::Keep };
        }
        if let Some(strip) = meta.bool("tokenizer.ggml.normalizer.strip_accents")? {
            self.normalizer.accents = if strip { Accents::Strip } else { Accents::Keep };
        }
        Ok(())
    }

    /// Which special tokens swallow white space. GGUF has no field for it, so the model is known by its name.
    fn detect_strips(&mut self, meta: &Metadata<'_>) -> Result<(), TokenizerError> {
        let text = |key| Ok::<_, TokenizerError>(meta.str(key)?.unwrap_or(""));
        let (pre, arch) = (text(PRE)?, text("general.architecture")?);
        let name = text("general.name")?.to_ascii_lowercase();
        let any = |text: &str, parts: &[&str]| parts.iter().any(|part| text.contains(part));
        if any(pre, &["jina-v2-de", "jina-v2-es", "jina-v2-code"])
            || any(arch, &["nomic-bert-moe", "jina-bert-v3"])
        {
            self.strip_left.extend(self.tokens.find("<mask>"));
        } else if any(&name, &["phi-3", "phi3"]) {
            let kept = ["<unk>", "<s>", "<|endoftext|>"].map(|text| self.tokens.find(text));
            let strips = |id: &u32| self.is_special(*id) && !kept.contains(&Some(*id));
            self.strip_right = self.tokens.ids().filter(strips).collect();
        } else if any(&name, &["modern-bert"]) {
            self.strip_left.extend(self.tokens.find("[MASK]"));
        }
        Ok(())
    }
}

fn read_tokens(meta: &Metadata<'_>, model: ModelKind) -> Result<TokenTable, TokenizerError> {
    let array = meta
        .array(TOKENS)?
        .ok_or(TokenizerError::Missing { key: TOKENS })?;
    check_limit(TOKENS, &array, MAX_TOKENS)?;
    let texts = array.strs().ok_or(TokenizerError::ElementType {
        key: TOKENS,
        expected: "strings",
    })?;
    let count = texts.len();
    let mut scores = column(meta, SCORES, count)?.map(|array| {
        let floats = array.f32s().map(|scores| scores.collect::<Vec<_>>());
        floats.or_else(|| Some(array.i32s()?.map(|score| score as f32).collect()))
    });
    if let Some(None) = scores {
        return Err(TokenizerError::ElementType {
            key: SCORES,
            expected: "numbers of 32 bits",
        });
    }
    let scores = scores.take().flatten().unwrap_or_default();
    let mut kinds = match column(meta, TOKEN_TYPE, count)? {
        None => None,
        Some(array) => Some(array.integers().ok_or(TokenizerError::ElementType {
            key: TOKEN_TYPE,
            expected: "integers",
        })?),
    };
    let mut table = TokenTable::with_capacity(count);
    for (i, text) in texts.enumerate() {
        let id = i as u32;
        let kind = match &mut kinds {
            None => TokenKind::Normal,
            Some(kinds) => {
                let number = kinds.next().unwrap_or(0);
                TokenKind::from_gguf(number).ok_or(TokenizerError::UnknownType { id, number })?
            }
        };
        // Other models spell bytes in letters of their own.
        let spells_bytes = matches!(model, ModelKind::Spm | ModelKind::Unigram);
        if kind == TokenKind::Byte && spells_bytes && byte(text).is_none() {
            let text = text.chars().take(40).collect();
            return Err(TokenizerError::ByteToken { id, text });
        }
        let score = scores.get(i).copied().unwrap_or(0.0);
        if score.is_nan() {
            return Err(TokenizerError::Score { id });
        }
        table.push(text, kind, score)?;
    }
    Ok(table)
}

/// An array with an element for each token, if it is there. Longer ones are accepted.
fn column<'a>(
    meta: &Metadata<'a>,
    key: &'static str,
    tokens: usize,
) -> Result<Option<Array<'a>>, TokenizerError> {
    match meta.array(key)? {
        Some(array) if array.len() < tokens => Err(TokenizerError::Length {
            key,
            tokens,
            found: array.len(),
        }),
        array => Ok(array),
    }
}

fn check_limit(key: &'static str, array: &Array<'_>, limit: usize) -> Result<(), TokenizerError> {
    if array.len() <= limit {
        Ok(())
    } else {
        Err(TokenizerError::TooMany {
            key,
            found: array.len(),
            limit,
        })
    }
}

fn read_charsmap(meta: &Metadata<'_>) -> Result<Vec<u8>, TokenizerError> {
    let Some(array) = meta.array(CHARSMAP)? else {
        return Ok(Vec::new());
    };
    let unsigned = array.u8s().map(|bytes| bytes.collect());
    let bytes = unsigned.or_else(|| Some(array.i8s()?.map(|b| b as u8).collect()));
    bytes.ok_or(TokenizerError::ElementType {
        key: CHARSMAP,
        expected: "bytes",
    })
}

/// Whether answers differ or do not end without a token. Files name other tokens that are not there, of which nothing is
/// made.
fn is_essential(name: &str, model: ModelKind) -> bool {
    match name {
        "bos_token_id" | "eos_token_id" | "eot_token_id" | "eom_token_id" | "cls_token_id" => true,
        // Encoders end texts with it.
        "seperator_token_id" | "separator_token_id" => {
            matches!(model, ModelKind::WordPiece | ModelKind::Unigram)
        }
        // It stands for what cannot be spelled.
        "unknown_token_id" => {
            matches!(
                model,
                ModelKind::Spm | ModelKind::WordPiece | ModelKind::Unigram
            )
        }
        _ => false,
    }
}

/// The id a key states. -1, also as an unsigned number, says that there is no such token.
fn token_id(
    meta: &Metadata<'_>,
    name: &str,
    model: ModelKind,
    count: usize,
) -> Result<Option<u32>, TokenizerError> {
    let key: String = ["tokenizer.ggml.", name].concat();
    let Some(value) = meta.get(&key) else {
        return Ok(None);
    };
    let Some(id) = value.as_integer() else {
        return Ok(meta.u32(&key)?);
    };
    let none = id == -1 || id == i128::from(u32::MAX);
    match u32::try_from(id).ok().filter(|&id| (id as usize) < count) {
        None if !none && is_essential(name, model) => Err(TokenizerError::NoSuchToken {
            key,
            id,
            tokens: count,
        }),
        found => Ok(found),
    }
}
