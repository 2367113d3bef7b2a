//! What a program's ELF header says: which processor it is for, and whether it needs the system's libraries.

/// The type of the program header that names a dynamic linker.
const INTERPRETER: [u8; 4] = [3, 0, 0, 0];

/// The processor that a program is for, if it is a Linux executable that we know.
pub fn architecture(program: &[u8]) -> Option<&'static str> {
    let is_elf = program.starts_with(b"\x7fELF\x02\x01");
    match program.get(18..20).filter(|_| is_elf)? {
        [62, 0] => Some("x86_64"),
        [183, 0] => Some("aarch64"),
        _ => None,
    }
}

/// Whether a program runs without any other file. What cannot be read is not.
pub(crate) fn is_static(program: &[u8]) -> bool {
    let number = |at: usize, count: usize| {
        let bytes = program.get(at..at.checked_add(count)?)?;
        let number = bytes.iter().rev();
        Some(number.fold(0usize, |number, byte| number << 8 | usize::from(*byte)))
    };
    let headers = || {
        let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let header = |index: usize| {
            let at = table.checked_add(index.checked_mul(size)?)?;
            program.get(at..at.checked_add(4)?)
        };
        (0..count).map(header).collect::<Option<Vec<_>>>()
    };
    let dynamic = |headers: Vec<&[u8]>| headers.contains(&&INTERPRETER[..]);
    architecture(program).is_some() && headers().is_some_and(|headers| !dynamic(headers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_one_and_text_is_none() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(architecture(&program), Some(std::env::consts::ARCH));
        assert_eq!(is_static(&program), cfg!(target_feature = "crt-static"));
        for bytes in [&b""[..], b"#!/bin/sh", &program[..19], &program[..60]] {
            assert!(!is_static(bytes));
        }
        let mut other = program.clone();
        other[18] = 8;
        assert_eq!(architecture(&other), None);
        let mut wild = program;
        wild[32..40].fill(0xff);
        assert!(!is_static(&wild));
    }
}
