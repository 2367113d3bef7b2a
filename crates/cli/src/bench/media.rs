//! What measurements of images and of audio have in common: stages, one after the other.

use crate::failure::{Failure, Kind};
use crate::machine_limits::median;
use serde_json::{Map, Value};
use std::io::{BufRead, Write};

/// Stages by name, with seconds.
#[derive(Clone, Debug)]
pub(super) struct Stages(pub(super) Vec<(&'static str, f64)>);

impl Stages {
    /// The middle of each stage.
    pub(super) fn medians(all: &[Self]) -> Self {
        let names = all.first().map_or(&[][..], |first| &first.0);
        let middle = |index: usize| {
            let mut values: Vec<f64> = all.iter().map(|stages| stages.0[index].1).collect();
            median(&mut values)
        };
        let stages = names.iter().enumerate();
        Self(stages.map(|(at, &(name, _))| (name, middle(at))).collect())
    }

    /// The seconds of a stage.
    pub(super) fn get(&self, name: &str) -> f64 {
        let found = self.0.iter().find(|(stage, _)| *stage == name);
        found.map_or(f64::NAN, |&(_, seconds)| seconds)
    }

    pub(super) fn sum(&self) -> f64 {
        self.0.iter().map(|(_, seconds)| seconds).sum()
    }

    pub(super) fn json(&self) -> Value {
        let stages = self.0.iter();
        let map: Map<String, Value> = stages
            .map(|&(name, seconds)| (name.to_owned(), seconds.into()))
            .collect();
        Value::Object(map)
    }

    /// A line for each stage.
    pub(super) fn print(&self, out: &mut impl Write, title: &str) -> std::io::Result<()> {
        writeln!(out, "{title}")?;
        for (name, seconds) in &self.0 {
            let name = name.strip_suffix("_s").unwrap_or(name);
            writeln!(out, "  {name:<10} {:>9.1} ms", 1e3 * seconds)?;
        }
        writeln!(out, "  {:<10} {:>9.1} ms", "all", 1e3 * self.sum())
    }
}

/// What so many operations in so many seconds are of a peak.
pub(super) fn share(operations: f64, seconds: f64, peak: f64) -> f64 {
    operations / seconds / peak
}

/// Answers each line of standard input, which is `word`, with what `measure` gives.
pub(super) fn turn_by_turn(
    word: &str,
    mut measure: impl FnMut() -> Result<Value, Failure>,
) -> Result<(), Failure> {
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::new(Kind::Usage, error))?;
        if line.trim() != word {
            let sentence = format!("unknown measurement {:?}: expected `{word}`", line.trim());
            return Err(Failure::new(Kind::Usage, sentence));
        }
        let answer = measure()?;
        writeln!(std::io::stdout().lock(), "{answer}").map_err(|error| Failure::stdout(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Stages;

    #[test]
    fn each_stage_has_its_own_median() {
        let stages = |a, b| Stages(vec![("a_s", a), ("b_s", b)]);
        let middle = Stages::medians(&[stages(1.0, 9.0), stages(3.0, 7.0), stages(2.0, 8.0)]);
        assert_eq!(middle.0, [("a_s", 2.0), ("b_s", 8.0)]);
        assert_eq!(middle.sum(), 10.0);
        assert_eq!(middle.get("b_s"), 8.0);
    }
}
