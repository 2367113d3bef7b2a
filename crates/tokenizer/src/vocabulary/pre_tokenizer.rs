//! The `pre_tokenizer` of `tokenizer.json`, and the name that GGUF has for it.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::error::VocabularyError;

/// Whether words that are tokens are taken without merging (`ignore_merges`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Whole {
    Merge,
    Take,
    Either,
}

/// `pre` names with the steps that published files have. A step is its kind and its pattern.
const KNOWN: &[(&str, Whole, &[&str])] = &[
    ("gpt-2", Whole::Merge, &["words"]),
    ("starcoder", Whole::Merge, &["digits each", "words"]),
    (
        "falcon",
        Whole::Merge,
        &["punctuation", "words", "digits", "split [0-9][0-9][0-9]"],
    ),
    ("llama-bpe", Whole::Take, &[LLAMA3, "bytes"]),
    ("dbrx", Whole::Merge, &[LLAMA3, "bytes"]),
    ("qwen2", Whole::Merge, &[QWEN2, "bytes"]),
    ("qwen35", Whole::Merge, &[QWEN35, "bytes"]),
    ("gpt-4o", Whole::Merge, &[O200K, "bytes"]),
    ("tekken", Whole::Either, &[TEKKEN, "bytes"]),
    (
        "deepseek-v3",
        Whole::Merge,
        &[
            "split \\p{N}{1,3}",
            "split [一-龥\u{3040}-ゟ゠-ヿ]+",
            DEEPSEEK,
            "bytes",
        ],
    ),
];

const LLAMA3: &str = "split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const QWEN2: &str = "split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const QWEN35: &str = "split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const O200K: &str = "split [^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const TEKKEN: &str = "split [^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const DEEPSEEK: &str = "split [!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
/// GPT-2's own pattern, where a file spells it out.
const GPT2: &str =
    "split 's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/// The name for byte-level BPE that cuts text so.
pub(super) fn name(
    pre_tokenizer: &Value,
    ignore_merges: bool,
) -> Result<&'static str, VocabularyError> {
    let mut steps = Vec::new();
    collect(pre_tokenizer, &mut steps);
    if let [.., pattern, bytes] = steps.as_mut_slice()
        && pattern == GPT2
        && bytes == "bytes"
    {
        steps.pop();
        steps.pop();
        steps.push("words".into());
    }
    let known = KNOWN.iter().find(|(_, whole, known)| {
        let same = known.len() == steps.len() && known.iter().zip(&steps).all(|(a, b)| a == b);
        same && match whole {
            Whole::Merge => !ignore_merges,
            Whole::Take => ignore_merges,
            Whole::Either => true,
        }
    });
    known.map(|(name, ..)| *name).ok_or_else(|| {
        let mut all = steps.join("; ");
        if ignore_merges {
            all.push_str("; words that are tokens taken whole");
        }
        all.truncate(all.floor_char_boundary(200));
        VocabularyError::PreTokenizer { steps: all.into() }
    })
}

/// Writes each step as a short text.
fn collect(step: &Value, steps: &mut Vec<String>) {
    let text = |key: &str| step.get(key).and_then(Value::as_str).unwrap_or("");
    let truth = |key: &str| step.get(key).and_then(Value::as_bool);
    match text("type") {
        "Sequence" => {
            let list = step.get("pretokenizers").and_then(Value::as_array);
            for inner in list.into_iter().flatten().take(16) {
                // Nesting adds nothing; JSON's depth is bounded by its parser.
                collect(inner, steps);
            }
        }
        "ByteLevel" if truth("add_prefix_space") == Some(true) => steps.push("space first".into()),
        "ByteLevel" if truth("use_regex") == Some(false) => steps.push("bytes".into()),
        "ByteLevel" => steps.push("words".into()),
        "Digits" if truth("individual_digits") == Some(true) => steps.push("digits each".into()),
        "Digits" => steps.push("digits".into()),
        "Punctuation" => steps.push("punctuation".into()),
        "Split" => {
            let pattern = step.get("pattern");
            let part = |key| pattern.and_then(|p| p.get(key)).and_then(Value::as_str);
            let pattern = part("Regex").or(part("String")).unwrap_or("");
            steps.push(["split ", pattern].concat());
        }
        other => steps.push(String::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PreTokenizer;
    use serde_json::json;

    #[test]
    fn every_name_is_one_that_the_tokenizer_knows() {
        for (known, ..) in KNOWN {
            assert!(PreTokenizer::by_name(known).is_some(), "{known}");
        }
    }

    #[test]
    fn published_steps_have_names() {
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false});
        let words = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true});
        let split = |pattern: &str| {
            let pattern = pattern.strip_prefix("split ").expect("a pattern");
            json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"})
        };
        let sequence = |steps: &[&Value]| json!({"type": "Sequence", "pretokenizers": steps});
        assert_eq!(name(&words, false), Ok("gpt-2"));
        assert_eq!(name(&sequence(&[&split(GPT2), &bytes]), false), Ok("gpt-2"));
        assert_eq!(
            name(&sequence(&[&split(LLAMA3), &bytes]), true),
            Ok("llama-bpe")
        );
        assert_eq!(
            name(&sequence(&[&split(QWEN2), &bytes]), false),
            Ok("qwen2")
        );
        let error = name(&split("split \\w+"), false).expect_err("an unknown pattern");
        assert!(alloc::format!("{error}").contains("split \\w+"), "{error}");
    }
}
