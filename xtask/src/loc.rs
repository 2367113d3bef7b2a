//! `cargo xtask loc`: the lines of everything that runs on the bare machine.
//!
//! Compiled is what the compiler's lists of files name. In the image is what the linker has kept of that: the files that
//! the program's line tables name, and large tables beside them, of which those say nothing. The limit is on the latter.

mod line_table;
mod source;

use crate::command::root;
use crate::unikernel::{self, Contents};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What all of it may have at most, and the machine's own crate.
const MOST: usize = 167_000;
const MOST_MACHINE: usize = 12_000;
/// A file with more lines, most of them numbers, is a table.
const TABLE: usize = 1_000;

/// Layers, and the packages in them; what is not named belongs to the last.
const LAYERS: [(&str, &[&str]); 8] = [
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
        "TLS and signatures",
        &[
            "strata-tls",
            "ed25519-compact",
            "chacha20poly1305",
            "chacha20",
            "poly1305",
            "universal-hash",
            "aead",
            "cipher",
            "crypto-common",
            "generic-array",
            "inout",
            "typenum",
            "subtle",
            "opaque-debug",
            "cpufeatures",
            "zeroize",
        ],
    ),
    (
        "HTTP APIs and their languages",
        &[
            "strata-wire",
            "strata-chat",
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
            "strata",
            "strata-engine",
            "strata-model",
            "strata-weights",
            "strata-template",
            "strata-tokenizer",
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

/// Lines that are compiled, and those in files of which something is in the image.
#[derive(Copy, Clone, Default)]
struct Lines {
    compiled: usize,
    in_image: usize,
}

impl std::iter::Sum for Lines {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, lines| Self {
            compiled: sum.compiled + lines.compiled,
            in_image: sum.in_image + lines.in_image,
        })
    }
}

/// A crate that is compiled.
struct Package {
    name: String,
    version: String,
    lines: Lines,
}

/// A source file.
struct Source {
    path: PathBuf,
    lines: usize,
    in_image: bool,
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "cargo xtask loc");
    let artifacts = artifacts()?;
    let program = artifacts
        .last()
        .and_then(|last| last["executable"].as_str());
    let program = program.context("cargo names no program")?;
    let kept = line_table::files(&std::fs::read(program)?)?;
    let mut sources = Vec::new();
    let mut packages: Vec<Package> = Vec::new();
    for artifact in &artifacts {
        let package = measure(artifact, &kept, &mut sources)?;
        let known = packages
            .iter_mut()
            .find(|known| known.name == package.name && known.version == package.version);
        match known {
            // Compiled once more, with other features.
            Some(known) if known.lines.compiled < package.lines.compiled => *known = package,
            Some(_) => {}
            None => packages.push(package),
        }
    }
    ensure!(
        packages.len() > 10,
        "cargo names {} packages only",
        packages.len()
    );
    table(&packages);
    largest(sources);
    let all: Lines = packages.iter().map(|package| package.lines).sum();
    let own = ["strata-unikernel", "strata-boot"];
    let machine = packages.iter().filter(|p| own.contains(&p.name.as_str()));
    let machine: Lines = machine.map(|package| package.lines).sum();
    println!(
        "\n{} of {MOST} lines in all, {} of {MOST_MACHINE} in crates/unikernel",
        all.in_image, machine.compiled
    );
    ensure!(
        all.in_image <= MOST,
        "{} lines in all are more than {MOST}",
        all.in_image
    );
    ensure!(
        machine.compiled <= MOST_MACHINE,
        "{} lines of crates/unikernel are more than {MOST_MACHINE}",
        machine.compiled
    );
    Ok(())
}

fn largest(mut sources: Vec<Source>) {
    sources.retain(|source| source.in_image);
    sources.sort_by(|a, b| b.lines.cmp(&a.lines).then_with(|| a.path.cmp(&b.path)));
    sources.dedup_by(|a, b| a.path == b.path);
    println!("\nthe largest files in the image:");
    for source in sources.iter().take(8) {
        println!("{:>9}  {}", source.lines, short(&source.path));
    }
}

fn table(packages: &[Package]) {
    println!(" in image  compiled  (lines without tests, comments and blank ones)");
    for (layer, names) in LAYERS {
        let known = |name: &str| LAYERS.iter().any(|(_, names)| names.contains(&name));
        let belongs = |package: &&Package| {
            let name = package.name.as_str();
            names.contains(&name) || names.is_empty() && !known(name)
        };
        let mut members: Vec<&Package> = packages.iter().filter(belongs).collect();
        members.sort_by_key(|package| std::cmp::Reverse(package.lines.in_image));
        let sum: Lines = members.iter().map(|package| package.lines).sum();
        println!("\n{:>9} {:>9}  {layer}", sum.in_image, sum.compiled);
        for package in members {
            let Lines { compiled, in_image } = package.lines;
            let Package { name, version, .. } = package;
            println!("{in_image:>9} {compiled:>9}    {name} {version}");
        }
    }
    let all: Lines = packages.iter().map(|package| package.lines).sum();
    println!(
        "\n{:>9} {:>9}  everything on the bare machine but Rust's core and alloc libraries",
        all.in_image, all.compiled
    );
    for (what, lines) in OTHERS {
        println!("{lines:>19}  {what}");
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
fn measure(artifact: &Value, kept: &HashSet<String>, sources: &mut Vec<Source>) -> Result<Package> {
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
    let mut own = Vec::new();
    for path in files(&text) {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let parts: Vec<&str> = path.to_str().unwrap_or_default().split('/').collect();
        let named = (0..parts.len()).any(|from| kept.contains(&parts[from..].join("/")));
        let lines = source::lines(&text, &features);
        let is_table = lines > TABLE && is_data(&text);
        own.push((
            is_table,
            Source {
                path,
                lines,
                in_image: named,
            },
        ));
    }
    let any = own.iter().any(|(_, source)| source.in_image);
    let mut lines = Lines::default();
    for (is_table, mut source) in own {
        source.in_image |= any && is_table;
        lines.compiled += source.lines;
        lines.in_image += if source.in_image { source.lines } else { 0 };
        sources.push(source);
    }
    Ok(Package {
        name,
        version,
        lines,
    })
}

/// Whether most lines are numbers and characters, not words.
fn is_data(text: &str) -> bool {
    let words = text.lines().filter(|line| {
        let first = line.trim_start().chars().next();
        first.is_some_and(|c| c.is_alphabetic() || "/#}".contains(c))
    });
    2 * words.count() < text.lines().count()
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
