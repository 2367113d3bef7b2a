//! `strata serve`: every dialect on one port.

mod image_urls;
mod keys;
mod kv_events;
mod library;
pub(crate) mod listening;
pub(crate) mod models;
mod socket;

use crate::computing::{ComputeArguments, DeviceArguments};
use crate::failure::Failure;
use crate::fetching::FetchArguments;
use crate::peers::PeerArguments;
use kv_events::KvEventArguments;
use listening::{ListenArguments, answer};
use models::LocalModels;
use socket::{Doors, SocketArguments};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use strata::load::AdapterFile;
use strata::load::BUILT_IN;
use strata::{Options, Size, Transcriber};
use strata_chat::KeepAlive;
use strata_host::{PageFiles, share_heaps};
use strata_server::{Bound, Collector, Settings, SlotFolder};

pub(crate) use listening::{address, reachable};

/// Serve models over the OpenAI, Anthropic, Ollama and llama-server APIs
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The models: .gguf files, Hugging Face folders, or names, which are downloaded if needed [default: tale]; the first
    /// one answers requests that name no model
    #[arg(value_name = "MODEL")]
    models: Vec<PathBuf>,
    #[command(flatten)]
    listening: ListenArguments,
    #[command(flatten)]
    socket: SocketArguments,
    /// Context length in tokens [default: the model's, at most 4096]
    #[arg(long, value_name = "N", env = "OLLAMA_CONTEXT_LENGTH", value_parser = clap::value_parser!(u32).range(1..))]
    ctx: Option<u32>,
    /// Maximum number of requests to run at once
    #[arg(long, value_name = "N", env = "OLLAMA_NUM_PARALLEL", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    parallel: u16,
    /// How long an idle model stays loaded: 5m, 30s, 0, or -1 for always
    #[arg(long, value_name = "TIME", env = "OLLAMA_KEEP_ALIVE", default_value = "5m", value_parser = keep_alive)]
    keep_alive: KeepAlive,
    /// Answer requests that name an unknown model with the first one, except Ollama's [default: true with one model]
    #[arg(long, value_name = "true|false")]
    any_model: Option<bool>,
    /// LoRA adapter for the first model: a GGUF file or a PEFT folder, optionally with a scale, as in PATH=0.5
    #[arg(long, value_name = "PATH[=SCALE]")]
    lora: Vec<String>,
    /// Projector that lets the first model see images or hear audio [default: the model's own, or *mmproj*.gguf beside its file]
    #[arg(long, value_name = "FILE")]
    mmproj: Option<PathBuf>,
    /// Fetch images that requests name by https URLs: from public addresses on the internet alone, never by a proxy
    #[arg(long)]
    allow_image_urls: bool,
    /// Whisper model that transcribes audio for clients: a .gguf file or a Hugging Face folder
    #[arg(long, value_name = "MODEL")]
    speech: Option<PathBuf>,
    /// Folder in which computed prompts, stored responses and conversations are kept across restarts
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Maximum size of that folder
    #[arg(long, value_name = "SIZE", default_value = "4G", requires = "cache")]
    cache_size: Size,
    /// Folder in which clients may save slots, separately for each client [default: not allowed]
    #[arg(long, value_name = "FOLDER")]
    slot_save_path: Option<PathBuf>,
    /// Maximum size of that folder
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "8G",
        requires = "slot_save_path"
    )]
    slot_save_size: Size,
    /// OpenTelemetry collector that receives traces over HTTP
    #[arg(long, value_name = "http://HOST:PORT")]
    otel_endpoint: Option<Collector>,
    #[command(flatten)]
    kv_events: KvEventArguments,
    #[command(flatten)]
    fetch: FetchArguments,
    #[command(flatten)]
    compute: ComputeArguments,
    #[command(flatten)]
    device: DeviceArguments,
    #[command(flatten)]
    peers: PeerArguments,
}

