//! Finding the tokens with a role by their texts, for files that do not state them.
//!
//! The texts are those llama.cpp looks for. Where several are there the first in the list has the role.

use alloc::vec::Vec;

use super::table::TokenKind;
use super::vocab::{SpecialTokens, Vocab};

type Role = fn(&mut SpecialTokens) -> &mut Option<u32>;

const ROLES: &[(Role, &[&str])] = &[
    (
        |s| &mut s.eot,
        &[
            "<|eot_id|>",
            "<|im_end|>",
            "<|end|>",
            "<end_of_turn>",
            "<|endoftext|>",
            "<|end_of_text|>",
            "<EOT>",
            "_<EOT>",
            "[EOT]",
            "<｜end▁of▁sentence｜>",
            "<end_of_utterance>",
        ],
    ),
    (|s| &mut s.eom, &["<|eom_id|>"]),
    (
        |s| &mut s.fim_pre,
        &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<｜fim▁begin｜>",
            "<PRE>",
            "▁<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
        ],
    ),
    (
        |s| &mut s.fim_suf,
        &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<｜fim▁hole｜>",
            "<SUF>",
            "▁<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
        ],
    ),
    (
        |s| &mut s.fim_mid,
        &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<｜fim▁end｜>",
            "<MID>",
            "▁<MID>",
            "<|code_middle|>",
            "<|middle|>",
        ],
    ),
    (
        |s| &mut s.fim_pad,
        &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"],
    ),
    (
        |s| &mut s.fim_rep,
        &[
            "<|fim_repo|>",
            "<|repo_name|>",
            "<fim-repo>",
            "<REPO>",
            "<reponame>",
        ],
    ),
    (|s| &mut s.fim_sep, &["<|file_sep|>"]),
];

/// Texts of tokens that end a generation wherever they are found.
const ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// Parts of gpt-oss's messages, which a reader of its output needs to see. llama.cpp makes them user-defined tokens for
/// that, but then a user's text can spell them; here they stay control tokens that are shown.
const SHOWN: &[&str] = &["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

impl Vocab {
    /// Fills in the roles that the vocabulary does not state and the tokens that end a generation, by the texts that
    /// published models use. Tokens found so become control tokens, whatever the file says.
    pub fn detect_special(&mut self) {
        for (role, texts) in ROLES {
            let slot = role(&mut self.special);
            if slot.is_none() {
                *slot = texts.iter().find_map(|text| self.tokens.find(text));
                if let Some(id) = *slot {
                    self.tokens.set_kind(id, TokenKind::Control);
                }
            }
        }
        let special = &self.special;
        let mut ends: Vec<u32> = [special.fim_pad, special.fim_rep, special.fim_sep]
            .into_iter()
            .flatten()
            .collect();
        for text in ENDS {
            if let Some(id) = self.tokens.find(text) {
                self.tokens.set_kind(id, TokenKind::Control);
                ends.push(id);
            }
        }
        for text in SHOWN {
            if let Some(id) = self.tokens.find(text) {
                self.tokens.set_kind(id, TokenKind::Control);
                self.shown.push(id);
            }
        }
        let special = &self.special;
        ends.extend(
            [special.eos, special.eot, special.eom]
                .into_iter()
                .flatten(),
        );
        self.except_ends(&mut ends);
        ends.sort_unstable();
        ends.dedup();
        self.end_of_generation = ends;
    }

    /// Takes back what is no end in models that use the same text for something else.
    fn except_ends(&mut self, ends: &mut Vec<u32>) {
        let found = |text: &str| self.tokens.find(text).filter(|id| ends.contains(id));
        let calls = found("<|call|>").or(found("<|calls|>")).is_some();
        let harmony = calls && (found("<|return|>").or(found("<|flush|>"))).is_some();
        let end = found("<|end|>").filter(|_| harmony);
        let marker = found("<|tool_response>").or(found("<|plamo:eos|>"));
        let strike = found("</s>").filter(|_| marker.is_some());
        if let Some(id) = end {
            ends.retain(|other| *other != id);
            self.shown.push(id);
        }
        if let Some(id) = strike {
            ends.retain(|other| *other != id);
            self.tokens.set_kind(id, TokenKind::Normal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::TokenTable;
    use super::super::vocab::ModelKind;
    use super::*;

    fn detected(texts: &[&str]) -> Vocab {
        let mut tokens = TokenTable::default();
        for text in texts {
            tokens.push(text, TokenKind::Normal, 0.0).expect("room");
        }
        let mut vocab = Vocab::new(ModelKind::Bpe, tokens);
        vocab.detect_special();
        vocab
    }

    #[test]
    fn roles_are_found_by_text() {
        let vocab = detected(&[
            "a",
            "<|im_end|>",
            "<|fim_prefix|>",
            "<|endoftext|>",
            "<|file_sep|>",
        ]);
        assert_eq!(vocab.special.eot, Some(1));
        assert_eq!(vocab.special.fim_pre, Some(2));
        assert_eq!(vocab.end_of_generation, [1, 3, 4]);
        assert_eq!(vocab.tokens.kind(1), Some(TokenKind::Control));
        assert_eq!(vocab.tokens.kind(0), Some(TokenKind::Normal));
    }

    #[test]
    fn a_stated_role_is_kept() {
        let mut vocab = detected(&["a", "<|im_end|>"]);
        vocab.special.eot = Some(0);
        vocab.detect_special();
        assert_eq!(vocab.special.eot, Some(0));
        assert_eq!(vocab.end_of_generation, [0, 1]);
    }

    #[test]
    fn the_end_of_a_harmony_message_is_not_the_end_of_the_answer() {
        let vocab = detected(&["<|return|>", "<|call|>", "<|end|>", "<|channel|>"]);
        assert_eq!(vocab.end_of_generation, [0, 1]);
        assert_eq!(vocab.shown, [3, 2]);
        assert_eq!(vocab.tokens.kind(2), Some(TokenKind::Control));
        assert_eq!(detected(&["<|call|>", "<|end|>"]).end_of_generation, [0, 1]);
    }

    #[test]
    fn a_closing_tag_is_text_where_the_model_has_other_ends() {
        assert_eq!(detected(&["</s>"]).end_of_generation, [0]);
        let vocab = detected(&["</s>", "<|tool_response>"]);
        assert_eq!(vocab.end_of_generation, [1]);
        assert_eq!(vocab.tokens.kind(0), Some(TokenKind::Normal));
    }
}
