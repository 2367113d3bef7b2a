//! `cargo xtask bench bindings`: streams in Python, Node and Go beside `strata bench` and llama-cpp-python.

use super::languages::{go_command, install_wheel, node_package};
use super::package::{self, Build, copy, fresh};
use super::{PACKAGES, folder};
use crate::command::{cargo, root, run as execute, target};
use crate::llama_cpp::LlamaCpp;
use crate::python::Python;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

const TALE: &str = "models/tale/tale-q4_k_m.gguf";
/// Tokens of a turn, and rounds of turns.
const FULL: [&str; 2] = ["256", "15"];
const QUICK: [&str; 2] = ["32", "2"];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let sizes = match arguments {
        [] => FULL,
        [flag] if flag == "--quick" => QUICK,
        _ => bail!("bench bindings takes --quick and nothing else"),
    };
    execute(&mut cargo(&format!("build --release --quiet {PACKAGES}")))?;
    let place = fresh("bench")?;
    let what = "the packages that are measured";
    let llama = Some(LlamaCpp::for_checks());
    let python = Python::install("bindings-bench", &["numpy==2.4.6"], llama, what)?;
    let python = python.context("Python's packages could not be installed")?;
    install_wheel(&python, &place, Build::Release)?;
    let scripts = root().join("bench/bindings");
    let node = place.join("node/node_modules/strata-llm");
    fs::create_dir_all(&node)?;
    node_package(&node, Build::Release)?;
    fs::copy(scripts.join("stream.mjs"), place.join("node/stream.mjs"))?;
    let go = go_program(&place)?;
    let interpreter = python.interpreter().display();
    let scripts = scripts.display();
    let mut compare = Command::new(python.interpreter());
    compare
        .arg(root().join("bench/bindings.py"))
        .arg(target().join("release/strata"))
        .arg(root().join(TALE))
        .args(sizes)
        .arg(format!("Python={interpreter} -I {scripts}/stream.py"))
        .arg(format!("Node=node {}/node/stream.mjs", place.display()))
        .arg(format!("Go={}", go.display()))
        .arg(format!(
            "llama-cpp-python={interpreter} -I {scripts}/stream_llama.py"
        ));
    execute(compare.env("LD_LIBRARY_PATH", place.join("c/lib")))?;
    Ok(fs::remove_dir_all(&place)?)
}

/// Builds the program in Go with the library of a release.
fn go_program(place: &Path) -> Result<std::path::PathBuf> {
    let library = place.join("c");
    package::install(&library, Build::Release)?;
    copy(&root().join("bindings/go"), &place.join("strata"))?;
    let project = place.join("go");
    fs::create_dir_all(&project)?;
    fs::copy(
        root().join("bench/bindings/stream.go"),
        project.join("main.go"),
    )?;
    fs::write(
        project.join("go.mod"),
        "module stream\n\ngo 1.23\n\nrequire strata.dev/strata v0.1.0\n\nreplace strata.dev/strata => ../strata\n",
    )?;
    let cache = folder().join("go-cache");
    fs::create_dir_all(&cache)?;
    let mut build = go_command(&project, &library)?;
    execute(
        build
            .args(["build", "-C"])
            .arg(&project)
            .args(["-o", "stream", "."]),
    )?;
    Ok(project.join("stream"))
}
