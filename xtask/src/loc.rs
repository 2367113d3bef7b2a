//! `cargo xtask loc`: the lines of everything that runs on the bare machine.

mod source;

use crate::command::root;
use crate::unikernel::{self, Contents};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What all of it may have at most, and the machine's own crate.
const MOST: usize = 100_000;
const MOST_MACHINE: usize = 8_000;

/// Layers, and the packages in them; what is not named belongs to the last.
const LAYERS: [(&str, &[&str]); 7] = [
    (
        "the machine: boot, memory, processors, console",
        &[
            "strata-unikernel",
            "strata-boot",
            "strata-platform",
            "talc",
            "font8x8",
            "allocator-api2",
            "lock_api",
            "scopeguard",
        ],
    ),
    (
        "drivers of virtio devices",
        &["virtio-drivers", "zerocopy", "safe-mmio", "bitflags", "log"],
    ),
    (
        "TCP/IP",
        &[
            "smoltcp",
            "managed",
            "heapless",
            "hash32",
            "byteorder",
            "stable_deref_trait",
        ],
    ),
    (
        "HTTP APIs and their languages",
        &[
            "strata-wire",
            "strata-service",
            "base64",
            "serde",
            "serde_core",
            "serde_json",
            "itoa",
            "zmij",
            "memchr",
        ],
    ),
    (
        "the engine and the model",
        &[
            "strata-engine",
            "strata-model",
            "strata-weights",
            "strata-token",
            "unicode-normalization",
            "tinyvec",
            "miniz_oxide",
            "adler2",
        ],
    ),
    (
        "arithmetic",
        &["strata-kernels", "strata-quant", "libm", "bytemuck"],
    ),
    ("other libraries", &[]),
];

/// Others, as they tell it themselves.
const OTHERS: [(&str, &str); 2] = [
    ("μInference, all of it", "about 1,300,000"),
    (
        "a conventional stack: the repository of Linux 6.14 alone",
        "about 40,000,000",
    ),
];

/// A crate that is compiled in.
struct Package {
    name: String,
    version: String,
    lines: usize,
}

/// A source file.
struct Source {
    path: PathBuf,
    lines: usize,
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "cargo xtask loc");
    let mut sources = Vec::new();
    let mut packages: Vec<Package> = Vec::new();
    for artifact in artifacts()? {
        let package = measure(&artifact, &mut sources)?;
        match packages
            .iter_mut()
            .find(|known| known.name == package.name && known.version == package.version)
        {
            // Compiled once more, with other features.
            Some(known) => known.lines = known.lines.max(package.lines),
            None => packages.push(package),
        }
    }
    ensure!(
        packages.len() > 10,
        "cargo names {} packages only",
        packages.len()
    );
    table(&packages);
    sources.sort_by(|a, b| b.lines.cmp(&a.lines).then_with(|| a.path.cmp(&b.path)));
    sources.dedup_by(|a, b| a.path == b.path);
    println!("\nthe largest files:");
    for source in sources.iter().take(8) {
        println!("{:>9}  {}", source.lines, short(&source.path));
    }
    let all: usize = packages.iter().map(|package| package.lines).sum();
    let machine = packages
        .iter()
        .filter(|package| ["strata-unikernel", "strata-boot"].contains(&package.name.as_str()));
    let machine: usize = machine.map(|package| package.lines).sum();
    ensure!(all <= MOST, "{all} lines in all are more than {MOST}");
    ensure!(
        machine <= MOST_MACHINE,
        "{machine} lines of crates/unikernel are more than {MOST_MACHINE}"
    );
    println!("\n{all} of {MOST} lines in all, {machine} of {MOST_MACHINE} in crates/unikernel");
    Ok(())
}

