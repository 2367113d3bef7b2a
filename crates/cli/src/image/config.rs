//! Settings for an image from a file: lines `key = value`, a small part of TOML.

use crate::failure::{Failure, Kind};
use std::path::Path;
use strata_image::Setting;

/// What the unikernel understands.
const KEYS: [&str; 18] = [
    "api-key", "key", "name", "host", "ip", "gw", "port", "model", "sha256", "ctx", "threads",
    "watchdog", "panic", "console", "prompt", "n", "temp", "seed",
];

/// The settings, in order.
pub(super) fn read(path: &Path) -> Result<Vec<Setting>, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::io(path.display(), &error))?;
    let lines = text.lines().enumerate().filter_map(|(number, line)| {
        parse(line).map(|result| {
            result.map_err(|problem| {
                let place = format_args!("{}, line {}: {problem}", path.display(), number + 1);
                Failure::new(Kind::Usage, place).hint(format_args!(
                    "KEY = VALUE, with a KEY of {}",
                    KEYS.join(", ")
                ))
            })
        })
    });
    lines.collect()
}

/// A line's setting; nothing where it is empty or only a comment.
fn parse(line: &str) -> Option<Result<Setting, &'static str>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    Some(setting(line))
}

fn setting(line: &str) -> Result<Setting, &'static str> {
    let (key, value) = line.split_once('=').ok_or("there is no = in it")?;
    let (key, value) = (key.trim(), value.trim());
    if !KEYS.contains(&key) {
        return Err("there is no such setting");
    }
    let (value, rest) = match value.strip_prefix('"') {
        Some(text) => text.split_once('"').ok_or("a quote is missing")?,
        None => value.split_at(value.find(['#', ' ', '\t']).unwrap_or(value.len())),
    };
    let rest = rest.trim();
    if value.contains('\\') {
        return Err("a backslash means nothing here");
    }
    if value.is_empty() || !(rest.is_empty() || rest.starts_with('#')) {
        return Err("what follows the = is not one value");
    }
    Ok((key.into(), value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let pair = |key: &str, value: &str| Some(Ok((key.to_owned(), value.to_owned())));
        assert_eq!(parse("port = 80 # the usual one"), pair("port", "80"));
        assert_eq!(parse("ip=\"10.0.0.5/24\""), pair("ip", "10.0.0.5/24"));
        assert_eq!(parse("  # nothing"), None);
        for line in [
            "port",
            "colour = 3",
            "port = \"80",
            "port =",
            "port = 1 2",
            "[table]",
        ] {
            assert!(parse(line).is_some_and(|result| result.is_err()), "{line}");
        }
    }
}
