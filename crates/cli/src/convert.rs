//! `strata convert`: a Hugging Face folder or a PyTorch checkpoint as one GGUF file.

use crate::computing::mix;
use crate::failure::Failure;
use crate::part_file;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;
use strata::load::{bad_folder, check_conversion};
use strata_convert::{Folder, FolderError, Mix, Options, Plan, WriteFailure};
use strata_host::ThreadPool;

/// Convert a Hugging Face folder or a PyTorch checkpoint to GGUF
///
/// Reads safetensors or PyTorch files, whole or split, with config.json and the tokenizer files beside them. No code in a
/// checkpoint is executed. Of a model that sees, what reads images goes to a second file, mmproj-FILE, beside the first.
/// `strata run FOLDER` works without conversion.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata convert ./Qwen3-0.6B -o qwen3.gguf
  strata convert ./Qwen3-0.6B -o qwen3-q4_k_m.gguf --type q4_k_m
  strata convert ./model/pytorch_model.bin -o model.gguf --type f16")]
pub(crate) struct Arguments {
    /// The folder with config.json, one of its .safetensors, .bin, .pt or .pth files, or a file of whisper.cpp
    source: PathBuf,
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Type of the matrices: f32, f16, bf16, q8_0, q4_k_m, … [default: as in the checkpoint]
    #[arg(long = "type", value_name = "TYPE", value_parser = mix)]
    mix: Option<Mix>,
    /// Number of worker threads [default: one per processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// What was done.
struct Summary {
    mix: Mix,
    /// The file of the model's eyes or ears, if it has any.
    projector: Option<PathBuf>,
    tensors: usize,
    bytes: u64,
    tokens: Option<usize>,
    seconds: f64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.source.exists() {
        let missing = std::io::ErrorKind::NotFound.into();
        return Err(Failure::io(arguments.source.display(), &missing));
    }
    let summary = convert(arguments)?;
    print(arguments, &summary).map_err(|error| Failure::stdout(&error))
}

fn convert(arguments: &Arguments) -> Result<Summary, Failure> {
    let start = Instant::now();
    let fail = |error: FolderError| bad_folder(&arguments.source, &error);
    let pool = ThreadPool::new(arguments.threads.map(usize::from))
        .map_err(|error| Failure::io("cannot start the worker threads", &error))?;
    let folder = Folder::open(&arguments.source).map_err(fail)?;
    let config = folder.config().map_err(fail)?;
    let vocabulary = folder.vocabulary().map_err(fail)?;
    if vocabulary.is_none() {
        eprintln!(
            "note: the folder has no tokenizer; the model will read and write token ids only"
        );
    }
    let checkpoint = folder.tensors().map_err(fail)?;
    let name = folder.name();
    let options = Options {
        mix: arguments.mix,
        name: name.as_deref(),
    };
    let plan = Plan::new(&config, &checkpoint, vocabulary.as_ref(), &options)
        .map_err(|error| fail(error.into()))?;
    check_conversion(&arguments.source, &plan, vocabulary.as_ref())?;
    let total = plan.layout().total_len;
    part_file::write(&arguments.out, total, "converting", |out, bar| {
        folder.convert(&plan, out, &pool, &mut |done, _| bar.set_position(done))
    })
    .map_err(|failure| match failure {
        WriteFailure::Convert(error) => fail(error.into()).into(),
        WriteFailure::Sink(error) => Failure::io(arguments.out.display(), &error),
    })?;
    let eyes = folder.projector(&config, &checkpoint).map_err(fail)?;
    let projector = match &eyes {
        None => None,
        Some(plan) => {
            let path = beside(&arguments.out);
            let total = plan.layout().total_len;
            part_file::write(&path, total, "converting the projector", |out, bar| {
                folder.convert(plan, out, &pool, &mut |done, _| bar.set_position(done))
            })
            .map_err(|failure| match failure {
                WriteFailure::Convert(error) => Failure::from(fail(error.into())),
                WriteFailure::Sink(error) => Failure::io(path.display(), &error),
            })?;
            Some(path)
        }
    };
    Ok(Summary {
        mix: plan.mix(),
        projector,
        tensors: plan.tensors().len(),
        bytes: plan.layout().total_len,
        tokens: vocabulary.map(|vocabulary| vocabulary.len()),
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Where the projector of a model goes: into a file that is found beside it.
fn beside(out: &Path) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gguf").unwrap_or(&name);
    out.with_file_name(format!("mmproj-{name}.gguf"))
}

fn print(arguments: &Arguments, summary: &Summary) -> std::io::Result<()> {
    let Summary {
        mix,
        projector,
        tensors,
        bytes,
        tokens,
        seconds,
    } = summary;
    let path = arguments.out.display();
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let value = serde_json::json!({
            "file": path.to_string(),
            "type": mix.name(),
            "projector": projector.as_ref().map(|path| path.display().to_string()),
            "tensors": tensors,
            "tokens": tokens,
            "bytes": bytes,
            "seconds": seconds,
        });
        return writeln!(out, "{value}");
    }
    writeln!(
        out,
        "{path}: {}, {tensors} tensors, {:.1} MB in {seconds:.1} s",
        mix.name(),
        *bytes as f64 / 1e6
    )?;
    match projector {
        Some(path) => writeln!(
            out,
            "{}: the projector, for images or audio",
            path.display()
        ),
        None => Ok(()),
    }
}
