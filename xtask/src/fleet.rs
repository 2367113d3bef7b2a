//! `cargo xtask test-fleet`: three replicas behind routers.

use crate::command::{root, run_as, strata_for_checks, target};
use crate::conformance::install_node;
use crate::python::Python;
use anyhow::{Result, bail};
use std::process::Command;

/// A router that we did not write, what reads the events that routers read, and what knows the manifests' schemas.
const PACKAGES: &[&str] = &[
    "smg==1.13.0",
    "pyzmq==27.3.0",
    "msgspec==0.22.0",
    "kubernetes-validate==1.37.0",
    "jsonschema==4.26.0",
    "pyyaml==6.0.3",
];

/// The schemas of the Gateway API, which the packages above do not have.
const NODE: &[&str] = &["@kubernetes-models/gateway-api@2.0.0"];

/// As the example in `deploy` says.
const RAY: &[&str] = &["ray[serve]==2.60.0"];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let only = match arguments {
        [] => "",
        [flag] if flag == "--ray" => return ray(),
        [flag, word] if flag == "--only" => word,
        _ => bail!("usage: cargo xtask test-fleet [--only WORD | --ray]"),
    };
    let Some(python) = Python::install("fleet", PACKAGES, None, "the fleet's checks")? else {
        return Ok(());
    };
    let strata = strata_for_checks()?;
    let strata = strata.to_string_lossy();
    let mut arguments = vec![&*strata, "--only", only];
    let folder = target().join("fleet-node");
    let node = folder.to_string_lossy();
    match install_node(&folder, NODE) {
        Ok(()) => arguments.extend(["--node", &node]),
        Err(error) => {
            eprintln!("skipped: the Gateway API's schemas could not be installed: {error:#}");
        }
    }
    python.script("fleet_check.py", "smg, pyzmq", &arguments)
}

/// Replicas of Ray Serve, which takes half a minute to start and 1.3 GiB: not a part of the other checks.
fn ray() -> Result<()> {
    let Some(python) = Python::install("ray", RAY, None, "the example for Ray Serve")? else {
        return Ok(());
    };
    let strata = strata_for_checks()?;
    run_as(
        "ray_serve.py (Ray Serve)",
        Command::new(python.interpreter())
            .arg(root().join("deploy/ray_serve.py"))
            .arg("--check")
            .env("STRATA", strata)
            .env("RAY_USAGE_STATS_ENABLED", "0"),
    )
}
