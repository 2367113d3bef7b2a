//! Settings for an image from a file, read as the unikernel reads them.

use crate::failure::{Failure, Kind};
use std::path::Path;
use strata_image::Setting;
use strata_image::settings::{SETTINGS, is_known, pairs};

/// The settings, in order.
pub(super) fn read(path: &Path) -> Result<Vec<Setting>, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::io(path.display(), &error))?;
    parse(&text).map_err(|problem| {
        let names = SETTINGS.map(|(name, _)| name).join(", ");
        Failure::new(Kind::Usage, format_args!("{}: {problem}", path.display())).hint(format_args!(
            "expected KEY = VALUE, where KEY is one of {names}"
        ))
    })
}

fn parse(text: &str) -> Result<Vec<Setting>, String> {
    let setting = |pair| {
        let (key, value): (&str, &str) = pair;
        if !is_known(key) {
            Err(format!("unknown setting {key}"))
        } else if value.is_empty() {
            Err(format!("the setting {key} has no value"))
        } else {
            Ok((key.into(), value.into()))
        }
    };
    let pairs = pairs(text).map(|pair| pair.map_err(|error| error.to_string()).and_then(setting));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let text = "  # nothing\n[network]\nport = 80 # the usual one\nip=\"10.0.0.5/24\"\n";
        let read = parse(text).unwrap();
        assert_eq!(read, [pair("port", "80"), pair("ip", "10.0.0.5/24")]);
        for (line, problem) in [
            ("port", "line 1"),
            ("colour = 3", "colour"),
            ("port = \"80", "line 1"),
            ("port =", "line 1"),
            ("port = 1 2", "line 1"),
            ("name = \"\"", "name"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(problem), "{line}: {error}");
        }
    }
}
