//! A vocabulary: everything a tokenizer is made of, whatever file it came from.

use alloc::string::String;
use alloc::vec::Vec;

use super::split::PreTokenizer;
use super::table::{TokenKind, TokenTable};

/// The algorithm a vocabulary was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// SentencePiece's BPE: scores, byte fallback (`llama`).
    Spm,
    /// BPE with a list of merges (`gpt2`, `gemma4`, `whitespace`).
    Bpe,
    /// WordPiece (`bert`).
    WordPiece,
    /// Unigram (`t5`).
    Unigram,
    /// The longest match (`rwkv`).
    Rwkv,
}

/// Two tokens that become a third when they are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The token on the left.
    pub left: u32,
    /// The token on the right.
    pub right: u32,
    /// The token with the text of both.
    pub joined: u32,
}

/// What is done to the letters of a text first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Letters {
    /// Nothing.
    #[default]
    AsIs,
    /// They are put in lower case.
    Lower,
}

/// What is done to the accents of a text first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accents {
    /// Nothing.
    #[default]
    Keep,
    /// They are taken off.
    Strip,
}

/// How text is normalized for WordPiece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Normalizer {
    /// What is done to letters.
    pub letters: Letters,
    /// What is done to accents.
    pub accents: Accents,
}

/// The tokens with a role, where the vocabulary has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begins a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Ends a turn of a chat.
    pub eot: Option<u32>,
    /// Ends a message that expects a tool's answer.
    pub eom: Option<u32>,
    /// Stands for what cannot be spelled.
    pub unk: Option<u32>,
    /// Separates two texts.
    pub sep: Option<u32>,
    /// Fills up a batch.
    pub pad: Option<u32>,
    /// Begins a text to be classified.
    pub cls: Option<u32>,
    /// Hides a word.
    pub mask: Option<u32>,
    /// Before the text in front of a gap.
    pub fim_pre: Option<u32>,
    /// Before the text behind a gap.
    pub fim_suf: Option<u32>,
    /// Before what fills a gap.
    pub fim_mid: Option<u32>,
    /// Fills up a text with a gap.
    pub fim_pad: Option<u32>,
    /// Before a repository's name.
    pub fim_rep: Option<u32>,
    /// Between files.
    pub fim_sep: Option<u32>,
}

/// Which tokens are put around a text that is encoded with its special tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// `bos` in front.
    pub bos: bool,
    /// `eos` behind.
    pub eos: bool,
    /// `sep` between two texts; for callers that join texts, encoding one does not use it.
    pub sep: bool,
}

/// Everything a tokenizer is made of. Make one with [`Vocab::new`] and set what differs, or read it from a file.
#[derive(Clone, Debug)]
pub struct Vocab {
    /// The algorithm.
    pub model: ModelKind,
    /// How BPE cuts text into words.
    pub pre: PreTokenizer,
    /// The tokens.
    pub tokens: TokenTable,
    /// BPE's merges, the first ones first. Ids that are no tokens never match.
    pub merges: Vec<Merge>,
    /// The tokens with a role.
    pub special: SpecialTokens,
    /// The tokens that end a generation, in ascending order.
    pub end_of_generation: Vec<u32>,
    /// Control tokens that belong to the visible answer: decoding shows them.
    pub shown: Vec<u32>,
    /// What encoding adds around a text.
    pub added: Added,
    /// SentencePiece: whether a text gets a space in front.
    pub space_prefix: bool,
    /// Unigram: whether runs of spaces become one, and spaces at the ends none.
    pub collapse_spaces: bool,
    /// WordPiece's normalization.
    pub normalizer: Normalizer,
    /// Unigram's precompiled character map, as SentencePiece stores it; empty for none.
    pub charsmap: Vec<u8>,
    /// Special tokens that swallow the white space in front of them, in ascending order.
    pub strip_left: Vec<u32>,
    /// Special tokens that swallow the white space behind them, in ascending order.
    pub strip_right: Vec<u32>,
}

impl Vocab {
    /// A vocabulary of these tokens with the habits that the algorithm usually has, and no special tokens.
    pub fn new(model: ModelKind, tokens: TokenTable) -> Self {
        let bert = Normalizer {
            letters: Letters::Lower,
            accents: Accents::Strip,
        };
        Vocab {
            model,
            pre: PreTokenizer::DEFAULT,
            tokens,
            merges: Vec::new(),
            special: SpecialTokens::default(),
            end_of_generation: Vec::new(),
            shown: Vec::new(),
            added: Added {
                bos: matches!(model, ModelKind::Spm | ModelKind::WordPiece),
                eos: model == ModelKind::Unigram,
                sep: model == ModelKind::WordPiece,
            },
            space_prefix: model == ModelKind::Spm,
            collapse_spaces: false,
            normalizer: match model {
                ModelKind::WordPiece => bert,
                _ => Normalizer::default(),
            },
            charsmap: Vec::new(),
            strip_left: Vec::new(),
            strip_right: Vec::new(),
        }
    }

    /// Adds a merge written as the two tokens' texts. One that names or makes no token is left out: it could produce
    /// nothing.
    pub fn push_merge(&mut self, left: &str, right: &str) {
        self.push_joined(left, right, &mut String::new());
    }

    /// As `push_merge`, with memory for the joined text to use again.
    pub(crate) fn push_joined(&mut self, left: &str, right: &str, joined: &mut String) {
        joined.clear();
        joined.extend([left, right]);
        let found = |text: &str| self.tokens.find(text);
        if let (Some(left), Some(right), Some(joined)) = (found(left), found(right), found(joined))
        {
            self.merges.push(Merge {
                left,
                right,
                joined,
            });
        }
    }

    /// Whether a token is matched in the text before anything else is done, given the right options.
    pub(crate) fn is_special(&self, id: u32) -> bool {
        matches!(
            self.tokens.kind(id),
            Some(TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined)
        )
    }
}
