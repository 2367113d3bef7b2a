//! `strata bench`: how fast a model reads a prompt and writes an answer on this machine, and how near that is to what
//! the machine can do.

mod audio;
mod demand;
mod image;
mod media;
mod recital;
mod report;
mod together;
mod turns;

use crate::chart::{self, ChartArguments};
use crate::computing::ComputeArguments;
use crate::failure::Failure;
use crate::machine_limits;
use crate::scorer::{self, Scorer};
use demand::Demand;
use report::Report;
use std::path::PathBuf;
use std::time::Instant;
use strata::load::Needs;
use strata::load::{CheckedModel, TokenizerUse};
use strata_engine::random::{Random, Stream};
use strata_host::{Effort, Usage};
use strata_model::{BatchLimits, Output};
use together::Together;

/// Measure a model's speed
///
/// Prefill processes a prompt of random tokens; decode processes random tokens one by one, starting from an empty
/// context. Reports the median of the repetitions. Of a model that transcribes, a minute of audio is measured: the
/// spectrogram, a window's way through the encoder, tokens.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model: a .gguf file, a Hugging Face folder, or a name that `strata list` shows
    model: PathBuf,
    /// Tokens in the prompt
    #[arg(short, long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    prompt: u32,
    /// Tokens to decode one by one
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    tokens: u32,
    /// Tokens in the KV cache before decoding starts
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    ctx_used: u32,
    /// Also decode N sequences at once, through the engine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    sequences: Option<u16>,
    /// Also decode a text that repeats its prompt, with and without drafts of up to N tokens [N: 8]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "8", value_parser = clap::value_parser!(u8).range(1..=64))]
    speculate: Option<u8>,
    /// Measure memory bandwidth, and the share that decode reaches
    #[arg(long)]
    read_bandwidth: bool,
    /// Measure integer throughput, and the share that prefill reaches
    #[arg(long)]
    int_peak: bool,
    /// Measure an image instead: its way from the file through tower and projector to the logits behind it; a picture of
    /// 1024×1024 pixels where no FILE is named
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with_all = ["sequences", "speculate"])]
    image: Option<Option<PathBuf>>,
    /// Projector that lets the model see images [default: the model's own, or *mmproj*.gguf beside its file]
    #[arg(long, value_name = "FILE", requires = "image")]
    mmproj: Option<PathBuf>,
    /// Measure float throughput, and the share that a tower or an encoder reaches
    #[arg(long)]
    float_peak: bool,
    /// Number of repetitions
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Take one measurement per line of standard input, `prefill` or `decode`, `image`, or `audio`, to alternate with another
    /// program
    #[arg(long, requires = "json")]
    in_turns: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    chart: ChartArguments,
    #[command(flatten)]
    compute: ComputeArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let file = arguments.compute.open(&arguments.model)?;
    let set = file.parse()?;
    if let Ok(Some("whisper")) = set.metadata().str("general.architecture") {
        return audio::run(arguments, &file);
    }
    if arguments.image.is_some() {
        return image::run(arguments, &file);
    }
    let machine = arguments.compute.machine()?;
    let (prompt, decoded) = (arguments.prompt as usize, arguments.tokens as usize);
    let positions = prompt.max(arguments.ctx_used as usize + decoded);
    let checked = CheckedModel::new(&file, Some(positions), TokenizerUse::Optional)?;
    let demand = Demand::new(&file.parse()?);
    let alone = scorer::needs(positions, &arguments.compute, &machine);
    let side_by_side = arguments.sequences.map(|n| Together::sequences(n, decoded));
    let reciting = arguments
        .speculate
        .map(|n| Together::reciting(n, prompt, decoded));
    let engines = [side_by_side, reciting];
    if engines.iter().any(Option::is_some) {
        checked.tokenizer()?;
    }
    let needs = engines.iter().flatten().fold(alone, |needs, engine| {
        let own = engine.needs(alone, &arguments.compute);
        larger(needs, own)
    });
    let (loaded, kv) = arguments.compute.load(checked, needs, &machine)?;
    let vocabulary = loaded.model.config().vocabulary;
    let tokens = random_tokens(1, positions, vocabulary);
    let mut report = Report::new(loaded.load_time, demand);
    let read_weights = || machine_limits::read_weights(&machine, &loaded.model);

    machine.settle();
    let mut scorer = Scorer::new(&loaded, kv, &alone, &machine);
    // The first touch of every page and the clock's rise belong to no measurement.
    scorer.feed(&tokens[..prompt.min(32)], Output::LastLogits, &mut |_| {
        Ok(())
    })?;
    if arguments.in_turns {
        turns::take(&mut scorer, &tokens, arguments, read_weights)?;
    } else {
        for _ in 0..arguments.repeat {
            report
                .prefill
                .push(prefill(&mut scorer, &tokens[..prompt])?);
            // A virtual machine's memory can become half or twice as fast from one second to the next.
            let before = arguments.read_bandwidth.then(read_weights).flatten();
            let decode = decode(&mut scorer, &tokens, prompt, arguments)?;
            report.decode.push(decode);
            if let Some(before) = before {
                let after = read_weights().unwrap_or(before);
                report.read_bandwidth.push((before + after) / 2.0);
            }
        }
    }
    drop(scorer);

    for engine in engines.iter().flatten() {
        engine.measure(&loaded, alone, arguments, &machine, &mut report)?;
    }
    // The measurements of the machine take memory of their own.
    report.peak_bytes = Usage::now().map_or(0, |usage| usage.peak_bytes);
    if arguments.read_bandwidth && report.read_bandwidth.is_empty() && !arguments.in_turns {
        let bandwidth = machine_limits::read_bandwidth(&machine, Effort::Full)?;
        report.read_bandwidth.push(bandwidth);
    }
    if arguments.int_peak {
        report.int_peak = Some(machine_limits::int_peak(&machine, Effort::Full));
    }
    let charts = report.charts();
    let title = format!("Speed of {}", arguments.model.display());
    arguments.chart.write(&title, &charts)?;
    let printed = report.print(arguments, &machine);
    let drawn = printed.and_then(|()| {
        if arguments.json {
            Ok(())
        } else {
            chart::print(&mut std::io::stdout(), &charts)
        }
    });
    drawn.map_err(|error| Failure::stdout(&error))
}

