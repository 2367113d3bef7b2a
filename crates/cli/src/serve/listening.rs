//! What every door of the program needs: an address, who may call, what clients may take, where lines go.

use super::keys;
use crate::failure::{Failure, Kind};
use crate::stop_signal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use strata::Size;
use strata_host::open_files_limit;
use strata_server::{Access, Bound, Budgets, Log, LogFormat, LogLevel, Settings, Tls};

const DEFAULT_PORT: u16 = 11434;

/// Where a server listens, and to whom.
#[derive(clap::Args)]
pub(crate) struct ListenArguments {
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
    /// Log format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    log_format: Format,
    /// Log level; each level includes those before it
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t)]
    log_level: Level,
}

impl ListenArguments {
    /// The address to listen on.
    pub(crate) fn address(&self) -> Result<SocketAddr, Failure> {
        let mut address = address(&self.host)?;
        if let Some(port) = self.port {
            address.set_port(port);
        }
        Ok(address)
    }

    /// Whether everyone may call from other machines.
    pub(crate) fn is_open(&self) -> bool {
        self.insecure_no_auth
    }

    pub(crate) fn tls(&self) -> Result<Option<Tls>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let tls = Tls::read(certificate, key);
        Ok(Some(tls.map_err(|error| Failure::new(Kind::Usage, error))?))
    }

    /// Who may call, what clients may take, and where lines go; the rest as usual.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        self.settings_at(self.address()?)
    }

    /// The same for a server at another address than the one of the arguments.
    pub(crate) fn settings_at(&self, address: SocketAddr) -> Result<Settings, Failure> {
        Ok(Settings {
            access: access(self, address.ip())?,
            budgets: budgets(self.max_connections, self.max_body),
            log: log(self.log_format, self.log_level)?,
            ..Settings::default()
        })
    }
}

/// Answers requests until the process is asked to end.
pub(crate) fn answer(
    bound: std::io::Result<Bound>,
    address: SocketAddr,
    tls: bool,
) -> Result<(), Failure> {
    let bound = bound.map_err(|error| {
        let said = match error.kind() {
            // Windows says it in a sentence that few understand.
            std::io::ErrorKind::AddrInUse => "address already in use".into(),
            _ => error.to_string().to_lowercase(),
        };
        let said = said.split(" (os error").next().unwrap_or(&said);
        let sentence = format_args!("cannot listen on {address}: {said}");
        Failure::new(Kind::Failed, sentence)
            .hint("another program may be using the port; choose another with --port")
    })?;
    let scheme = if tls { "https" } else { "http" };
    if let Some(address) = bound.address() {
        let listening = format!("listening on {scheme}://{address}");
        bound.log().say(LogLevel::Info, &listening, &[]);
        let page = format!("open {scheme}://{} in a browser", reachable(address));
        bound.log().say(LogLevel::Info, &page, &[]);
    }
    #[cfg(unix)]
    if let Some(path) = bound.local_path() {
        let listening = format!("listening on the socket {}", path.display());
        bound.log().say(LogLevel::Info, &listening, &[]);
    }
    bound
        .run(stopped())
        .map_err(|error| Failure::new(Kind::Failed, format_args!("the server failed: {error}")))
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
    if stop_signal::received().await.is_err() {
        std::future::pending::<()>().await;
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
fn access(arguments: &ListenArguments, ip: IpAddr) -> Result<Access, Failure> {
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
}
