//! `cargo xtask test-fleet`: three replicas behind routers.

use crate::command::strata_for_checks;
use crate::python::Python;
use anyhow::{Result, bail};

/// A router that we did not write, what reads the events that routers read, and what knows the manifests' schemas.
const PACKAGES: &[&str] = &[
    "smg==1.13.0",
    "pyzmq==27.3.0",
    "msgspec==0.22.0",
    "kubernetes-validate==1.37.0",
    "jsonschema==4.26.0",
    "pyyaml==6.0.3",
];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let only = match arguments {
        [] => "",
        [flag, word] if flag == "--only" => word,
        _ => bail!("usage: cargo xtask test-fleet [--only WORD]"),
    };
    let Some(python) = Python::install("fleet", PACKAGES, None, "the fleet's checks")? else {
        return Ok(());
    };
    let strata = strata_for_checks()?;
    let arguments = [&*strata.to_string_lossy(), "--only", only];
    python.script("fleet_check.py", "smg, pyzmq", &arguments)
}