/// What both take, one after the other.
fn larger(a: Needs, b: Needs) -> Needs {
    Needs {
        positions: a.positions.max(b.positions),
        limits: BatchLimits {
            tokens: a.limits.tokens.max(b.limits.tokens),
            logits: a.limits.logits.max(b.limits.logits),
        },
        beside: a.beside.max(b.beside),
        ..a
    }
}

fn random_tokens(seed: u64, count: usize, vocabulary: usize) -> Vec<u32> {
    let mut random = Random::new(seed, Stream::Token);
    (0..count)
        .map(|_| (random.next_u64() % vocabulary as u64) as u32)
        .collect()
}

/// Tokens a second of a prompt, with the logits that sampling would need.
fn prefill(scorer: &mut Scorer<'_>, prompt: &[u32]) -> Result<f64, Failure> {
    scorer.truncate(0);
    let start = Instant::now();
    scorer.feed(prompt, Output::LastLogits, &mut |_| Ok(()))?;
    Ok(prompt.len() as f64 / start.elapsed().as_secs_f64())
}

/// Tokens a second, one by one, after as many positions as asked for. The first `computed` of `tokens` are in the cache.
fn decode(
    scorer: &mut Scorer<'_>,
    tokens: &[u32],
    computed: usize,
    arguments: &Arguments,
) -> Result<f64, Failure> {
    let (used, decoded) = (arguments.ctx_used as usize, arguments.tokens as usize);
    scorer.truncate(computed.min(used));
    if used > computed {
        scorer.feed(&tokens[computed..used], Output::None, &mut |_| Ok(()))?;
    }
    let start = Instant::now();
    for token in tokens[used..][..decoded].chunks(1) {
        scorer.feed(token, Output::LastLogits, &mut |_| Ok(()))?;
    }
    Ok(decoded as f64 / start.elapsed().as_secs_f64())
}
