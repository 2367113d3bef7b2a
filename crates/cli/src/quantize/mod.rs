//! `strata quantize`: a model with its matrices in other types.

mod source;
mod table;
mod verify;

use crate::computing::{ComputeArguments, mix};
use crate::failure::{Failure, Kind};
use source::Source;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;
use strata::load::is_built_in;
use strata_convert::{Importance, Mix, Recipe, TypeRule};
use strata_host::ThreadPool;
use strata_quant::GgmlType;
use table::Table;
use verify::{Distance, Trial};

/// Quantize a model
///
/// Reads a GGUF file of any types, or a Hugging Face folder, one tensor at a time. Norms, biases and routers are kept as
/// they are; matrices whose row length is no multiple of the block size get a similar type with smaller blocks.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata quantize model-f16.gguf q4_k_m
  strata quantize ./Qwen3-0.6B q5_k_m -o qwen3.gguf --output-type q8_0
  strata quantize model-f16.gguf iq4_xs --imatrix model.imatrix --tensor attn_v=q6_k
  strata quantize model-f16.gguf q4_k_m --dry-run
  strata quantize model-f16.gguf q4_k_m --verify")]
pub(crate) struct Arguments {
    /// The model: a .gguf file, a Hugging Face folder, or a name that `strata list` shows
    source: PathBuf,
    /// Target type: q4_k_m, q8_0, iq4_xs, f16, …
    #[arg(value_name = "TYPE", value_parser = mix)]
    mix: Mix,
    /// Output file [default: the source's name with the type]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Type for tensors whose names contain PATTERN, in which `*` matches anything; the first match wins
    #[arg(long = "tensor", value_name = "PATTERN=TYPE", value_parser = rule)]
    rules: Vec<TypeRule>,
    /// Type of the output matrix
    #[arg(long, value_name = "TYPE", value_parser = ggml_type)]
    output_type: Option<GgmlType>,
    /// Type of the embedding matrix, unless it is also the output matrix
    #[arg(long, value_name = "TYPE", value_parser = ggml_type)]
    embedding_type: Option<GgmlType>,
    /// Importance matrix, from `strata imatrix` or llama.cpp
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Compare the result with the source on a text file, or on a built-in text
    #[arg(long, value_name = "TEXT", num_args = 0..=1, require_equals = true, conflicts_with = "dry_run")]
    verify: Option<Option<PathBuf>>,
    /// Number of tokens that --verify compares
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(2..=1 << 20))]
    positions: u32,
    /// Only show the type that each tensor would get
    #[arg(long)]
    dry_run: bool,
    /// Number of worker threads [default: one per processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print the summary, or with --dry-run the table, as JSON
    #[arg(long)]
    json: bool,
}

/// What is reported.
struct Done<'a> {
    path: &'a Path,
    table: &'a Table,
    /// `None` where nothing was written.
    seconds: Option<f64>,
    distance: Option<&'a Distance>,
}

