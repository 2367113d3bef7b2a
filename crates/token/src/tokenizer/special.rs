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

/// Parts of gpt-oss's messages, which a reader of its output needs to see.
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
                self.tokens.set_kind(id, TokenKind::UserDefined);
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
        for (id, kind) in [(end, TokenKind::UserDefined), (strike, TokenKind::Normal)] {
            if let Some(id) = id {
                ends.retain(|other| *other != id);
                self.tokens.set_kind(id, kind);
            }
        }
    }
}
