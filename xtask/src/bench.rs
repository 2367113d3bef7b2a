//! `cargo xtask bench`: speed beside peers, in the same run on the same machine.

use crate::command::{cargo, root, run as execute, target};
use crate::peers::Peers;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// The mixes that are compared where no model is named.
const MIXES: &[&str] = &["q4_k_m", "q4_0", "q8_0"];

/// Strata and llama.cpp, alternately. `arguments` are models and the script's own flags.
pub(crate) fn vs_llamacpp(arguments: &[String]) -> Result<()> {
    let Some(peers) = Peers::install()? else {
        bail!("llama.cpp could not be installed")
    };
    execute(&mut cargo("build --release --quiet --package strata"))?;
    let strata = target().join("release/strata");
    let named = arguments.iter().any(|argument| argument.ends_with(".gguf"));
    let models = if named {
        Vec::new()
    } else {
        MIXES
            .iter()
            .map(|mix| synthetic(&strata, mix))
            .collect::<Result<_>>()?
    };
    execute(
        Command::new(peers.python())
            .arg(root().join("bench/vs_llamacpp.py"))
            .arg(&strata)
            .args(models)
            .args(arguments),
    )
}

/// A 1b model of a mix, made once.
fn synthetic(strata: &PathBuf, mix: &str) -> Result<PathBuf> {
    let path = target().join(format!("bench-1b-{mix}.gguf"));
    if !path.exists() {
        execute(
            Command::new(strata)
                .arg("synth")
                .arg(&path)
                .args(["--shape", "1b", "--mix", mix]),
        )?;
    }
    Ok(path)
}
