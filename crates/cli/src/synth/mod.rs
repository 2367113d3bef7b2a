//! `strata synth`: models with random weights and real shapes, for tests and benchmarks.
//!
//! The file is a llama, an LFM2, a Qwen3 with experts or a Granite 4 that any GGUF reader can load, or a Whisper. A model
//! that sees is a llama and a projector beside it. Activations stay sane: every matrix keeps the size of what passes through
//! it, each layer adds a little to the residual stream, and logits come out with a standard deviation near one.

mod blocks;
mod projector;
mod random;
mod shape;
mod speech;
mod text;
mod vocabulary;

use crate::computing::mix;
use crate::failure::{Failure, Kind};
use random::Random;
use shape::Shape;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use strata_convert::Mix;
use strata_quant::GgmlType;
use strata_weights::gguf::{Layout, WriteError};

/// Write a model with random weights, for benchmarks and tests
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Output file; the projector of a model that sees is put beside it, as `mmproj-` and its name
    out: PathBuf,
    /// Shape of the model
    #[arg(long, value_enum, default_value = "tiny")]
    shape: Shape,
    /// Types of the tensors
    #[arg(long, value_name = "TYPE", value_parser = mix, default_value = "q4_k_m")]
    mix: Mix,
    /// Random seed; the same seed gives the same file
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How a tensor's values are drawn.
#[derive(Copy, Clone)]
enum Values {
    /// Mean zero, with this standard deviation.
    Noise(f32),
    /// All ones: a norm that does nothing.
    Ones,
    /// Ones of either sign. As the last norm this parts a tied output from the embedding: without it
    /// every token would predict itself.
    Signs,
    /// All −1: decays of states.
    MinusOnes,
    /// All zeros: biases of norms.
    Zeros,
}

struct Tensor {
    name: String,
    ty: GgmlType,
    dims: Vec<u64>,
    values: Values,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let shape = arguments.shape;
    if let Some(speech) = shape.speech() {
        let tensors = speech::tensors(&speech, arguments.mix);
        let layout = speech::describe(arguments, &speech, &tensors);
        return put(&arguments.out, arguments, &tensors, layout);
    }
    let dimensions = shape.dimensions();
    let tensors = text::tensors(&dimensions, arguments.mix);
    let layout = text::describe(arguments, &tensors);
    put(&arguments.out, arguments, &tensors, layout)?;
    let Some(tower) = shape.tower() else {
        return Ok(());
    };
    let tensors = projector::tensors(&tower, dimensions.hidden, arguments.mix);
    let layout = projector::describe(arguments, &tower, &tensors);
    let name = arguments.out.file_name().unwrap_or_default();
    let beside = format!("mmproj-{}", name.to_string_lossy());
    put(
        &arguments.out.with_file_name(beside),
        arguments,
        &tensors,
        layout,
    )
}

/// Writes one file, and says what it is.
fn put(
    out: &Path,
    arguments: &Arguments,
    tensors: &[Tensor],
    layout: Result<Layout, WriteError>,
) -> Result<(), Failure> {
    let layout = layout.map_err(|error| {
        let sentence = format_args!("cannot lay the file out: {error}");
        Failure::new(Kind::Failed, sentence)
    })?;
    let path = out.display();
    let fail = |error: std::io::Error| {
        // Half a model is of no use to anyone.
        let _ = std::fs::remove_file(out);
        Failure::io(&path, &error)
    };
    let file = File::create(out).map_err(|error| Failure::io(&path, &error))?;
    write(file, &layout, tensors, arguments.seed).map_err(fail)?;
    writeln!(
        std::io::stdout(),
        "{path}: {} {}, {} tensors, {:.1} MB",
        arguments.shape.name(),
        arguments.mix.name(),
        tensors.len(),
        layout.total_len as f64 / 1e6
    )
    .map_err(|error| Failure::stdout(&error))
}

/// Streams the file: a few megabytes are in memory at a time.
fn write(file: File, layout: &Layout, tensors: &[Tensor], seed: u64) -> std::io::Result<()> {
    const CHUNK: usize = 4 << 20;
    let mut out = BufWriter::new(file);
    let mut buffer = vec![0; CHUNK];
    out.write_all(&layout.header)?;
    for (stream, (tensor, extent)) in tensors.iter().zip(&layout.tensors).enumerate() {
        let mut random = Random::new(seed, stream as u64);
        let block = tensor.ty.block_bytes();
        let mut left = extent.len as usize;
        while left > 0 {
            let chunk = &mut buffer[..left.min(CHUNK / block * block)];
            draw(tensor, &mut random, chunk);
            out.write_all(chunk)?;
            left -= chunk.len();
        }
        std::io::copy(
            &mut std::io::Read::take(std::io::repeat(0), extent.padded_len - extent.len),
            &mut out,
        )?;
    }
    out.into_inner()?.sync_all()
}

fn draw(tensor: &Tensor, random: &mut Random, out: &mut [u8]) {
    let mut ones = |signed: bool| {
        for value in out.as_chunks_mut::<4>().0 {
            let negative = signed && random.u64() & 1 == 1;
            *value = if negative { -1.0f32 } else { 1.0 }.to_le_bytes();
        }
    };
    match tensor.values {
        Values::Ones => ones(false),
        Values::Signs => ones(true),
        Values::MinusOnes => {
            let minus_one = (-1.0f32).to_le_bytes();
            out.as_chunks_mut().0.fill(minus_one);
        }
        Values::Zeros => out.fill(0),
        Values::Noise(deviation) => blocks::fill(tensor.ty, deviation, random, out),
    }
}
