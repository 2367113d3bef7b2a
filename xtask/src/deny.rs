//! `cargo xtask deny`: what others' code Strata is built of. Licences, sources, versions, and code that runs during the
//! build are as the lists in [`allowed`] say. It asks the lock files and what cargo has fetched, not the network.

mod allowed;
mod license;

use crate::command::{cargo, root};
use allowed::{BUILD_CODE, DUPLICATES, LICENSES};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The workspaces that have a lock file: the program, WebAssembly, the fuzz targets, the bare machine, a program that
/// embeds Strata, and the proof that the libraries need no standard library.
const WORKSPACES: [&str; 6] = [
    "Cargo.toml",
    "bindings/wasm/Cargo.toml",
    "fuzz/Cargo.toml",
    "crates/unikernel/boot/Cargo.toml",
    "crates/strata/tests/embedder/Cargo.toml",
    "xtask/no_std/Cargo.toml",
];
/// What Strata is built for here. Packages of other systems are no part of it.
const PLATFORMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A package that somebody else wrote.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    folder: PathBuf,
    builds: bool,
}

impl Package {
    fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| value[key].as_str().map(String::from);
        let kinds = value["targets"].as_array()?.iter();
        let mut kinds = kinds.flat_map(|target| target["kind"].as_array().into_iter().flatten());
        Some(Self {
            name: text("name")?,
            version: text("version")?,
            license: text("license"),
            source: text("source"),
            folder: Path::new(value["manifest_path"].as_str()?).parent()?.into(),
            builds: kinds.any(|kind| matches!(kind.as_str(), Some("custom-build" | "proc-macro"))),
        })
    }
}

pub(crate) fn run() -> Result<()> {
    let mut problems = Vec::new();
    let (mut all, mut several) = (BTreeSet::new(), BTreeSet::new());
    for manifest in WORKSPACES {
        let packages = packages(manifest)?;
        several.extend(duplicates(&packages));
        all.extend(packages);
    }
    let others: Vec<&Package> = all.iter().filter(|package| !is_ours(package)).collect();
    for package in &others {
        problems.extend(faults(package));
        if is_yanked(package) == Some(true) {
            problems.push(format!("{} {} was yanked", package.name, package.version));
        }
    }
    let builds: BTreeSet<String> = others
        .iter()
        .filter(|package| package.builds)
        .map(|package| package.name.clone())
        .collect();
    compare(
        "is there in more than one version",
        &several,
        &DUPLICATES,
        &mut problems,
    );
    compare(
        "runs code while Strata is built",
        &builds,
        &BUILD_CODE,
        &mut problems,
    );
    if !problems.is_empty() {
        bail!(
            "{}\nxtask/src/deny/allowed.rs lists what is allowed, and why",
            problems.join("\n")
        );
    }
    eprintln!(
        "{} packages of others: licences, sources, versions and build scripts are as they should be",
        others.len()
    );
    Ok(())
}

