//! `strata plan`: what a model would take of the memory, before it is loaded.

use crate::computing::Kv;
use crate::failure::{Failure, Kind};
use crate::run::SpeculationArguments;
use std::io::Write;
use std::path::PathBuf;
use strata::Size;
use strata::load::ModelFile;
use strata::load::{CheckedModel, TokenizerUse};
use strata::load::{Limit, MemoryPlan};
use strata_host::Bound;

/// Show how much memory a model takes, and whether there is enough
///
/// Reads the file's description, not its weights. What is found is what `run` takes with the same flags.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata plan model.gguf
  strata plan model.gguf --ctx 32768 --kv q8_0 --memory 6G
  strata plan model.gguf --draft small.gguf")]
pub(crate) struct Arguments {
    /// The model's file or folder, its name in the store, or `tale`, which is built in
    model: PathBuf,
    /// Tokens of prompt and answer together [default: the model's context, at most 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ctx: Option<u32>,
    /// How keys and values are stored
    #[arg(long, value_enum, value_name = "TYPE", default_value = "f16")]
    kv: Kv,
    /// Tokens computed together
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=16384))]
    batch: u16,
    /// Worker threads [default: one for each processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// The memory to plan for: 512M, 6G, 6GiB [default: what this machine has left]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    guessing: SpeculationArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let file = ModelFile::open(&arguments.model)?;
    let context = arguments.ctx.map(|ctx| ctx as usize);
    let checked = CheckedModel::new(&file, context, TokenizerUse::Optional)?;
    checked.check_kv(arguments.kv.into())?;
    let workers = match arguments.threads {
        Some(threads) => threads.into(),
        None => std::thread::available_parallelism()
            .map_err(|error| Failure::new(Kind::Failed, error).hint("give --threads"))?
            .get(),
    };
    let batch = arguments.batch.into();
    let guessing = &arguments.guessing;
    let mut needs = guessing.needs(&checked, batch, arguments.kv.into(), workers);
    let draft = guessing.draft_bytes(&needs)?;
    needs.beside += draft.unwrap_or(0);
    let limit = match arguments.memory {
        Some(Size(bytes)) => Limit {
            bytes,
            bound: Bound::PrivateMemory,
        },
        None => Limit::now(),
    };
    let plan = MemoryPlan::new(&checked.blueprint, needs, limit);
    let printed = if arguments.json {
        print_json(&plan, checked.context, draft)
    } else {
        print(&plan, arguments, checked.context, draft)
    };
    printed.map_err(|error| Failure::stdout(&error))
}

fn print(
    plan: &MemoryPlan<'_, '_>,
    arguments: &Arguments,
    context: usize,
    draft: Option<u64>,
) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let limit = match arguments.memory {
        Some(_) => "--memory".into(),
        None => plan.limit.bound.to_string(),
    };
    let activations = (
        "activations",
        plan.workspace - draft.unwrap_or(0),
        format!("{} tokens at a time", arguments.batch),
    );
    let draft = draft.map(|bytes| ("draft model", bytes, "with all that it needs".into()));
    let model = [
        ("weights", plan.weights, String::new()),
        ("keys and values", plan.kv, format!("{context} positions")),
        activations,
    ];
    let rest = [
        ("program", plan.program, "with its tokenizer".into()),
        ("total", plan.total(), String::new()),
        ("limit", plan.limit.bytes, limit),
    ];
    for (name, bytes, note) in model.into_iter().chain(draft).chain(rest) {
        let line = format!("{name:<16} {:>10}  {note}", Size(bytes).to_string());
        writeln!(out, "{}", line.trim_end())?;
    }
    if plan.fits() {
        return writeln!(
            out,
            "It fits; {} are left.",
            Size(plan.limit.bytes - plan.total())
        );
    }
    writeln!(
        out,
        "It does not fit: {} are missing.",
        Size(plan.total() - plan.limit.bytes)
    )?;
    for remedy in plan.remedies() {
        writeln!(out, "would fit: {remedy}")?;
    }
    Ok(())
}

fn print_json(
    plan: &MemoryPlan<'_, '_>,
    context: usize,
    draft: Option<u64>,
) -> std::io::Result<()> {
    let json = serde_json::json!({
        "context": context,
        "weights_bytes": plan.weights,
        "kv_bytes": plan.kv,
        "workspace_bytes": plan.workspace - draft.unwrap_or(0),
        "draft_bytes": draft.unwrap_or(0),
        "program_bytes": plan.program,
        "total_bytes": plan.total(),
        "limit_bytes": plan.limit.bytes,
        "fits": plan.fits(),
        "streamed_bytes_per_token": plan.streamed(),
        "would_fit": if plan.fits() { Vec::new() } else { plan.remedies() },
    });
    writeln!(std::io::stdout(), "{json}")
}
