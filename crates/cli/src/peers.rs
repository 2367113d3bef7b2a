//! Models over several machines: the flags of the machine that is asked, and `strata peer` for the others.

use crate::computing::ComputeArguments;
use crate::failure::{Failure, Kind};
use crate::fetching::FetchArguments;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use strata::{Options, PeerHost, PeerHostOptions, PeerKey, PeerTold, Peers, Size};

/// Where a peer listens unless another port is named.
const PORT: u16 = 11435;

/// The key that machines of one model share.
#[derive(clap::Args)]
pub(crate) struct PeerKeyArguments {
    /// Key that the machines of a model share, at least 8 characters
    #[arg(
        long,
        value_name = "KEY",
        env = "STRATA_PEER_KEY",
        hide_env_values = true
    )]
    peer_key: Option<String>,
    /// File with that key
    #[arg(long, value_name = "FILE", conflicts_with = "peer_key")]
    peer_key_file: Option<PathBuf>,
}

impl PeerKeyArguments {
    fn key(&self) -> Result<PeerKey, Failure> {
        let hint = "set --peer-key-file, or STRATA_PEER_KEY in the environment";
        let text = match (&self.peer_key_file, &self.peer_key) {
            (Some(path), _) => {
                let read = std::fs::read_to_string(path);
                read.map_err(|error| Failure::io(path.display(), &error))?
            }
            (None, Some(key)) => key.clone(),
            (None, None) => {
                let sentence = "peers need a key that all machines of the model know";
                return Err(Failure::new(Kind::Usage, sentence).hint(hint));
            }
        };
        PeerKey::new(&text).map_err(|error| Failure::new(Kind::Usage, error).hint(hint))
    }
}

/// Other machines that have some of the model's layers. The answers are the same.
#[derive(clap::Args)]
#[command(next_help_heading = "Several machines")]
pub(crate) struct PeerArguments {
    /// Machines that have the layers after this one's, each running `strata peer` with the same model: HOST:PORT,…
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    peers: Vec<String>,
    /// How many layers this machine and each of the peers has [default: by their memory]
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        requires = "peers",
        value_parser = clap::value_parser!(u16)
    )]
    peer_layers: Vec<u16>,
    #[command(flatten)]
    key: PeerKeyArguments,
}

impl PeerArguments {
    /// The options with these flags.
    pub(crate) fn add_to(&self, options: Options) -> Result<Options, Failure> {
        if self.peers.is_empty() {
            return Ok(options);
        }
        let addresses = self.peers.iter().map(|text| with_port(text));
        let mut peers = Peers::new(addresses, self.key.key()?);
        if !self.peer_layers.is_empty() {
            let counts: Vec<usize> = self.peer_layers.iter().map(|&n| n.into()).collect();
            peers = peers.layers(counts);
        }
        Ok(options.peers(peers))
    }
}

/// An address, with the usual port where it names none.
fn with_port(text: &str) -> String {
    let text = text.trim();
    let last = text.rsplit(']').next().unwrap_or(text);
    let (bracketed, colons) = (text.starts_with('['), last.matches(':').count());
    match (bracketed, colons) {
        (_, 1) => text.into(),
        (false, 2..) => format!("[{text}]:{PORT}"),
        _ => format!("{text}:{PORT}"),
    }
}

/// Compute some of a model's layers for another machine
///
/// Waits for a `strata serve` or `strata run` with --peers, which says which layers these are; only they are loaded, and
/// they stay loaded when it goes. Both sides need the same model and the same key. What they send each other is encrypted
/// and authenticated.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata peer model.gguf --listen 0.0.0.0:11435 --peer-key-file key.txt
  strata serve model.gguf --peers 192.168.0.2,192.168.0.3 --peer-key-file key.txt
  strata plan model.gguf --peers 192.168.0.2,192.168.0.3 --peer-key-file key.txt")]
pub(crate) struct Arguments {
    /// The model: a .gguf file, a Hugging Face folder, or a name, which is downloaded if needed
    model: PathBuf,
    /// Address to listen on
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:11435")]
    listen: String,
    #[command(flatten)]
    key: PeerKeyArguments,
    #[command(flatten)]
    fetch: FetchArguments,
    #[command(flatten)]
    compute: ComputeArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let key = arguments.key.key()?;
    let listen = address(&arguments.listen)?;
    let path = match arguments.compute.quant {
        Some(_) => arguments.model.clone(),
        None => arguments.fetch.bring(&arguments.model)?,
    };
    let mut options = arguments.compute.options();
    if let Some(mix) = arguments.compute.quant {
        options = options.quantize(mix);
    }
    let runtime = arguments.compute.runtime()?;
    let host = PeerHostOptions { listen, key };
    let host = PeerHost::open(&path, &options, &runtime, host)?;
    let room = Size(host.room());
    eprintln!("listening on {}, with room for {room}", host.address());
    host.run(&|told| eprintln!("{}", in_words(&told)));
    Ok(())
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    let found = with_port(text).to_socket_addrs();
    let found = found.ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        Failure::new(Kind::Usage, format_args!("invalid address {text:?}"))
            .hint("expected ADDR or ADDR:PORT, such as --listen 127.0.0.1:11435")
    })
}

fn in_words(told: &PeerTold) -> String {
    let words = |layers: &std::ops::Range<usize>| match layers.len() {
        1 => format!("layer {}", layers.start),
        _ => format!(
            "layers {} to {}",
            layers.start,
            layers.end.saturating_sub(1)
        ),
    };
    match told {
        PeerTold::Stranger { from, error } => format!("turned away {from}: {error}"),
        PeerTold::Loading { from, layers } => format!("loading {} for {from}", words(layers)),
        PeerTold::Serving {
            from,
            layers,
            taken,
        } => format!(
            "serving {} to {from}: weights {}, keys and values {}, activations {}",
            words(layers),
            Size(taken.weights),
            Size(taken.pages),
            Size(taken.activations),
        ),
        PeerTold::Ended { from, error } => format!("{from} is gone: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::with_port;

    #[test]
    fn addresses_have_a_port() {
        for (text, address) in [
            ("10.0.0.2", "10.0.0.2:11435"),
            ("10.0.0.2:7", "10.0.0.2:7"),
            ("node-b", "node-b:11435"),
            ("::1", "[::1]:11435"),
            ("[::1]", "[::1]:11435"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(with_port(text), address);
        }
    }
}
