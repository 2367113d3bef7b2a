//! Two texts that a model reads together, such as a question and a text that may answer it.

use alloc::vec::Vec;

use super::{EncodeOptions, ModelKind, Tokenizer};

/// The tokens of two texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Both, with what the model wants around and between them.
    pub tokens: Vec<u32>,
    /// Where the second text begins.
    pub second: usize,
}

impl Tokenizer {
    /// The tokens of two texts: `[CLS] first [SEP] second [SEP]` where words are pieced together, and
    /// `<s> first </s></s> second </s>` in the families that put a separator after the end. Control tokens in the texts
    /// are read as text.
    pub fn encode_pair(&self, first: &str, second: &str) -> Pair {
        let (_, after) = self.around();
        let between = match self.model {
            // Its end is the separator already.
            ModelKind::WordPiece | ModelKind::Rwkv => None,
            // Old files do not state what all models with both of these want.
            ModelKind::Unigram => self.special.sep,
            ModelKind::Spm | ModelKind::Bpe => self.special.sep.filter(|_| self.added.sep),
        };
        let mut tokens = self.encode(
            first,
            EncodeOptions {
                add_special: true,
                parse_special: false,
            },
        );
        tokens.extend(between);
        let begin = tokens.len();
        tokens.extend(self.encode(second, EncodeOptions::default()));
        tokens.extend(after);
        Pair {
            tokens,
            second: begin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Added, SpecialTokens, TokenKind, TokenTable, Vocab};
    use super::*;

    fn pair(model: ModelKind, words: [&str; 2]) -> Pair {
        let mut tokens = TokenTable::default();
        for text in ["<s>", "</s>", "<unk>"] {
            tokens.push(text, TokenKind::Control, 0.0).expect("room");
        }
        for text in words {
            tokens.push(text, TokenKind::Normal, -1.0).expect("room");
        }
        let mut vocab = Vocab::new(model, tokens);
        vocab.special = SpecialTokens {
            bos: Some(0),
            eos: Some(1),
            sep: Some(1),
            unk: Some(2),
            ..SpecialTokens::default()
        };
        vocab.space_prefix = true;
        vocab.added = Added {
            bos: true,
            eos: true,
            sep: false,
        };
        let tokenizer = Tokenizer::from_vocab(vocab).expect("a good vocabulary");
        tokenizer.encode_pair("a", "b a")
    }

    #[test]
    fn words_in_pieces_have_one_separator_between_texts() {
        let pair = pair(ModelKind::WordPiece, ["▁a", "▁b"]);
        assert_eq!(pair.tokens, [0, 3, 1, 4, 3, 1]);
        assert_eq!(pair.second, 3);
    }

    #[test]
    fn unigrams_have_two_separators_between_texts() {
        let pair = pair(ModelKind::Unigram, ["▁a", "▁b"]);
        assert_eq!(pair.tokens, [0, 3, 1, 1, 4, 3, 1]);
        assert_eq!(pair.second, 4);
    }
}
