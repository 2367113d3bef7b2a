//! How far a quantized model is from its source: what each makes of the same text.

use crate::computing::ComputeArguments;
use crate::failure::{Failure, Kind};
use crate::progress;
use crate::scorer::{self, Scorer};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;
use strata::load::Machine;
use strata::load::ModelFile;
use strata::load::{CheckedModel, TokenizerUse};
use strata_model::Output;
use strata_tokenizer::EncodeOptions;

/// What is read where no text is given.
const TEXT: &str = include_str!("verify.txt");

/// What was found.
pub(super) struct Distance {
    pub(super) positions: usize,
    /// The mean divergence of the copy's probabilities from the source's, in nats.
    pub(super) mean_kl: f64,
    /// The largest.
    pub(super) max_kl: f64,
    /// The share of positions whose likeliest token is the same.
    pub(super) same_top: f64,
}

impl Distance {
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "positions": self.positions,
            "mean_kl": self.mean_kl,
            "max_kl": self.max_kl,
            "same_top": self.same_top,
        })
    }
}

impl std::fmt::Display for Distance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "compared with the source over {} tokens: mean KL {:.5} (max {:.4}), same top token {:.1}%",
            self.positions,
            self.mean_kl,
            self.max_kl,
            100.0 * self.same_top
        )
    }
}

/// A text, and how much of it counts.
pub(super) struct Trial<'a> {
    pub(super) text: Option<&'a Path>,
    pub(super) positions: usize,
    pub(super) compute: &'a ComputeArguments,
}

impl Trial<'_> {
    /// Compares two models. The source's scores wait in a temporary file, so that one model is in memory at a time.
    pub(super) fn run(&self, source: &Path, copy: &Path) -> Result<Distance, Failure> {
        let text = match self.text {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| Failure::io(path.display(), &error))?,
            None => TEXT.to_owned(),
        };
        let machine = self.compute.machine()?;
        let io = |error: std::io::Error| Failure::io("a temporary file for scores", &error);
        let mut file = tempfile::tempfile().map_err(io)?;
        let mut scores = BufWriter::new(&mut file);
        let positions = self.score(source, &text, &machine, &mut |row| {
            row.iter()
                .try_for_each(|logit| scores.write_all(&logit.to_le_bytes()))
                .map_err(io)
        })?;
        scores.flush().map_err(io)?;
        drop(scores);
        file.rewind().map_err(io)?;
        self.compare(copy, &text, &machine, file, positions)
    }

    fn compare(
        &self,
        copy: &Path,
        text: &str,
        machine: &Machine,
        scores: File,
        positions: usize,
    ) -> Result<Distance, Failure> {
        let mut scores = BufReader::with_capacity(1 << 20, scores);
        let (mut sum, mut largest, mut same) = (0.0, 0.0f64, 0usize);
        let mut row = Vec::new();
        let read = self.score(copy, text, machine, &mut |copied| {
            row.clear();
            for _ in copied {
                let mut bytes = [0; 4];
                scores
                    .read_exact(&mut bytes)
                    .map_err(|error| Failure::io("the scores of the source", &error))?;
                row.push(f32::from_le_bytes(bytes));
            }
            let divergence = kl(&row, copied);
            sum += divergence;
            largest = largest.max(divergence);
            same += usize::from(likeliest(&row) == likeliest(copied));
            Ok(())
        })?;
        if read != positions {
            return Err(Failure::new(
                Kind::Failed,
                "the two models tokenize the text differently",
            ));
        }
        let count = positions.max(1) as f64;
        Ok(Distance {
            positions,
            mean_kl: sum / count,
            max_kl: largest,
            same_top: same as f64 / count,
        })
    }

    /// The scores of each position, and how many there are.
    fn score(
        &self,
        model: &Path,
        text: &str,
        machine: &Machine,
        each: &mut dyn FnMut(&[f32]) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        let file = ModelFile::open(model)?;
        let checked = CheckedModel::new(&file, Some(self.positions), TokenizerUse::Required)?;
        let mut tokens = checked.tokenizer()?.encode(
            text,
            EncodeOptions {
                add_special: true,
                parse_special: false,
            },
        );
        tokens.truncate(self.positions);
        if tokens.len() < 2 {
            return Err(Failure::new(Kind::Usage, "the text has no tokens"));
        }
        let needs = scorer::needs(tokens.len(), self.compute, machine);
        let (loaded, kv) = self.compute.load(checked, needs, machine)?;
        let mut scorer = Scorer::new(&loaded, kv, &needs, machine);
        let bar = progress::bar(tokens.len() as u64, "verifying {wide_bar} {pos}/{len}");
        scorer.feed(&tokens, Output::AllLogits, &mut |row| {
            bar.inc(1);
            each(row)
        })?;
        bar.finish_and_clear();
        Ok(tokens.len())
    }
}

/// The divergence of the probabilities that `b`'s scores stand for from those of `a`'s.
fn kl(a: &[f32], b: &[f32]) -> f64 {
    let (a_log, b_log) = (log_sum(a), log_sum(b));
    let terms = a.iter().zip(b).map(|(&a, &b)| {
        let (a, b) = (f64::from(a) - a_log, f64::from(b) - b_log);
        a.exp() * (a - b)
    });
    // Rounding can make nothing a little less than nothing.
    terms.sum::<f64>().max(0.0)
}

fn log_sum(scores: &[f32]) -> f64 {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let largest = f64::from(largest);
    let sum: f64 = scores.iter().map(|&s| (f64::from(s) - largest).exp()).sum();
    largest + sum.ln()
}

fn likeliest(scores: &[f32]) -> Option<usize> {
    (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]).then(b.cmp(&a)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergence_is_that_of_the_probabilities() {
        let halves = [0.0, 0.0];
        let quarter = [0.0f32, 3f32.ln()];
        assert!(kl(&halves, &halves) == 0.0);
        // A shift of all scores changes no probability.
        assert!(kl(&halves, &[7.0, 7.0]) < 1e-12);
        let expected = 0.5 * (0.5f64 / 0.25).ln() + 0.5 * (0.5f64 / 0.75).ln();
        assert!((kl(&halves, &quarter) - expected).abs() < 1e-6);
        assert_eq!(likeliest(&[1.0, 3.0, 3.0]), Some(1));
    }
}
