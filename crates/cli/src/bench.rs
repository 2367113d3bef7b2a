//! `strata bench`: how fast a model reads a prompt and writes an answer on this machine.

use crate::computing::ComputeArguments;
use crate::failure::Failure;
use crate::loaded_model::{CheckedModel, Words};
use crate::machine::Machine;
use crate::model_file::ModelFile;
use crate::scorer::{self, Scorer};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use strata_engine::random::{Random, Stream};
use strata_host::Usage;
use strata_model::Output;
use strata_platform::Pool;

/// Measure a model's speed
///
/// Prefill computes a prompt of random tokens; decode computes random tokens one by one, from an empty context on. Of
/// the repeats the median counts.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model's file, or `tale` for the built-in model
    model: PathBuf,
    /// Tokens of the prompt
    #[arg(short, long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    prompt: u32,
    /// Tokens decoded one by one
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    tokens: u32,
    /// How often each is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: ComputeArguments,
}

/// What was measured.
struct Report {
    load_s: f64,
    /// Tokens a second, of each repeat, in ascending order.
    prefill: Vec<f64>,
    decode: Vec<f64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let machine = arguments.compute.machine()?;
    let (prompt, decoded) = (arguments.prompt as usize, arguments.tokens as usize);
    let positions = prompt.max(decoded);
    let file = ModelFile::open_as(&arguments.model, arguments.compute.quant)?;
    let checked = CheckedModel::new(&file, Some(positions), Words::IfAny)?;
    let needs = scorer::needs(positions, &arguments.compute, &machine);
    let (loaded, kv) = checked.load(
        needs,
        arguments.compute.stream,
        &arguments.compute,
        &machine,
    )?;
    let mut random = Random::new(1, Stream::Token);
    let vocabulary = loaded.model.config().vocabulary as u64;
    let tokens: Vec<u32> = (0..positions)
        .map(|_| (random.next_u64() % vocabulary) as u32)
        .collect();
    let mut scorer = Scorer::new(&loaded, kv, &needs, &machine);

    // The first touch of every page and the clock's rise belong to no measurement.
    measure(&mut scorer, &tokens[..prompt.min(32)], prompt)?;
    let mut report = Report {
        load_s: loaded.load_time.as_secs_f64(),
        prefill: Vec::new(),
        decode: Vec::new(),
    };
    for _ in 0..arguments.repeat {
        let speed = measure(&mut scorer, &tokens[..prompt], prompt)?;
        report.prefill.push(speed);
        let speed = measure(&mut scorer, &tokens[..decoded], 1)?;
        report.decode.push(speed);
    }
    report.prefill.sort_by(f64::total_cmp);
    report.decode.sort_by(f64::total_cmp);
    report
        .print(arguments, &machine)
        .map_err(|error| Failure::stdout(&error))
}

/// Tokens a second through a new sequence, `step` at a time, with the logits that sampling would need.
fn measure(scorer: &mut Scorer<'_>, tokens: &[u32], step: usize) -> Result<f64, Failure> {
    scorer.restart();
    let start = Instant::now();
    for step in tokens.chunks(step) {
        scorer.feed(step, Output::LastLogits, &mut |_| Ok(()))?;
    }
    Ok(tokens.len() as f64 / start.elapsed().as_secs_f64())
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

impl Report {
    fn print(&self, arguments: &Arguments, machine: &Machine) -> std::io::Result<()> {
        let (isa, threads) = (machine.kernels.isa(), machine.pool.workers());
        let rss = Usage::now().map_or(0, |usage| usage.peak_bytes);
        let mut out = std::io::stdout().lock();
        if arguments.json {
            let json = serde_json::json!({
                "model": arguments.model.display().to_string(),
                "prefill_tok_s": median(&self.prefill),
                "decode_tok_s": median(&self.decode),
                "peak_rss_bytes": rss,
                "load_s": self.load_s,
                "isa": isa.name(),
                "threads": threads,
                "prompt_tokens": arguments.prompt,
                "decode_tokens": arguments.tokens,
                "batch": arguments.compute.batch,
                "repeat": arguments.repeat,
            });
            return writeln!(out, "{json}");
        }
        let mut speed = |name: &str, tokens: u32, of: &[f64]| {
            let (least, most) = (of[0], of[of.len() - 1]);
            writeln!(
                out,
                "{name} {tokens:>6} tokens  {:>9.2} tok/s  ({least:.2} to {most:.2})",
                median(of)
            )
        };
        speed("prefill", arguments.prompt, &self.prefill)?;
        speed("decode ", arguments.tokens, &self.decode)?;
        writeln!(
            out,
            "isa {isa}, threads {threads}; loaded in {:.3} s; peak memory {:.1} MB",
            self.load_s,
            rss as f64 / 1e6
        )
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
    }
}
