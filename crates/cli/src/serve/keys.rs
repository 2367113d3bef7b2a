//! API keys from a file: a line for each, with a name, the key, and perhaps what it allows.

use crate::failure::{Failure, Kind};
use std::path::Path;
use strata_server::Key;

/// What makes a key an administrator's. A model of this name is written with its tag.
const ADMIN: &str = "admin";

/// A key shorter than this could be guessed.
const SHORTEST: usize = 8;

/// Reads a file of keys. Empty lines and lines that begin with `#` do not count.
pub(super) fn read(path: &Path) -> Result<Vec<Key>, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::io(path.display(), &error))?;
    let mut keys: Vec<Key> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = parse(line).map_err(|problem| {
            let place = format_args!("{}, line {}: {problem}", path.display(), number + 1);
            Failure::new(Kind::Usage, place)
                .hint("NAME KEY [admin] [requests-per-minute] [model,model…]")
        })?;
        if keys.iter().any(|known| known.secret == key.secret) {
            let place = format_args!("{}, line {}: duplicate key", path.display(), number + 1);
            return Err(Failure::new(Kind::Usage, place));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// A key from the command line, which allows everything.
pub(super) fn unlimited(secret: &str) -> Result<Key, Failure> {
    parse(&format!("api-key {secret} {ADMIN}"))
        .map_err(|problem| Failure::new(Kind::Usage, format_args!("--api-key: {problem}")))
}

fn parse(line: &str) -> Result<Key, &'static str> {
    let mut words = line.split_whitespace();
    let (Some(name), Some(secret)) = (words.next(), words.next()) else {
        return Err("the key is missing");
    };
    if secret.len() < SHORTEST {
        return Err("the key must have at least 8 characters");
    }
    let mut key = Key {
        name: name.into(),
        secret: secret.into(),
        per_minute: None,
        models: Vec::new(),
        administers: false,
    };
    for word in words {
        match word.parse::<u32>() {
            Err(_) if word == ADMIN && !key.administers => key.administers = true,
            Ok(0) => return Err("the limit must be at least 1 request per minute"),
            Ok(limit) if key.per_minute.is_none() => key.per_minute = Some(limit),
            _ if key.models.is_empty() => key.models = word.split(',').map(str::to_owned).collect(),
            _ => return Err("unexpected text after the models"),
        }
    }
    if key.administers && !key.models.is_empty() {
        return Err("an administrator's key is for all models");
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_key_with_its_limits() {
        let key = parse("ada secret-key 60 tale,other").unwrap();
        assert_eq!((key.name.as_str(), key.per_minute), ("ada", Some(60)));
        assert_eq!(key.models, ["tale", "other"]);
        assert_eq!(parse("ada secret-key tale").unwrap().models, ["tale"]);
        assert!(!key.administers);
        let admin = parse("ada secret-key admin 60").unwrap();
        assert!(admin.administers && admin.per_minute == Some(60));
        assert!(unlimited("secret-key").unwrap().administers);
        for line in [
            "ada",
            "ada short",
            "ada secret-key 0",
            "ada secret-key 1 a b",
            "ada secret-key admin tale",
            "ada secret-key admin admin",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