impl Arguments {
    /// How models are opened, but for caches and adapters.
    pub(crate) fn options(&self) -> Options {
        let options = self.device.add_to(self.compute.options());
        let options = options
            .requests(self.parallel.into())
            .sessions(self.slot_save_path.is_some());
        match self.ctx {
            Some(context) => options.context(context as usize),
            None => options,
        }
    }
}

/// The folder for slots, made where it is not there.
fn slot_folder(path: PathBuf, limit: u64) -> Result<SlotFolder, Failure> {
    std::fs::create_dir_all(&path).map_err(|error| Failure::io(path.display(), &error))?;
    Ok(SlotFolder { path, limit })
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    share_heaps();
    let tls = arguments.listening.tls()?;
    let mut doors = arguments.socket.doors(&arguments.listening)?;
    let address = doors.address;
    let settings = arguments.listening.settings_at(address)?;
    let open = arguments.listening.is_open();
    let kv_events = arguments.kv_events.publisher(address, open)?;
    let mut options = arguments.options();
    let mut paths = arguments.models;
    if paths.is_empty() {
        paths.push(BUILT_IN.into());
    }
    for path in &mut paths {
        *path = arguments.fetch.bring(path)?;
    }
    let kept = |name: &str| arguments.cache.as_ref().map(|cache| cache.join(name));
    let (stored, sessions) = (kept("objects"), kept("sessions"));
    let sessions = arguments.socket.sessions(sessions);
    if let Some(folder) = arguments.cache {
        let bytes = arguments.cache_size.0;
        PageFiles::open(&folder, bytes).map_err(|error| Failure::io(folder.display(), &error))?;
        options = options.cache(folder, bytes);
    }
    let mut first = arguments.peers.add_to(options.clone())?;
    for text in &arguments.lora {
        let AdapterFile { path, scale } = AdapterFile::parse(text)?;
        first = first.adapter(path, scale);
    }
    if let Some(path) = &arguments.mmproj {
        first = first.projector(path);
    }
    if let Some(mix) = arguments.compute.quant {
        first = first.quantize(mix);
    }
    let runtime = arguments.compute.runtime()?;
    let slots = arguments.slot_save_path;
    let slots = slots.map(|path| slot_folder(path, arguments.slot_save_size.0));
    let speech = arguments.speech.as_deref();
    let speech = speech.map(|path| Transcriber::open_beside(path, &runtime));
    let models = LocalModels::new(&paths, runtime, options, first)?.hearing(speech.transpose()?);
    let settings = Settings {
        traces: arguments.otel_endpoint,
        any_model: arguments.any_model.unwrap_or(paths.len() == 1),
        slots: slots.transpose()?,
        kv_events,
        image_urls: arguments.allow_image_urls.then(image_urls::from_internet),
        stored,
        sessions,
        ..settings
    };
    let local = doors.take_local();
    let bound = Bound::new(
        doors.door,
        settings,
        Arc::new(models),
        arguments.keep_alive,
        tls.clone(),
    );
    let bound = bound.map(|bound| Doors::open(local, bound));
    answer(bound, address, tls.is_some())
}

/// A time as Ollama writes it: seconds, or a number with a unit; negative for always.
fn keep_alive(text: &str) -> Result<KeepAlive, String> {
    let wrong = || format!("invalid time {text:?}: expected 5m, 30s, 0 or -1, for example");
    if text.starts_with('-') {
        return Ok(KeepAlive::Forever);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * unit)
        .map(KeepAlive::For)
        .map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_ollama_reads_them() {
        let seconds = |n| Ok(KeepAlive::For(Duration::from_secs(n)));
        assert_eq!(keep_alive("5m"), seconds(300));
        assert_eq!(keep_alive("0"), seconds(0));
        assert_eq!(keep_alive("90"), seconds(90));
        assert_eq!(keep_alive("-1"), Ok(KeepAlive::Forever));
        assert!(keep_alive("soon").is_err() && keep_alive("5 weeks").is_err());
    }
}
