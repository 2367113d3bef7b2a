//! The unikernel's settings, and the file that holds them: `strata.toml`, a small part of TOML (toml.io, 1.0). Lines `key = value`, where a value is a string without escapes, a
//! number or a truth; `[table]` lines group them and say nothing else.

use thiserror::Error;

/// What may be set, and what it means.
pub const SETTINGS: [(&str, &str); 25] = [
    ("api-key", "what clients must bring"),
    ("key", "the same"),
    (
        "api-key-sha256",
        "its SHA-256 instead, which tells nobody the key",
    ),
    ("shell", "off: the serial line takes no commands"),
    ("host", "a name that clients may know the machine by"),
    ("ip", "dhcp, or ADDRESS/PREFIX[,GATEWAY]"),
    ("gw", "the gateway"),
    ("port", "the port that clients call"),
    ("tls", "on: clients call by TLS 1.3 alone"),
    (
        "tls-cert",
        "its certificate, DER in base64; several by commas",
    ),
    (
        "tls-key",
        "that certificate's Ed25519 key, 64 hexadecimal digits",
    ),
    ("model", "image, disk, or the path of a file on a disk"),
    ("name", "what the model is called"),
    ("sha256", "the model's digest"),
    (
        "models",
        "more of them on disks: NAME=PATH or NAME=PATH=SHA256, by commas",
    ),
    ("ctx", "positions of a text"),
    ("threads", "processors that compute"),
    (
        "data",
        "off: nothing is kept on a data partition; on: also where settings are signed or sealed",
    ),
    ("watchdog", "seconds that a step may take; 0 for ever"),
    ("panic", "reboot, halt or exit"),
    ("console", "serial or screen: the screen too"),
    ("prompt", "a text that is continued at boot"),
    ("n", "its tokens"),
    ("temp", "its temperature"),
    ("seed", "its seed"),
];

/// Whether there is a setting of that name.
pub fn is_known(key: &str) -> bool {
    SETTINGS.iter().any(|(name, _)| *name == key)
}

/// A line that is not understood.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} is not {wanted}")]
pub struct SettingsFileError {
    /// Which, from 1.
    pub line: usize,
    /// What it should be.
    pub wanted: &'static str,
}

/// The keys and values of a file, in order.
pub fn pairs(text: &str) -> impl Iterator<Item = Result<(&str, &str), SettingsFileError>> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(index, line)| {
        let line = line.trim();
        let table = line.starts_with('[') && comment_only(line.split_once(']')?.1);
        if line.is_empty() || line.starts_with('#') || table {
            return None;
        }
        Some(pair(line).map_err(|wanted| SettingsFileError {
            line: index + 1,
            wanted,
        }))
    })
}

fn comment_only(rest: &str) -> bool {
    let rest = rest.trim();
    rest.is_empty() || rest.starts_with('#')
}

/// Whole, or with digits on both sides of a point.
fn is_number(value: &str) -> bool {
    let fraction = |(whole, rest): (&str, &str)| {
        whole.parse::<i64>().is_ok() && rest.bytes().all(|b| b.is_ascii_digit()) && !rest.is_empty()
    };
    value.parse::<i64>().is_ok() || value.split_once('.').is_some_and(fraction)
}

fn pair(line: &str) -> Result<(&str, &str), &'static str> {
    let form = "KEY = VALUE";
    let (key, rest) = line.split_once('=').ok_or(form)?;
    let (key, rest) = (key.trim(), rest.trim());
    let named = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if key.is_empty() || !key.bytes().all(named) {
        return Err(form);
    }
    for quote in ['"', '\''] {
        let Some(inner) = rest.strip_prefix(quote) else {
            continue;
        };
        let (value, after) = inner.split_once(quote).ok_or("a string that ends")?;
        if quote == '"' && value.contains('\\') {
            return Err("a string without backslashes: write those within '…'");
        }
        return if comment_only(after) {
            Ok((key, value))
        } else {
            Err(form)
        };
    }
    let (value, _) = rest.split_once('#').unwrap_or((rest, ""));
    let value = value.trim();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-_.".contains(&byte);
    let known = is_number(value) || value == "true" || value == "false";
    if known && !value.is_empty() && value.bytes().all(plain) {
        Ok((key, value))
    } else {
        Err("a \"string\", a number, true or false")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn values_of_each_kind_are_read() {
        let text = "# a comment\n\n[network] # of it\nip = \"10.0.0.1/8,10.0.0.2\" # mine\r\nport=80\n\
                    [model]\nmodel = '\\strata\\m.gguf'\ntemp = 0.5\nquiet = true\nempty = \"\"\n";
        let read: Vec<_> = pairs(text).map(Result::unwrap).collect();
        assert_eq!(
            read,
            [
                ("ip", "10.0.0.1/8,10.0.0.2"),
                ("port", "80"),
                ("model", "\\strata\\m.gguf"),
                ("temp", "0.5"),
                ("quiet", "true"),
                ("empty", "")
            ]
        );
    }

    #[test]
    fn what_is_not_understood_is_told_by_line() {
        for bad in [
            "key",
            "= 1",
            "a b = 1",
            "a = ",
            "a = \"x",
            "a = \"x\" y",
            "a = \"\\n\"",
            "a = 1.",
            "a = .5",
            "a = 1.5.2",
            "a = [1]",
            "a = { b = 1 }",
            "a = yes",
            "a.b = 1",
        ] {
            let text = alloc::format!("ok = 1\n{bad}\n");
            let error = pairs(&text).find_map(Result::err).expect(bad);
            assert_eq!(error.line, 2, "{bad}");
        }
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let picks = (0..12).map(|i| b"ab=\"'#[] \n\\1"[(state >> (8 + i * 4)) as usize % 12]);
            let bytes: Vec<u8> = picks.collect();
            pairs(core::str::from_utf8(&bytes).unwrap()).for_each(|_| {});
        }
    }
}
