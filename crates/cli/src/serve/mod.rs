//! `strata serve`: every dialect on one port.

pub(crate) mod keys;
mod library;
pub(crate) mod models;

use crate::computing::{ComputeArguments, DeviceArguments};
use crate::failure::{Failure, Kind};
use crate::fetching::FetchArguments;
use models::LocalModels;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use strata::load::AdapterFile;
use strata::load::BUILT_IN;
use strata::{Options, Size};
use strata_chat::KeepAlive;
use strata_host::{PageFiles, open_files_limit, share_heaps};
use strata_server::{
    Access, Bound, Budgets, Collector, Log, LogFormat, LogLevel, Settings, SlotFolder, Tls,
};

const DEFAULT_PORT: u16 = 11434;

/// Serve models over the OpenAI, Anthropic, Ollama and llama-server APIs
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The models: .gguf files, Hugging Face folders, or names, which are downloaded if needed [default: tale]; the first
    /// one answers requests that name no model
    #[arg(value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// Address to listen on
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "OLLAMA_HOST",
        default_value = "127.0.0.1:11434"
    )]
    host: String,
    /// Port to listen on, instead of the one in --host
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
    /// API key that clients must send; required if other machines can reach the server. It may do everything
    #[arg(
        long,
        value_name = "KEY",
        env = "STRATA_API_KEY",
        hide_env_values = true
    )]
    api_key: Option<String>,
    /// File with one API key per line: NAME KEY [admin] [requests-per-minute] [model,model…]. Only keys with the word
    /// admin, or the only key there is, change the server and its models
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Let other machines use the server without a key
    #[arg(long)]
    insecure_no_auth: bool,
    /// Host name that requests may use, besides localhost and IP addresses; can be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Web origin that may call the server from a browser; * for all
    #[arg(
        long,
        value_name = "ORIGIN",
        env = "OLLAMA_ORIGINS",
        value_delimiter = ','
    )]
    allow_origin: Vec<String>,
    /// Maximum number of connections; half of them from one address [default: 8192, or what the open-files limit allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=65536))]
    max_connections: Option<u32>,
    /// Maximum size of a request's body
    #[arg(long, value_name = "SIZE", default_value = "32MiB")]
    max_body: Size,
    /// TLS certificate chain, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// TLS private key, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
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
    /// Projector that lets the first model see images [default: the model's own, or *mmproj*.gguf beside its file]
    #[arg(long, value_name = "FILE")]
    mmproj: Option<PathBuf>,
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
    /// Log format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    log_format: Format,
    /// Log level; each level includes those before it
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t)]
    log_level: Level,
    /// OpenTelemetry collector that receives traces over HTTP
    #[arg(long, value_name = "http://HOST:PORT")]
    otel_endpoint: Option<Collector>,
    #[command(flatten)]
    fetch: FetchArguments,
    #[command(flatten)]
    compute: ComputeArguments,
    #[command(flatten)]
    device: DeviceArguments,
}

impl Arguments {
    /// How models are opened, but for caches and adapters.
    pub(crate) fn options(&self) -> Options {
        let options = self
            .compute
            .options()
            .device(self.device.device)
            .requests(self.parallel.into())
            .sessions(self.slot_save_path.is_some());
        match self.ctx {
            Some(context) => options.context(context as usize),
            None => options,
        }
    }
}

/// How lines are written.
#[derive(Copy, Clone, Default, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
}

/// Which lines are written.
#[derive(Copy, Clone, Default, clap::ValueEnum)]
enum Level {
    /// Internal errors
    Error,
    /// Rejected requests
    Warn,
    /// All requests
    #[default]
    Info,
    /// Also health, readiness and metrics requests
    Debug,
}

fn log(format: Format, level: Level) -> Result<Log, Failure> {
    let format = match format {
        Format::Text => LogFormat::Text,
        Format::Json => LogFormat::Json,
    };
    let level = match level {
        Level::Error => LogLevel::Error,
        Level::Warn => LogLevel::Warn,
        Level::Info => LogLevel::Info,
        Level::Debug => LogLevel::Debug,
    };
    Log::new(format, level, std::io::stderr()).map_err(|error| {
        let sentence = format_args!("cannot start the log thread: {error}");
        Failure::new(Kind::Failed, sentence)
    })
}

/// What clients may take. Connections leave files for models, uploads and caches.
fn budgets(connections: Option<u32>, body: Size) -> Budgets {
    const OTHER_FILES: u64 = 128;
    let usual = Budgets::SERVER;
    let files = open_files_limit().saturating_sub(OTHER_FILES) / 2;
    let asked = connections.map(|asked| asked as usize);
    let connections = asked
        .unwrap_or(usual.connections)
        .min(files as usize)
        .max(2);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Budgets {
        connections,
        address_connections: connections / 2,
        requests: usual.requests.max(asked.unwrap_or(0).min(connections)),
        body_bytes: body.0 as usize,
        preparing_threads: processors.clamp(2, 4),
        ..usual
    }
}

