//! What measured boot takes the digest of, so that whoever writes an image and the machine that runs it say the same.

use crate::settings::SETTINGS;
use alloc::string::String;
use strata_platform::Sha256;

/// The digest of a program: what is never written to, and what variables begin with. Pointers among these, eight bytes at
/// each of `pointers` (which rise), say where the program was put, and count as zeros.
pub fn program(fixed: &[u8], variables: &[u8], pointers: impl Iterator<Item = usize>) -> [u8; 32] {
    let mut sum = Sha256::new();
    sum.update(fixed);
    let mut at = 0;
    for pointer in pointers {
        let end = pointer.saturating_add(8).min(variables.len());
        if let Some(between) = variables.get(at..pointer) {
            sum.update(between);
            sum.update(&[0; 8][..end - pointer]);
            at = end;
        }
    }
    sum.update(&variables[at..]);
    sum.finalize()
}

/// Settings as they are measured: a line for each that there is, in a fixed order.
pub fn settings<'a>(sealed: bool, value: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut out = String::new();
    if sealed {
        out += "sealed\n";
    }
    for (name, _) in SETTINGS {
        if let Some(value) = value(name) {
            for piece in [name, "=", value, "\n"] {
                out += piece;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_count_as_zeros_and_nothing_else_does() {
        let (fixed, plain) = ([1, 2, 3], [9u8; 40]);
        let sum = |bytes: &[u8]| program(&fixed, bytes, [8, 24].into_iter());
        let expected = sum(&plain);
        for at in 0..40 {
            let mut changed = plain;
            changed[at] ^= 1;
            let is_pointer = (8..16).contains(&at) || (24..32).contains(&at);
            assert_eq!(sum(&changed) == expected, is_pointer, "{at}");
        }
        assert_ne!(program(&[1, 2, 4], &plain, [8, 24].into_iter()), expected);
        // Nonsense does no harm.
        program(&fixed, &plain, [36, 8, 900, usize::MAX].into_iter());
    }

    #[test]
    fn settings_are_measured_in_one_order() {
        let value = |name: &str| match name {
            "port" => Some("80"),
            "api-key" => Some("secret-key"),
            _ => None,
        };
        assert_eq!(
            settings(true, value),
            "sealed\napi-key=secret-key\nport=80\n"
        );
        assert_eq!(settings(false, |_| None), "");
    }
}
