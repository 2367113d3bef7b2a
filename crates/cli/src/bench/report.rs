//! What was measured, in words and as JSON.

use super::Arguments;
use super::demand::Demand;
use crate::chart::{Bar, Chart, Tone};
use crate::machine_limits::median;
use std::io::Write;
use std::time::Duration;
use strata::load::Machine;
use strata_engine::Usage;
use strata_platform::Pool;

/// What was measured. Speeds are tokens a second, of each repeat.
pub(super) struct Report {
    load: Duration,
    demand: Demand,
    pub(super) prefill: Vec<f64>,
    pub(super) decode: Vec<f64>,
    /// Of all texts that are decoded side by side.
    pub(super) aggregate: Vec<f64>,
    /// Of a text that repeats its prompt, with guesses and without.
    pub(super) speculated: Vec<f64>,
    pub(super) unspeculated: Vec<f64>,
    /// The most memory that the process had.
    pub(super) peak_bytes: u64,
    /// What the text with guesses took.
    pub(super) usage: Usage,
    /// Bytes a second, around each measurement of `decode`; or one figure for all of them.
    pub(super) read_bandwidth: Vec<f64>,
    /// Operations a second.
    pub(super) int_peak: Option<f64>,
}

impl Report {
    pub(super) fn new(load: Duration, demand: Demand) -> Self {
        Self {
            load,
            demand,
            prefill: Vec::new(),
            decode: Vec::new(),
            aggregate: Vec::new(),
            speculated: Vec::new(),
            unspeculated: Vec::new(),
            peak_bytes: 0,
            usage: Usage::default(),
            read_bandwidth: Vec::new(),
            int_peak: None,
        }
    }

    pub(super) fn print(mut self, arguments: &Arguments, machine: &Machine) -> std::io::Result<()> {
        // Before the medians sort what belongs together.
        let read_share = self.read_share();
        if arguments.json {
            let json = self.json(arguments, machine, read_share);
            return writeln!(std::io::stdout().lock(), "{json}");
        }
        self.words(arguments, machine, read_share)
    }

    /// A chart of each speed, with a bar for each repeat, and of the memory that decode reads.
    pub(super) fn charts(&self) -> Vec<Chart> {
        let middle = |speeds: &[f64]| median(&mut speeds.to_vec());
        let bar = |label: String, value: f64| Bar {
            label,
            value,
            words: format!("{value:.1}"),
            tone: Tone::Solid,
        };
        let kinds = [
            ("Prefill", &self.prefill),
            ("Decode", &self.decode),
            ("Decode, all sequences together", &self.aggregate),
            ("Decode with drafts", &self.speculated),
        ];
        let measured = kinds.into_iter().filter(|(_, speeds)| !speeds.is_empty());
        let mut charts: Vec<Chart> = measured
            .map(|(name, speeds)| Chart {
                title: format!("{name}, tokens/s"),
                bars: (1..)
                    .zip(speeds)
                    .map(|(n, &speed)| bar(format!("run {n}"), speed))
                    .collect(),
                mark: Some((middle(speeds), format!("median {:.1}", middle(speeds)))),
            })
            .collect();
        if !self.read_bandwidth.is_empty() && !self.decode.is_empty() {
            let read = middle(&self.decode) * self.demand.bytes / 1e9;
            let most = middle(&self.read_bandwidth) / 1e9;
            charts.push(Chart {
                title: "Memory read by decode, GB/s".into(),
                bars: vec![bar("decode".into(), read)],
                mark: Some((most, format!("this machine {most:.1}"))),
            });
        }
        charts
    }