fn table(packages: &[Package]) {
    println!("    lines  what is compiled in (no tests, comments, blank lines)");
    let mut all = 0;
    for (layer, names) in LAYERS {
        let known = |name: &str| LAYERS.iter().any(|(_, names)| names.contains(&name));
        let belongs = |package: &&Package| {
            let name = package.name.as_str();
            names.contains(&name) || names.is_empty() && !known(name)
        };
        let mut members: Vec<&Package> = packages.iter().filter(belongs).collect();
        members.sort_by_key(|package| std::cmp::Reverse(package.lines));
        let sum: usize = members.iter().map(|package| package.lines).sum();
        all += sum;
        println!("\n{sum:>9}  {layer}");
        for package in members {
            println!(
                "{:>13}  {} {}",
                package.lines, package.name, package.version
            );
        }
    }
    println!("\n{all:>9}  everything on the bare machine (and Rust's core and alloc libraries)");
    for (what, lines) in OTHERS {
        println!("{lines:>17}  {what}");
    }
}

/// What cargo says that it has compiled for the machine.
fn artifacts() -> Result<Vec<Value>> {
    let mut command = unikernel::cargo_build(Contents::Tale);
    let output = command
        .args(["--message-format", "json"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "the unikernel cannot be built");
    let text = String::from_utf8(output.stdout)?;
    let messages = text.lines().map(serde_json::from_str::<Value>);
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    let for_the_machine = |message: &Value| {
        let made = message["filenames"][0].as_str().unwrap_or_default();
        message["reason"] == "compiler-artifact" && made.contains(unikernel::TARGET)
    };
    Ok(messages.into_iter().filter(for_the_machine).collect())
}

/// The lines of one crate, by the list of its files that the compiler left.
fn measure(artifact: &Value, sources: &mut Vec<Source>) -> Result<Package> {
    let id = artifact["package_id"]
        .as_str()
        .context("cargo names no package")?;
    let (name, version) = identify(id).with_context(|| format!("what is {id}?"))?;
    let features: HashSet<String> = artifact["features"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|feature| feature.as_str().map(String::from))
        .collect();
    let made = artifact["filenames"][0]
        .as_str()
        .context("cargo names no file")?;
    let list = dependency_list(Path::new(made))?;
    let text = std::fs::read_to_string(&list)
        .with_context(|| format!("cannot read {}", list.display()))?;
    let mut lines = 0;
    for path in files(&text) {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let count = source::lines(&text, &features);
        lines += count;
        sources.push(Source { path, lines: count });
    }
    Ok(Package {
        name,
        version,
        lines,
    })
}

/// `…#name@version`, or `…/name#version`.
fn identify(id: &str) -> Option<(String, String)> {
    let (path, last) = id.rsplit_once('#')?;
    let (name, version) = match last.split_once('@') {
        Some(pair) => pair,
        None => (path.rsplit_once('/')?.1, last),
    };
    Some((name.into(), version.into()))
}

/// The list beside what was made; a program's is the latest of its name among those of the libraries.
fn dependency_list(made: &Path) -> Result<PathBuf> {
    let stem = made.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.context("cargo names no file")?;
    if let Some(name) = stem.strip_prefix("lib") {
        return Ok(made.with_file_name(format!("{name}.d")));
    }
    let folder = made.with_file_name("deps");
    let prefix = format!("{}-", stem.replace('-', "_"));
    let mut lists = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&prefix) && name.ends_with(".d") {
            lists.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    match lists.into_iter().max() {
        Some((_, path)) => Ok(path),
        None => bail!("there is no list of the files of {}", made.display()),
    }
}

/// The Rust files in a list, each once.
fn files(list: &str) -> Vec<PathBuf> {
    let rules = list.lines().filter(|line| !line.starts_with('#'));
    let named = rules.filter_map(|line| line.split_once(": "));
    let mut found: Vec<PathBuf> = named
        .flat_map(|(_, files)| files.split_whitespace())
        .filter(|file| file.ends_with(".rs"))
        .map(|file| root().join("crates/unikernel/boot").join(file))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// A path as a reader knows it.
fn short(path: &Path) -> String {
    let text = path.to_string_lossy().into_owned();
    let own = path
        .strip_prefix(root())
        .map(|path| path.display().to_string());
    own.unwrap_or_else(|_| {
        let parts: Vec<&str> = text.rsplit('/').collect();
        let from_source = parts.iter().position(|part| *part == "src").unwrap_or(0);
        let kept: Vec<&str> = parts[..parts.len().min(from_source + 2)].to_vec();
        kept.into_iter().rev().collect::<Vec<_>>().join("/")
    })
}