/// The folder for slots, made where it is not there.
fn slot_folder(path: PathBuf, limit: u64) -> Result<SlotFolder, Failure> {
    std::fs::create_dir_all(&path).map_err(|error| Failure::io(path.display(), &error))?;
    Ok(SlotFolder { path, limit })
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    share_heaps();
    let mut address = address(&arguments.host)?;
    if let Some(port) = arguments.port {
        address.set_port(port);
    }
    let access = access(&arguments, address.ip())?;
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => {
            let tls = Tls::read(certificate, key);
            Some(tls.map_err(|error| Failure::new(Kind::Usage, error))?)
        }
        _ => None,
    };
    let mut options = arguments.options();
    let mut paths = arguments.models;
    if paths.is_empty() {
        paths.push(BUILT_IN.into());
    }
    for path in &mut paths {
        *path = arguments.fetch.bring(path)?;
    }
    let stored = arguments.cache.as_ref().map(|cache| cache.join("objects"));
    if let Some(folder) = arguments.cache {
        let bytes = arguments.cache_size.0;
        PageFiles::open(&folder, bytes).map_err(|error| Failure::io(folder.display(), &error))?;
        options = options.cache(folder, bytes);
    }
    let mut first = options.clone();
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
    let models = LocalModels::new(&paths, runtime, options, first)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let settings = Settings {
        access,
        budgets: budgets(arguments.max_connections, arguments.max_body),
        log: log(arguments.log_format, arguments.log_level)?,
        traces: arguments.otel_endpoint,
        any_model: arguments.any_model.unwrap_or(paths.len() == 1),
        slots: slots.transpose()?,
        stored,
        ..Settings::default()
    };
    let bound = Bound::new(
        address,
        settings,
        Arc::new(models),
        arguments.keep_alive,
        tls,
    );
    let bound = bound.map_err(|error| {
        let said = error.to_string();
        let said = said
            .split(" (os error")
            .next()
            .unwrap_or(&said)
            .to_lowercase();
        let sentence = format_args!("cannot listen on {address}: {said}");
        Failure::new(Kind::Failed, sentence)
            .hint("another program may be using the port; choose another with --port")
    })?;
    let address = bound.address().unwrap_or(address);
    let listening = format!("listening on {scheme}://{address}");
    bound.log().say(LogLevel::Info, &listening, &[]);
    let page = format!("open {scheme}://{} in a browser", reachable(address));
    bound.log().say(LogLevel::Info, &page, &[]);
    bound
        .run(stopped())
        .map_err(|error| Failure::new(Kind::Failed, format_args!("the server failed: {error}")))
}

/// The address under which a browser on this machine finds the server.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Done when the process is asked to end.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// The address that `--host` means: `ADDR`, `ADDR:PORT`, `:PORT`, perhaps as a URL, as with Ollama.
pub(crate) fn address(host: &str) -> Result<SocketAddr, Failure> {
    let plain = host.trim();
    let plain = plain.split_once("://").map_or(plain, |(_, rest)| rest);
    let plain = plain.trim_end_matches('/');
    let found = match plain {
        "" => Some(SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT))),
        text => {
            let text = match text.strip_prefix(':') {
                Some(port) if !port.contains(':') => format!("0.0.0.0:{port}"),
                _ => text.to_owned(),
            };
            let unbracketed = text.trim_start_matches('[').trim_end_matches(']');
            match unbracketed.parse::<IpAddr>() {
                Ok(ip) => Some(SocketAddr::new(ip, DEFAULT_PORT)),
                Err(_) if text.contains(':') => {
                    text.to_socket_addrs().ok().and_then(|mut a| a.next())
                }
                Err(_) => (text.as_str(), DEFAULT_PORT)
                    .to_socket_addrs()
                    .ok()
                    .and_then(|mut a| a.next()),
            }
        }
    };
    found.ok_or_else(|| {
        Failure::new(Kind::Usage, format_args!("invalid address {host:?}"))
            .hint("expected ADDR or ADDR:PORT, such as --host 127.0.0.1:11434")
    })
}

/// Who may call; everyone only where nobody else can, or where that was asked for.
fn access(arguments: &Arguments, ip: IpAddr) -> Result<Access, Failure> {
    let mut keys = match &arguments.keys {
        Some(path) => keys::read(path)?,
        None => Vec::new(),
    };
    if let Some(secret) = &arguments.api_key {
        keys.push(keys::unlimited(secret)?);
    }
    if keys.is_empty() && !ip.is_loopback() && !arguments.insecure_no_auth {
        return Err(Failure::new(
            Kind::Usage,
            format_args!(
                "refusing to listen on {ip} without an API key: other machines can reach it"
            ),
        )
        .hint("set --api-key or --keys, or --insecure-no-auth to allow everyone"));
    }
    let mut access = Access::new(keys);
    access.hosts.clone_from(&arguments.allow_host);
    access.origins.clone_from(&arguments.allow_origin);
    Ok(access)
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
    fn addresses_are_read_as_ollama_reads_them() {
        for (text, address) in [
            ("127.0.0.1:11434", "127.0.0.1:11434"),
            ("0.0.0.0", "0.0.0.0:11434"),
            (":8080", "0.0.0.0:8080"),
            ("http://127.0.0.1:5/", "127.0.0.1:5"),
            ("[::1]:9", "[::1]:9"),
            ("::1", "[::1]:11434"),
            ("", "127.0.0.1:11434"),
        ] {
            assert_eq!(super::address(text).unwrap().to_string(), address, "{text}");
        }
        assert!(address("127.0.0.1:99999").is_err());
    }

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