    fn json(
        &mut self,
        arguments: &Arguments,
        machine: &Machine,
        read_share: Option<f64>,
    ) -> serde_json::Value {
        let mut json = serde_json::json!({
            "model": arguments.model.display().to_string(),
            "prefill_tok_s": median(&mut self.prefill),
            "decode_tok_s": median(&mut self.decode),
            "peak_rss_bytes": self.peak_bytes,
            "load_s": self.load.as_secs_f64(),
            "isa": machine.kernels.isa().name(),
            "threads": machine.pool.workers(),
            "prompt_tokens": arguments.prompt,
            "decode_tokens": arguments.tokens,
            "ctx_used": arguments.ctx_used,
            "batch": arguments.compute.batch,
            "repeat": arguments.repeat,
            "bytes_per_token": self.demand.bytes,
            "ops_per_token": self.demand.operations,
        });
        if let Some(sequences) = arguments.sequences {
            json["sequences"] = sequences.into();
            json["aggregate_tok_s"] = median(&mut self.aggregate).into();
        }
        if let Some(guesses) = arguments.speculate {
            json["speculate"] = guesses.into();
            json["speculated_tok_s"] = median(&mut self.speculated).into();
            json["unspeculated_tok_s"] = median(&mut self.unspeculated).into();
            json["drafted_tokens"] = self.usage.drafted_tokens.into();
            json["accepted_tokens"] = self.usage.accepted_tokens.into();
        }
        if let Some(share) = read_share {
            json["read_bandwidth_bytes_s"] = median(&mut self.read_bandwidth).into();
            json["read_share"] = share.into();
        }
        if let Some(operations) = self.int_peak {
            json["int_peak_ops_s"] = operations.into();
            json["int_share"] = self.int_share(operations).into();
        }
        json
    }

    /// What decode reads of what can be read.
    fn read_share(&self) -> Option<f64> {
        let last = self.read_bandwidth.last()?;
        let bandwidths = self.read_bandwidth.iter().chain(std::iter::repeat(last));
        let shares = self.decode.iter().zip(bandwidths);
        let mut shares: Vec<f64> = shares
            .map(|(decode, bandwidth)| decode * self.demand.bytes / bandwidth)
            .collect();
        Some(median(&mut shares))
    }

    /// What prefill computes of what can be computed.
    fn int_share(&mut self, operations: f64) -> f64 {
        median(&mut self.prefill) * self.demand.operations / operations
    }

    fn words(
        &mut self,
        arguments: &Arguments,
        machine: &Machine,
        read_share: Option<f64>,
    ) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        let mut speed = |name: &str, tokens: u32, speeds: &mut [f64], rest: String| {
            let middle = median(speeds);
            let (least, most) = (speeds[0], speeds[speeds.len() - 1]);
            writeln!(
                out,
                "{name} {tokens:>6} tokens  {middle:>9.2} tok/s  ({least:.2} to {most:.2}){rest}",
            )
        };
        let after = match arguments.ctx_used {
            0 => String::new(),
            used => format!(" after {used} positions"),
        };
        speed(
            "prefill",
            arguments.prompt,
            &mut self.prefill,
            String::new(),
        )?;
        speed("decode ", arguments.tokens, &mut self.decode, after)?;
        if let Some(n) = arguments.sequences {
            let rest = format!(" in total, for {n} sequences at once");
            speed("batch  ", arguments.tokens, &mut self.aggregate, rest)?;
        }
        if let Some(guesses) = arguments.speculate {
            let (accepted, drafted) = (self.usage.accepted_tokens, self.usage.drafted_tokens);
            let rest = format!(
                " repeating the prompt, drafts of {guesses} tokens, {accepted} of {drafted} accepted; {:.2} tok/s without drafts",
                median(&mut self.unspeculated)
            );
            speed("drafted", arguments.tokens, &mut self.speculated, rest)?;
        }
        if let Some(share) = read_share {
            writeln!(
                out,
                "memory bandwidth {:.1} GB/s, of which decode reaches {:.0}%",
                median(&mut self.read_bandwidth) / 1e9,
                100.0 * share
            )?;
        }
        if let Some(operations) = self.int_peak {
            writeln!(
                out,
                "integer peak {:.3} Tops/s, of which prefill reaches {:.0}%",
                operations / 1e12,
                100.0 * self.int_share(operations)
            )?;
        }
        writeln!(
            out,
            "isa {}, threads {}; loaded in {:.3} s; peak memory {:.1} MB",
            machine.kernels.isa(),
            machine.pool.workers(),
            self.load.as_secs_f64(),
            self.peak_bytes as f64 / 1e6
        )
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut [9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 2.0, 1.0, 9.0]), 3.0);
    }
}
