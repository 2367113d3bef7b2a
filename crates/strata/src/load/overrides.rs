//! Environment variables that set what would be measured. None of them changes a result.

use crate::error::{Error, ErrorKind};
use strata_kernels::{Choice, Tiles};

/// How far ahead weights are prefetched, in bytes.
const PREFETCH: &str = "STRATA_PREFETCH";

/// The other choices: `pass=4,resident=256,tiles-from=64`.
const POLICY: &str = "STRATA_POLICY";

/// What multiplies tiles: `off`, `amx` or `emulated`.
const TILES: &str = "STRATA_TILES";

/// What somebody has set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Overrides {
    prefetch: Option<usize>,
    pass: Option<usize>,
    resident_kib: Option<usize>,
    tiles_from: Option<usize>,
    pub(super) tiles: Option<Tiles>,
}

impl Overrides {
    pub(super) fn from_environment() -> Result<Self, Error> {
        Self::new(|name| std::env::var(name).ok())
    }

    fn new(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let set = |name: &str| {
            let value = variable(name).map(|value| value.trim().to_owned());
            value.filter(|value| !value.is_empty())
        };
        let mut found = Self::default();
        if let Some(bytes) = set(PREFETCH) {
            found.prefetch = Some(number(PREFETCH, &bytes, &bytes)?);
        }
        for part in set(POLICY).iter().flat_map(|text| text.split(',')) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let place = match key.trim() {
                "pass" => &mut found.pass,
                "resident" => &mut found.resident_kib,
                "tiles-from" => &mut found.tiles_from,
                _ => {
                    return Err(refusal(
                        POLICY,
                        part,
                        "pass=N, resident=KIB or tiles-from=N",
                    ));
                }
            };
            *place = Some(number(POLICY, part, value)?);
        }
        if let Some(name) = set(TILES) {
            let tiles = Tiles::from_name(&name);
            let tiles = tiles.ok_or_else(|| refusal(TILES, &name, "off, amx or emulated"))?;
            found.tiles = Some(tiles);
        }
        Ok(found)
    }

    /// Replaces what is set.
    pub(super) fn apply(&self, choice: &mut Choice) {
        choice.distance = self.prefetch.unwrap_or(choice.distance);
        choice.pass = self.pass.unwrap_or(choice.pass);
        choice.resident_kib = self.resident_kib.unwrap_or(choice.resident_kib);
        choice.tiles_from = self.tiles_from.unwrap_or(choice.tiles_from);
    }

    /// Whether [`Self::apply`] changes anything.
    pub(super) fn is_empty(&self) -> bool {
        let choices = Self {
            tiles: None,
            ..self.clone()
        };
        choices == Self::default()
    }
}

fn number(variable: &str, shown: &str, text: &str) -> Result<usize, Error> {
    let number = text.trim().parse();
    number.map_err(|_| refusal(variable, shown, "a number"))
}

fn refusal(variable: &str, text: &str, expected: &str) -> Error {
    let fault = format_args!("{variable}: {text:?} is not {expected}");
    Error::new(ErrorKind::InvalidArgument, fault)
        .with_hint(format_args!("unset {variable} to use what is measured"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &'static str, value: &'static str) -> Result<Overrides, Error> {
        Overrides::new(|variable| (variable == name).then(|| value.into()))
    }

    #[test]
    fn variables_replace_what_is_measured() {
        let mut choice = Choice::default();
        of(PREFETCH, " 2304 ").unwrap().apply(&mut choice);
        assert_eq!(choice.distance, 2304);
        of(POLICY, "pass=4, tiles-from=64")
            .unwrap()
            .apply(&mut choice);
        let expected = Choice {
            distance: 2304,
            pass: 4,
            tiles_from: 64,
            ..Choice::default()
        };
        assert_eq!(choice, expected);
        assert_eq!(of(TILES, "off").unwrap().tiles, Some(Tiles::Off));
        assert!(of(TILES, "off").unwrap().is_empty());
        assert_eq!(of(POLICY, "").unwrap(), Overrides::default());
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let wrong = [
            (PREFETCH, "far"),
            (POLICY, "speed=9"),
            (POLICY, "pass=many"),
            (POLICY, "pass"),
            (TILES, "on"),
        ];
        for (name, value) in wrong {
            let refused = format!("{:?}", of(name, value).unwrap_err());
            assert!(
                refused.contains(name) && refused.contains(value),
                "{refused}"
            );
        }
    }
}
