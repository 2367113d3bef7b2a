//! `strata relay`: one door in front of several servers of the same models.

use crate::failure::Failure;
use crate::serve::listening::{ListenArguments, answer};
use strata_server::{Bound, Relay, ReplicaUrl};

/// Relay requests to several `strata serve`, and resume answers that break off on another one
///
/// A conversation goes to the server that had its last turn, others to the one with the least to do. Servers must have the
/// same models and flags, so that they give the same answers. They check the client's own key.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata relay --to http://127.0.0.1:8001 --to http://127.0.0.1:8002 --port 8080")]
pub(crate) struct Arguments {
    /// A server to relay to; can be repeated
    #[arg(long, value_name = "http://HOST:PORT", required = true)]
    to: Vec<ReplicaUrl>,
    #[command(flatten)]
    listening: ListenArguments,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let listening = arguments.listening;
    let (address, tls) = (listening.address()?, listening.tls()?);
    let bound = Bound::relay(
        address,
        listening.settings()?,
        Relay::new(arguments.to),
        tls.clone(),
    );
    answer(bound, address, tls.is_some())
}
