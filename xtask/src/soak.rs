//! `cargo xtask soak`: for as long as asked, what CI runs for seconds.

use crate::command::{cargo, run as execute};
use anyhow::{Context, Result, bail};

/// Many clients of `strata serve`.
pub(crate) fn serve(arguments: &[String]) -> Result<()> {
    let (mut minutes, mut clients) = (3.0, 200);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let value = arguments.next();
        let value = value.with_context(|| format!("{argument} needs a number"))?;
        match argument.as_str() {
            "--minutes" => minutes = value.parse()?,
            "--clients" => clients = value.parse()?,
            other => bail!("there is no {other:?}: see `cargo xtask help`"),
        }
    }
    let seconds = (minutes * 60.0) as u64;
    execute(
        cargo("test --release --package strata-cli --test soak -- --nocapture many_clients")
            .env("STRATA_SOAK_SECONDS", seconds.to_string())
            .env("STRATA_SOAK_CLIENTS", clients.to_string())
            .env("STRATA_SOAK_STRICT", "1"),
    )
}

/// Attacks on `strata serve`, on loopback: silent sockets, slow uploads, the largest bodies, grammar bombs, each for so many
/// minutes.
pub(crate) fn hostile(arguments: &[String]) -> Result<()> {
    /// Longer runs say nothing more.
    const MOST_MINUTES: f64 = 30.0;
    let minutes = match arguments {
        [] => 2.0,
        [flag, minutes] if flag == "--minutes" => minutes.parse::<f64>()?,
        _ => bail!("usage: cargo xtask soak hostile [--minutes N]"),
    };
    let seconds = (minutes.clamp(0.1, MOST_MINUTES) * 60.0) as u64;
    execute(
        cargo("test --release --package strata-cli --test soak -- --nocapture attacks")
            .env("STRATA_HOSTILE_SECONDS", seconds.to_string())
            .env("STRATA_HOSTILE_SHARE", "100")
            .env("STRATA_SOAK_STRICT", "1"),
    )
}

/// Random load on the engine alone.
pub(crate) fn engine(arguments: &[String]) -> Result<()> {
    let minutes = match arguments {
        [] => "10",
        [flag, minutes] if flag == "--minutes" => minutes,
        _ => bail!("usage: cargo xtask soak engine [--minutes N]"),
    };
    let example = "run --release --quiet --package strata-engine --example soak -- --minutes";
    execute(cargo(example).arg(minutes))
}