/// All packages that a workspace is built of.
fn packages(manifest: &str) -> Result<Vec<Package>> {
    let mut command = cargo("metadata --locked --format-version 1 --manifest-path");
    command.arg(manifest).current_dir(root());
    for platform in PLATFORMS {
        command.args(["--filter-platform", platform]);
    }
    let output = command.output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!(
            "{manifest}: {}`cargo metadata --manifest-path {manifest}` writes its lock file anew",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let json: Value = serde_json::from_slice(&output.stdout)?;
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    // The list has packages of all systems; what is used is in the graph.
    let used = array(&json["resolve"]["nodes"]);
    let used: BTreeSet<&str> = used.iter().filter_map(|node| node["id"].as_str()).collect();
    array(&json["packages"])
        .iter()
        .filter(|package| package["id"].as_str().is_some_and(|id| used.contains(id)))
        .map(|package| Package::read(package).context("cargo's metadata is of another form"))
        .collect()
}

fn is_ours(package: &Package) -> bool {
    package.source.is_none() && package.folder.starts_with(root())
}

/// What is wrong with a package by itself.
fn faults(package: &Package) -> Vec<String> {
    let Package { name, version, .. } = package;
    let mut faults = Vec::new();
    if package.source.as_deref() != Some(REGISTRY) {
        let source = package
            .source
            .as_deref()
            .unwrap_or("a folder outside of the repository");
        faults.push(format!(
            "{name} {version} comes from {source}, not from crates.io"
        ));
    }
    let is_allowed = |license: &str| LICENSES.contains(&license);
    let license = package.license.as_deref().unwrap_or("none");
    if license::is_met(license, &is_allowed) != Some(true) {
        faults.push(format!("{name} {version} has the licence {license}"));
    }
    faults
}

/// Names that stand for several versions of one package.
fn duplicates(packages: &[Package]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions
            .entry(&package.name)
            .or_default()
            .insert(&package.version);
    }
    let several = versions
        .into_iter()
        .filter(|(_, versions)| versions.len() > 1);
    several.map(|(name, _)| name.to_owned()).collect()
}

/// What is found and not listed, or listed and not found.
fn compare(
    what: &str,
    found: &BTreeSet<String>,
    listed: &[(&str, &str)],
    problems: &mut Vec<String>,
) {
    for name in found {
        if !listed.iter().any(|(known, _)| known == name) {
            problems.push(format!("{name} {what}, and is not listed"));
        }
    }
    for (name, _) in listed {
        if !found.contains(*name) {
            problems.push(format!("{name} is listed, and no longer {what}"));
        }
    }
}

/// Whether the registry has withdrawn a version, as far as cargo's copy of the index knows.
fn is_yanked(package: &Package) -> Option<bool> {
    let name = package.name.to_lowercase();
    let place = match name.len() {
        1 => format!("1/{name}"),
        2 => format!("2/{name}"),
        3 => format!("3/{}/{name}", &name[..1]),
        _ => format!("{}/{}/{name}", name.get(..2)?, name.get(2..4)?),
    };
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")))?;
    let indices = std::fs::read_dir(home.join("registry/index")).ok()?;
    let files = indices
        .flatten()
        .map(|index| index.path().join(".cache").join(&place));
    // Versions and their JSON, with zeros between them.
    files
        .filter_map(|file| std::fs::read(file).ok())
        .find_map(|file| {
            let mut entries = file.split(|&byte| byte == 0);
            entries.find_map(|entry| {
                let entry: Value = serde_json::from_slice(entry).ok()?;
                let same = entry["vers"].as_str() == Some(&package.version);
                same.then(|| entry["yanked"].as_bool()).flatten()
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_of_another_licence_or_source_is_refused() {
        let package = Package {
            name: "a".into(),
            version: "1.0.0".into(),
            license: Some("MIT OR GPL-3.0-only".into()),
            source: Some(REGISTRY.into()),
            folder: "/elsewhere".into(),
            builds: false,
        };
        assert_eq!(faults(&package), Vec::<String>::new());
        let copyleft = Package {
            license: Some("GPL-3.0-only".into()),
            ..package.clone()
        };
        assert_eq!(faults(&copyleft), ["a 1.0.0 has the licence GPL-3.0-only"]);
        let git = Package {
            source: Some("git+https://example.org/a".into()),
            ..package
        };
        assert!(faults(&git)[0].contains("git+https"), "{:?}", faults(&git));
    }

    #[test]
    fn lists_and_findings_must_be_the_same() {
        let mut problems = Vec::new();
        let found = ["new".to_string(), "known".to_string()].into();
        compare(
            "is odd",
            &found,
            &[("known", "why"), ("gone", "why")],
            &mut problems,
        );
        assert_eq!(
            problems,
            [
                "new is odd, and is not listed",
                "gone is listed, and no longer is odd"
            ]
        );
    }
}
