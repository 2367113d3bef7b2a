//! A byte-level BPE vocabulary of any size whose every token can be reached by its merges.
//!
//! Ids 0–255 are the bytes; then come pairs, triples and quadruples of letters, each made by the merge
//! that lists it; the last two ids are control tokens. Text therefore splits into believable pieces, and
//! any shape's vocabulary can be filled.

/// GGUF's token types.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;

/// Letters by how often English uses them, so that common words become few tokens.
const LETTERS: &[u8] = b"etaoinshrdlucmfwypvbgkjqxz";

pub(crate) struct Vocabulary {
    pub(crate) tokens: Vec<String>,
    pub(crate) types: Vec<i32>,
    pub(crate) merges: Vec<String>,
    /// `<|endoftext|>`: begins and ends a text.
    pub(crate) end_of_text: u32,
    /// `<|im_end|>`: ends a turn.
    pub(crate) end_of_turn: u32,
}

/// ChatML over the two control tokens; `<|im_start|>` is spelled in plain pieces.
pub(crate) const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

impl Vocabulary {
    /// Exactly `size` tokens; `size` must leave room for the bytes and the control tokens.
    pub(crate) fn new(size: u32) -> Self {
        let controls = ["<|endoftext|>", "<|im_end|>"].map(String::from);
        Self::with_controls(size, &controls)
    }

    /// The same with these tokens at the end, the first of which begins and ends a text.
    pub(crate) fn with_controls(size: u32, controls: &[String]) -> Self {
        let normal = size as usize - controls.len();
        let mut tokens: Vec<String> = (0..=255u8)
            .map(|byte| byte_symbol(byte).to_string())
            .collect();
        let mut merges = Vec::new();
        let mut add = |left: &str, right: &str| {
            if tokens.len() < normal {
                tokens.push(format!("{left}{right}"));
                merges.push(format!("{left} {right}"));
            }
        };
        let letters: Vec<String> = LETTERS.iter().map(|&l| (l as char).to_string()).collect();
        let pairs: Vec<String> = letters
            .iter()
            .flat_map(|a| letters.iter().map(move |b| format!("{a}{b}")))
            .collect();
        let space = byte_symbol(b' ').to_string();
        for a in &letters {
            for b in &letters {
                add(a, b);
            }
        }
        for a in &letters {
            add(&space, a);
        }
        for a in &pairs {
            add(&space, a);
        }
        for a in &pairs {
            for b in &pairs {
                add(a, b);
            }
        }
        let mut types = vec![NORMAL; tokens.len()];
        tokens.extend_from_slice(controls);
        types.resize(tokens.len(), CONTROL);
        Self {
            tokens,
            types,
            merges,
            end_of_text: normal as u32,
            end_of_turn: normal as u32 + 1,
        }
    }
}

/// The printable character that stands for a byte in byte-level BPE vocabularies (GPT-2's table):
/// printable Latin-1 stands for itself, the others follow from U+0100 in order.
fn byte_symbol(byte: u8) -> char {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        byte as char
    } else {
        let nth = (0..byte).filter(|&b| !printable(b)).count();
        char::from_u32(0x100 + nth as u32).expect("below the surrogates")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn fills_every_shape_with_distinct_tokens() {
        for size in [2048, 64_000, 151_936] {
            let vocabulary = Vocabulary::new(size);
            assert_eq!(vocabulary.tokens.len(), size as usize);
            assert_eq!(vocabulary.types.len(), size as usize);
            let distinct: HashSet<_> = vocabulary.tokens.iter().collect();
            assert_eq!(distinct.len(), size as usize);
            assert_eq!(vocabulary.merges.len(), size as usize - 258);
        }
    }

    #[test]
    fn spells_bytes_as_gpt2_does() {
        assert_eq!(byte_symbol(b' '), 'Ġ');
        assert_eq!(byte_symbol(b'\n'), 'Ċ');
        assert_eq!(byte_symbol(b'a'), 'a');
        assert_eq!(byte_symbol(0xad), 'Ń');
    }
}