/// A type of one tensor by its name.
fn ggml_type(name: &str) -> Result<GgmlType, String> {
    let writable = |ty: &GgmlType| ty.max_magnitude().is_some();
    GgmlType::from_name(name).filter(writable).ok_or_else(|| {
        let all = GgmlType::ALL.iter().copied().filter(writable);
        let names: Vec<String> = all.map(|ty| ty.name().to_lowercase()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn rule(text: &str) -> Result<TypeRule, String> {
    let (pattern, ty) = text
        .rsplit_once('=')
        .filter(|(pattern, _)| !pattern.is_empty())
        .ok_or("expected PATTERN=TYPE, such as attn_v=q6_k")?;
    Ok(TypeRule {
        pattern: pattern.to_owned(),
        ty: ggml_type(ty)?,
    })
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let start = Instant::now();
    let importance = match &arguments.imatrix {
        Some(path) => Some(read_importance(path)?),
        None => None,
    };
    let importance_file = arguments
        .imatrix
        .as_ref()
        .map(|path| path.to_string_lossy());
    let recipe = Recipe {
        output: arguments.output_type,
        embedding: arguments.embedding_type,
        rules: &arguments.rules,
        importance: importance.as_ref(),
        importance_file: importance_file.as_deref(),
        ..Recipe::from(arguments.mix)
    };
    let source = Source::open(&arguments.source)?;
    let out = match &arguments.out {
        Some(path) => path.clone(),
        None => default_out(&arguments.source, arguments.mix),
    };
    if is_same(&arguments.source, &out) {
        return Err(Failure::new(
            Kind::Usage,
            format_args!("{} is both the source and the output", out.display()),
        )
        .hint("choose another output file with -o"));
    }
    source.warn_of_loss(&recipe)?;
    let table = if arguments.dry_run {
        source.plan(&recipe)?
    } else {
        if out.exists() {
            eprintln!("warning: {} exists and will be replaced", out.display());
        }
        let pool = ThreadPool::new(arguments.threads.map(usize::from))
            .map_err(|error| Failure::io("cannot start the worker threads", &error))?;
        source.write(&recipe, &out, &pool)?
    };
    if let Some(importance) = &importance {
        table.warn_of_unknown(importance);
    }
    let seconds = (!arguments.dry_run).then(|| start.elapsed().as_secs_f64());
    let distance = match &arguments.verify {
        Some(text) => Some(verify(arguments, text.as_deref(), &out)?),
        None => None,
    };
    let done = Done {
        path: &out,
        table: &table,
        seconds,
        distance: distance.as_ref(),
    };
    print(arguments, &done).map_err(|error| Failure::stdout(&error))
}

fn verify(arguments: &Arguments, text: Option<&Path>, out: &Path) -> Result<Distance, Failure> {
    let compute = ComputeArguments {
        threads: arguments.threads,
        ..ComputeArguments::default()
    };
    let trial = Trial {
        text,
        positions: arguments.positions as usize,
        compute: &compute,
    };
    trial.run(&arguments.source, out)
}

fn read_importance(path: &Path) -> Result<Importance, Failure> {
    let bytes =
        strata_host::MappedFile::open(path).map_err(|error| Failure::io(path.display(), &error))?;
    Importance::parse(bytes.bytes()).map_err(|error| {
        Failure::new(Kind::Usage, format_args!("{}: {error}", path.display()))
            .hint("`strata imatrix MODEL TEXT` writes such a file")
    })
}

/// `model-f16.gguf` becomes `model-q4_k_m.gguf` beside it; what is no path becomes a file here.
fn default_out(source: &Path, mix: Mix) -> PathBuf {
    let stem = if source.is_dir() {
        source.file_name()
    } else {
        source.file_stem()
    };
    let stem = stem.map_or_else(|| "model".into(), |stem| stem.to_string_lossy());
    let mut stem = stem.replace(':', "-");
    let suffix = Mix::ALL.iter().find_map(|mix| {
        let name = mix.name();
        let end = stem.len().checked_sub(name.len() + 1)?;
        let (head, tail) = stem.split_at_checked(end)?;
        let is_type = tail.starts_with(['-', '.']) && tail.get(1..)?.eq_ignore_ascii_case(name);
        (is_type && !head.is_empty()).then_some(end)
    });
    if let Some(end) = suffix {
        stem.truncate(end);
    }
    let name = format!("{stem}-{}.gguf", mix.name());
    if is_built_in(source) || !source.exists() {
        return name.into();
    }
    source.with_file_name(name)
}

fn is_same(source: &Path, out: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    real(source).is_some_and(|source| real(out) == Some(source))
}

fn print(arguments: &Arguments, done: &Done<'_>) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let Done { table, seconds, .. } = *done;
    let (path, mix) = (done.path.display(), arguments.mix.name());
    if arguments.json {
        let mut value = table.json(&path.to_string(), mix, seconds);
        if let Some(distance) = done.distance {
            value["verify"] = distance.json();
        }
        return writeln!(out, "{value}");
    }
    match seconds {
        None => table.print(&mut out)?,
        Some(seconds) => writeln!(
            out,
            "{path}: {mix}, {} tensors, {:.1} MB, {:.2} bits per weight, in {seconds:.1} s",
            table.tensors.len(),
            table.bytes as f64 / 1e6,
            table.bits()
        )?,
    }
    match done.distance {
        Some(distance) => writeln!(out, "{distance}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_named_by_its_source_and_type() {
        let name = |source: &str| default_out(Path::new(source), Mix::Q4KM);
        for source in ["a", "a-f16.gguf", "a-Q8_0.gguf", "a.bf16.gguf", "a.gguf"] {
            assert_eq!(name(source), Path::new("a-q4_k_m.gguf"), "{source}");
        }
        assert_eq!(name("llama3:1b"), Path::new("llama3-1b-q4_k_m.gguf"));
        assert_eq!(name("f16.gguf"), Path::new("f16-q4_k_m.gguf"));
    }

    #[test]
    fn rules_have_a_pattern_and_a_type_that_can_be_written() {
        let found = rule("blk.*.attn_v=Q6_K").unwrap();
        assert_eq!(
            (&*found.pattern, found.ty),
            ("blk.*.attn_v", GgmlType::Q6_K)
        );
        assert!(rule("attn_v").is_err());
        assert!(rule("=q8_0").is_err());
        assert!(rule("attn_v=iq1_s").unwrap_err().contains("q6_k"));
    }
}
