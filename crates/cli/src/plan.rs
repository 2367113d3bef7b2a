//! `strata plan`: what a model would take of the memory, before it is loaded.

use crate::chart::{self, Bar, Chart, ChartArguments, Tone};
use crate::computing::{Kv, PlaceArguments};
use crate::failure::{Failure, Kind};
use crate::machine_limits::{nodes_as_json, nodes_in_words};
use crate::peers::PeerArguments;
use crate::run::SpeculationArguments;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use strata::{DevicePlan, Model, Options, PeerPlan, Plan, Size};
use strata_host::MemoryNode;

/// Show how much memory a model needs, and whether it fits
///
/// Reads only the file's header. The figures are what `strata run` takes with the same flags. Exits with code 4 if the
/// model does not fit.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata plan model.gguf
  strata plan model.gguf --ctx 32768 --kv q8_0 --memory 6G
  strata plan model.gguf --draft small.gguf
  strata plan model.gguf --device cuda:0
  strata plan model.gguf --peers 192.168.0.2,192.168.0.3 --peer-key-file key.txt")]
pub(crate) struct Arguments {
    /// The model: a .gguf file, a Hugging Face folder, or a name that `strata list` shows
    model: PathBuf,
    /// Context length in tokens [default: the model's, at most 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ctx: Option<u32>,
    /// Type of the KV cache
    #[arg(long, value_enum, value_name = "TYPE", default_value = "f16")]
    kv: Kv,
    /// Number of prompt tokens to process at once
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=16384))]
    batch: u16,
    /// Number of worker threads [default: one per processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Memory to plan for: 512M, 6G, 6GiB [default: what is available]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    chart: ChartArguments,
    #[command(flatten)]
    speculation: SpeculationArguments,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    peers: PeerArguments,
}

impl Arguments {
    /// How the model would be opened, but for the memory.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::default()
            .requests(1)
            .kv(self.kv.into())
            .batch(self.batch.into());
        if let Some(context) = self.ctx {
            options = options.context(context as usize);
        }
        if let Some(threads) = self.threads {
            options = options.threads(threads.into());
        }
        self.speculation.add_to(self.place.add_to(options))
    }

    /// The same, with the memory that is planned for.
    pub(crate) fn options_within_memory(&self) -> Options {
        match self.memory {
            Some(Size(bytes)) => self.options().memory(&bytes.to_string()),
            None => self.options(),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = arguments.peers.add_to(arguments.options())?;
    let plan = match arguments.memory {
        Some(Size(bytes)) => Model::plan_within(&arguments.model, &options, bytes),
        None => Model::plan(&arguments.model, &options),
    }?;
    let charts = [memory_chart(&plan)];
    let title = format!("Memory of {}", arguments.model.display());
    arguments.chart.write(&title, &charts)?;
    let printed = if arguments.json {
        print_json(&plan)
    } else {
        print(&plan, arguments).and_then(|()| chart::print(&mut std::io::stdout(), &charts))
    };
    printed.map_err(|error| Failure::stdout(&error))?;
    if plan.fits {
        return Ok(());
    }
    if let Some(misfit) = plan.misfit {
        return Err(misfit.into());
    }
    let model = arguments.model.display();
    if let Some(peer) = plan.peers.iter().find(|peer| peer.total() > peer.limit) {
        let missing = Size(peer.total() - peer.limit);
        let address = &peer.address;
        let sentence =
            format_args!("{model} does not fit: the peer {address} needs {missing} more");
        let failure = Failure::new(Kind::OutOfMemory, sentence);
        return Err(failure.hint("use more --peers, or other --peer-layers"));
    }
    let missing = Size(plan.total().saturating_sub(plan.limit));
    let sentence = format_args!("{model} does not fit: it needs {missing} more");
    let failure = Failure::new(Kind::OutOfMemory, sentence);
    Err(match plan.remedies.first() {
        Some(remedy) => failure.hint(format_args!("this would fit: {remedy}")),
        None => failure,
    })
}

fn print(plan: &Plan, arguments: &Arguments) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let limit = match arguments.memory {
        Some(_) => "--memory".into(),
        None => plan.limited_by.clone(),
    };
    let tokens = format!("{} tokens", plan.context);
    let states = (plan.states > 0).then(|| {
        let each = Size(plan.states / plan.state_count.max(1) as u64);
        let count = plan.state_count;
        let note = format!("{count} of {each}: running sequences and snapshots");
        ("recurrent states", plan.states, note)
    });
    let first = [
        ("weights", plan.weights, String::new()),
        ("keys and values", plan.kv - plan.states, tokens),
    ];
    let model = first.into_iter().chain(states).chain([(
        "activations",
        plan.activations,
        format!("{} tokens at a time", arguments.batch),
    )]);
    let draft = (plan.draft > 0).then(|| {
        let note = "and everything it needs".into();
        ("draft model", plan.draft, note)
    });
    let rest = [
        ("program", plan.program, "including the tokenizer".into()),
        ("total", plan.total(), String::new()),
        ("limit", plan.limit, limit),
    ];
    if !plan.peers.is_empty() {
        writeln!(out, "this machine: {}", in_words(&plan.layers))?;
    }
    if !plan.devices.is_empty() {
        writeln!(out, "processors: {}", in_words(&plan.layers))?;
    }
    for (name, bytes, note) in model.chain(draft).chain(rest) {
        let line = format!("{name:<16} {:>10}  {note}", Size(bytes).to_string());
        writeln!(out, "{}", line.trim_end())?;
    }
    if let nodes @ [_, _, ..] = &MemoryNode::all()[..] {
        writeln!(out, "memory nodes: {}", nodes_in_words(nodes))?;
    }
    print_peers(&mut out, plan)?;
    print_devices(&mut out, plan)?;
    if plan.fits {
        let left = Size(plan.limit - plan.total());
        return writeln!(out, "It fits, with {left} to spare.");
    }
    // What would fit on GPUs is said at the end.
    let remedies = plan.remedies.iter().filter(|_| plan.misfit.is_none());
    for remedy in remedies {
        writeln!(out, "would fit: {remedy}")?;
    }
    Ok(())
}

