//! `strata imatrix`: how much each column of each matrix counts, measured on a text.
//!
//! The text's tokens are cut into chunks as for perplexity. For each matrix the squares of what goes into it are summed,
//! column by column, and for each expert apart; the file is llama.cpp's.

use crate::computing::ComputeArguments;
use crate::failure::{Failure, Kind};
use crate::part_file;
use crate::progress;
use crate::scorer::{self, Scorer};
use crate::text_chunks::TextChunks;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use strata::load::{CheckedModel, TokenizerUse};
use strata_convert::{ColumnSums, ImportanceSums, WriteFailure};
use strata_model::{MatrixTensor, Model, Observer, Output};

/// Compute an importance matrix from a text
///
/// For `strata quantize --imatrix` and for llama.cpp's quantizer. Use a text like those the model will see; a few hundred
/// chunks are enough.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata imatrix model-f16.gguf wiki.txt -o model.imatrix.gguf
  strata quantize model-f16.gguf iq4_xs --imatrix model.imatrix.gguf")]
pub(crate) struct Arguments {
    /// The model: a .gguf file, a Hugging Face folder, or a name that `strata list` shows
    model: PathBuf,
    /// A text file
    text: PathBuf,
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Tokens per chunk
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..=1 << 20))]
    ctx: u32,
    /// Maximum number of chunks to read [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    /// Include the output matrix
    #[arg(long)]
    process_output: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: ComputeArguments,
}

/// The sums of one matrix.
#[derive(Clone, Default)]
struct Squares {
    sums: Vec<f64>,
    rows: u64,
}

/// Adds up what it sees; what is not asked for has no room.
struct Collector(Mutex<Vec<Squares>>);

impl Collector {
    fn new(model: &Model, wanted: impl Fn(&MatrixTensor<'_>) -> bool) -> Self {
        let mut all = Vec::new();
        for tensor in model.matrix_tensors() {
            let columns = if wanted(&tensor) { tensor.columns } else { 0 };
            let squares = Squares {
                sums: vec![0.0; columns],
                rows: 0,
            };
            let end = tensor.first + tensor.count;
            if all.len() < end {
                all.resize(end, Squares::default());
            }
            all[tensor.first..end].fill(squares);
        }
        Self(Mutex::new(all))
    }

    fn all(&self) -> MutexGuard<'_, Vec<Squares>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Collector {
    fn input(&self, matrix: usize, row: &[f32]) {
        let mut all = self.all();
        let Some(squares) = all.get_mut(matrix) else {
            return;
        };
        squares.rows += 1;
        for (sum, &x) in squares.sums.iter_mut().zip(row) {
            *sum += f64::from(x) * f64::from(x);
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let machine = arguments.compute.machine()?;
    let size = arguments.ctx as usize;
    let file = arguments.compute.open(&arguments.model)?;
    let checked = CheckedModel::new(&file, Some(size), TokenizerUse::Required)?;
    let most = arguments.chunks.map_or(usize::MAX, |n| n as usize);
    let chunks = TextChunks::read(&arguments.text, checked.tokenizer()?, size, (1, most))?;
    let (loaded, kv, needs) = scorer::load(checked, size, &arguments.compute, &machine)?;
    let collector = Collector::new(&loaded.model, |tensor| {
        tensor.name.starts_with("blk.")
            || (arguments.process_output && tensor.name == "output.weight")
    });
    let mut scorer = Scorer::new(&loaded, kv, &needs, &machine);
    scorer.observed_by(&collector);
    let output = if arguments.process_output {
        Output::AllLogits
    } else {
        Output::None
    };
    let style = "{wide_bar} {pos}/{len} chunks, {eta} left";
    let bar = progress::bar(chunks.len() as u64, style);
    for chunk in chunks.iter() {
        scorer.restart();
        scorer.feed(chunk, output, &mut |_| Ok(()))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    drop(scorer);
    let mut sums = sums(&loaded.model, &collector);
    sums.datasets = vec![arguments.text.to_string_lossy().into_owned()];
    sums.chunks = chunks.len() as u32;
    sums.chunk_size = arguments.ctx;
    write(arguments, &sums)?;
    report(arguments, &sums).map_err(|error| Failure::stdout(&error))
}

/// The sums by the tensors' names, without those that nothing went into.
fn sums(model: &Model, collector: &Collector) -> ImportanceSums {
    let all = collector.all();
    let mut found = ImportanceSums::default();
    for tensor in model.matrix_tensors() {
        let Some(matrices) = all.get(tensor.first..tensor.first + tensor.count) else {
            continue;
        };
        let seen: u64 = matrices.iter().map(|squares| squares.rows).sum();
        let wanted = matrices.iter().all(|squares| !squares.sums.is_empty());
        if seen == 0 || !wanted {
            continue;
        }
        let floats = |squares: &Squares| {
            let sums = squares.sums.iter().map(|&sum| sum as f32);
            sums.collect::<Vec<_>>()
        };
        let columns = ColumnSums {
            squares: matrices.iter().flat_map(floats).collect(),
            counts: matrices.iter().map(|squares| squares.rows).collect(),
        };
        found.tensors.insert(tensor.name.to_owned(), columns);
    }
    found
}

fn write(arguments: &Arguments, sums: &ImportanceSums) -> Result<(), Failure> {
    let bytes = sums
        .file()
        .map_err(|error| Failure::new(Kind::Failed, format_args!("the file: {error}")))?;
    part_file::write(&arguments.out, bytes.len() as u64, "writing", |out, _| {
        out.write_all(&bytes).map_err(WriteFailure::Sink)
    })
    .map_err(|failure| match failure {
        WriteFailure::Sink(error) => Failure::io(arguments.out.display(), &error),
        WriteFailure::Convert(error) => Failure::new(Kind::Failed, error),
    })
}

fn report(arguments: &Arguments, sums: &ImportanceSums) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let path = arguments.out.display();
    let (entries, chunks, size) = (sums.tensors.len(), sums.chunks, sums.chunk_size);
    // An expert without a token leaves its columns unweighed.
    let unseen = sums
        .tensors
        .values()
        .flat_map(|columns| &columns.counts)
        .filter(|&&count| count == 0)
        .count();
    if arguments.json {
        let value = serde_json::json!({
            "file": path.to_string(),
            "entries": entries,
            "chunks": chunks,
            "ctx": size,
            "unseen_experts": unseen,
        });
        return writeln!(out, "{value}");
    }
    writeln!(
        out,
        "{path}: {entries} matrices over {chunks} chunks of {size}"
    )?;
    if unseen > 0 {
        eprintln!("note: {unseen} expert matrices were never used; a longer text may reach them");
    }
    Ok(())
}
