//! What is done to the compiler's words: names go, and no operation on floats may be joined with another.

use anyhow::{Result, ensure};

const MAGIC: u32 = 0x0723_0203;
/// Words before the instructions.
const HEADER: usize = 5;

/// Texts for readers: `OpSource` and its continuation and extensions, names of variables and members, files, lines.
const TEXTS: [u16; 7] = [2, 3, 4, 5, 6, 7, 8];
const EXT_INST: u16 = 12;
const FUNCTION: u16 = 54;
const DECORATE: u16 = 71;
/// The first of the instructions that declare types, before which decorations end.
const TYPES: std::ops::RangeInclusive<u16> = 19..=39;
/// Negations, additions, subtractions, products, quotients of floats.
const ARITHMETIC: [u16; 5] = [127, 129, 131, 133, 136];
/// `Sqrt` and `Fma` of the extended instructions.
const EXTENDED: [u32; 2] = [31, 50];
const NO_CONTRACTION: u32 = 42;

/// Takes out names, and decorates all arithmetic with `NoContraction`.
pub(super) fn finish(bytes: &[u8]) -> Result<Vec<u8>> {
    let words: Vec<u32> = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|word| u32::from_le_bytes(*word))
        .collect();
    ensure!(
        words.len() > HEADER && words[0] == MAGIC,
        "the compiler gave no SPIR-V"
    );
    let mut instructions = Vec::new();
    let mut rest = &words[HEADER..];
    while let Some(&first) = rest.first() {
        let (len, code) = ((first >> 16) as usize, first as u16);
        ensure!(
            len > 0 && len <= rest.len(),
            "the compiler's words end early"
        );
        let (instruction, after) = rest.split_at(len);
        rest = after;
        if !TEXTS.contains(&code) {
            instructions.push((code, instruction));
        }
    }
    let results = instructions.iter().filter_map(|(code, words)| match *code {
        EXT_INST if EXTENDED.contains(&words[4]) => Some(words[2]),
        code if ARITHMETIC.contains(&code) => Some(words[2]),
        _ => None,
    });
    let decorations: Vec<u32> = results
        .flat_map(|id| [3 << 16 | u32::from(DECORATE), id, NO_CONTRACTION])
        .collect();
    let types = instructions
        .iter()
        .position(|(code, _)| TYPES.contains(code));
    let body = instructions.iter().position(|(code, _)| *code == FUNCTION);
    ensure!(
        types.is_some() && types < body,
        "the compiler gave no types"
    );
    let mut out = words[..HEADER].to_vec();
    for (index, (code, instruction)) in instructions.iter().enumerate() {
        if Some(index) == types {
            out.extend(&decorations);
        }
        // The compiler's own, of which there are some, would be a second one.
        let own = *code == DECORATE && instruction[2] == NO_CONTRACTION;
        if !own {
            out.extend(*instruction);
        }
    }
    Ok(out.iter().flat_map(|word| word.to_le_bytes()).collect())
}

#[cfg(test)]
mod tests {
    use super::{HEADER, MAGIC, finish};

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn arithmetic_is_decorated_and_names_are_gone() {
        let header = [MAGIC, 0x10600, 0, 9, 0];
        let name = [2 << 16 | 5, 1];
        let float = [3 << 16 | 22, 2, 32];
        let function = [5 << 16 | 54, 2, 3, 0, 4];
        let product = [5 << 16 | 133, 2, 5, 6, 6];
        let words = [&header[..], &name, &float, &function, &product].concat();
        let decorated = [3 << 16 | 71, 5, 42];
        let expected = [&header[..], &decorated, &float, &function, &product].concat();
        assert_eq!(finish(&bytes(&words)).unwrap(), bytes(&expected));
        assert_eq!(header.len(), HEADER);
    }

    #[test]
    fn what_is_no_module_is_refused() {
        for words in [
            &[][..],
            &[1, 2, 3, 4, 5, 6],
            &[MAGIC, 0, 0, 0, 0, 9 << 16 | 22],
        ] {
            assert!(finish(&bytes(words)).is_err());
        }
    }
}