/// Layers, for people.
fn in_words(layers: &Range<usize>) -> String {
    match layers.len() {
        0 => "no layers".into(),
        1 => format!("layer {}", layers.start),
        _ => format!("layers {} to {}", layers.start, layers.end - 1),
    }
}

/// What the other machines would take.
fn print_peers(out: &mut impl Write, plan: &Plan) -> std::io::Result<()> {
    for peer in &plan.peers {
        writeln!(out, "peer {}: {}", peer.address, in_words(&peer.layers))?;
        let rows = [
            ("weights", peer.weights),
            ("keys and values", peer.kv),
            ("activations", peer.activations),
            ("total", peer.total()),
            ("limit", peer.limit),
        ];
        for (name, bytes) in rows {
            writeln!(out, "{name:<16} {:>10}", Size(bytes).to_string())?;
        }
    }
    Ok(())
}

/// What GPUs would take.
fn print_devices(out: &mut impl Write, plan: &Plan) -> std::io::Result<()> {
    for device in &plan.devices {
        let (id, name) = (&device.id, &device.name);
        if plan.misfit.is_none() {
            writeln!(out, "{id} ({name}): {}", in_words(&device.layers))?;
        } else {
            writeln!(out, "{id} ({name}):")?;
        }
        let needed = [
            ("weights", device.weights),
            ("keys and values", device.kv),
            ("activations", device.activations),
            ("total", device.total()),
        ];
        let has = [("memory", device.memory), ("free", device.free)];
        let needed = needed.into_iter().filter(|_| plan.misfit.is_none());
        for (name, bytes) in needed.chain(has) {
            writeln!(out, "{name:<16} {:>10}", Size(bytes).to_string())?;
        }
    }
    Ok(())
}

fn memory_chart(plan: &Plan) -> Chart {
    let parts = [
        ("weights", plan.weights),
        ("KV cache", plan.kv),
        ("activations", plan.activations),
        ("draft model", plan.draft),
        ("program", plan.program),
        ("total", plan.total()),
    ];
    let bar = |(label, bytes): (&str, u64)| Bar {
        label: label.into(),
        value: bytes as f64,
        words: Size(bytes).to_string(),
        tone: Tone::Solid,
    };
    let taken = parts.into_iter().filter(|&(_, bytes)| bytes > 0);
    Chart {
        title: "Memory".into(),
        bars: taken.map(bar).collect(),
        mark: Some((plan.limit as f64, format!("limit {}", Size(plan.limit)))),
    }
}

fn print_json(plan: &Plan) -> std::io::Result<()> {
    let peer = |peer: &PeerPlan| {
        serde_json::json!({
            "address": peer.address,
            "first_layer": peer.layers.start,
            "layers": peer.layers.len(),
            "weights_bytes": peer.weights,
            "kv_bytes": peer.kv,
            "workspace_bytes": peer.activations,
            "total_bytes": peer.total(),
            "limit_bytes": peer.limit,
        })
    };
    let device = |device: &DevicePlan| {
        serde_json::json!({
            "device": device.id,
            "name": device.name,
            "first_layer": device.layers.start,
            "layers": device.layers.len(),
            "weights_bytes": device.weights,
            "kv_bytes": device.kv,
            "workspace_bytes": device.activations,
            "total_bytes": device.total(),
            "memory_bytes": device.memory,
            "free_bytes": device.free,
        })
    };
    let json = serde_json::json!({
        "context": plan.context,
        "weights_bytes": plan.weights,
        "kv_bytes": plan.kv,
        "state_bytes": plan.states,
        "states": plan.state_count,
        "workspace_bytes": plan.activations,
        "draft_bytes": plan.draft,
        "program_bytes": plan.program,
        "total_bytes": plan.total(),
        "limit_bytes": plan.limit,
        "memory_nodes": nodes_as_json(&MemoryNode::all()),
        "layers": plan.layers.len(),
        "peers": plan.peers.iter().map(peer).collect::<Vec<_>>(),
        "devices": plan.devices.iter().map(device).collect::<Vec<_>>(),
        "fits": plan.fits,
        "streamed_bytes_per_token": plan.streamed,
        "would_fit": if plan.fits { &[] } else { plan.remedies.as_slice() },
    });
    writeln!(std::io::stdout(), "{json}")
}
