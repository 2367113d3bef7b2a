//! `cargo xtask dist`: what users download. An archive for each system with the program, the bootable kernel inside it,
//! its completions and manual pages; a bill of materials beside each; checksums over all; and the script that installs it.

mod archive;
mod check;
mod installer;
mod sbom;
mod target;

use crate::command::{root, run as execute, target as build_folder};
use crate::unikernel::{Contents, build};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
pub(crate) use target::Profile;
pub(crate) use target::{MUSL, WINDOWS, debian_compiler, program, rust_sources, windows_cargo};
use target::{TARGETS, runs_here};

pub(crate) const USAGE: &str =
    "cargo xtask dist [TARGET…] [--quick] [--sign KEY.pem] [--program TARGET=FILE]…";
const INSTALLER: &str = "deploy/install.sh";
const SUMS: &str = "SHA256SUMS";

/// What is asked for.
struct Request {
    targets: Vec<&'static str>,
    profile: Profile,
    key: Option<PathBuf>,
    /// Programs that were built elsewhere.
    built: Vec<(&'static str, PathBuf)>,
}

impl Request {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut request = Self {
            targets: Vec::new(),
            profile: Profile::Release,
            key: None,
            built: Vec::new(),
        };
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "--quick" => request.profile = Profile::Test,
                "--sign" => request.key = Some(words.next().context(USAGE)?.into()),
                "--program" => {
                    let pair = words.next().and_then(|word| word.split_once('='));
                    let (target, file) = pair.context(USAGE)?;
                    request.built.push((known(target)?, file.into()));
                }
                _ => request.targets.push(known(word)?),
            }
        }
        if request.targets.is_empty() && request.built.is_empty() {
            request.targets = TARGETS.into();
        }
        Ok(request)
    }
}

fn known(word: &str) -> Result<&'static str> {
    let mut known = TARGETS.into_iter();
    let known = known.find(|known| *known == word);
    known.with_context(|| format!("unknown target {word:?}; there are {}", TARGETS.join(", ")))
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let request = Request::parse(arguments)?;
    let out = build_folder().join(match request.profile {
        Profile::Release => "dist/out",
        Profile::Test => "dist/quick",
    });
    // What an earlier run left must not get into the checksums.
    if out.exists() {
        std::fs::remove_dir_all(&out).with_context(|| format!("cannot empty {}", out.display()))?;
    }
    std::fs::create_dir_all(&out)?;
    let mut programs = request.built;
    if !request.targets.is_empty() {
        let kernel = embedded_kernel()?;
        for target in request.targets {
            programs.push((target, program(target, request.profile, Some(&kernel))?));
        }
    }
    let here = programs.iter().find(|(target, _)| runs_here(target));
    let Some((_, here)) = here else {
        bail!("none of the targets runs here, and completions come from a program that does");
    };
    for (target, program) in &programs {
        let name = archive_name(target);
        let packed = archive::write((target, &name), program, here, &out)?;
        sbom::write(target, &out.join(format!("{name}.cdx.json")))?;
        if *target == WINDOWS {
            check::windows(&packed, &name, here)?;
        } else if runs_here(target) {
            check::archive(&packed, &name)?;
        }
    }
    std::fs::copy(root().join(INSTALLER), out.join("install.sh"))?;
    write_sums(&out)?;
    if let Some(key) = &request.key {
        sign(&out, key)?;
    }
    installer::check(&out, request.key.as_deref())?;
    for path in files(&out)? {
        let bytes = std::fs::metadata(&path)?.len();
        println!("{} ({:.2} MB)", path.display(), bytes as f64 / 1e6);
    }
    Ok(())
}

/// The bootable kernel, which every program carries.
fn embedded_kernel() -> Result<PathBuf> {
    build(Contents::Tale)?;
    Ok(build_folder().join("unikernel/kernel.elf"))
}

/// `strata-0.1.0-x86_64-unknown-linux-gnu`: the archive without its ending, and the folder in it.
fn archive_name(target: &str) -> String {
    format!("strata-{}-{target}", env!("CARGO_PKG_VERSION"))
}

/// The files of a folder, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

/// Writes the digests in the form that `sha256sum --check` reads.
fn write_sums(out: &Path) -> Result<()> {
    let mut sums = String::new();
    for path in files(out)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        sums += &format!("{}  {name}\n", archive::sha256(&path)?);
    }
    Ok(std::fs::write(out.join(SUMS), sums)?)
}

/// Signs the checksums with an Ed25519 key, as `strata pack --new-key` writes it.
fn sign(out: &Path, key: &Path) -> Result<()> {
    ensure!(key.is_file(), "{}: there is no such key", key.display());
    let mut openssl = Command::new("openssl");
    openssl
        .args(["pkeyutl", "-sign", "-rawin", "-inkey"])
        .arg(std::path::absolute(key)?)
        .arg("-in")
        .arg(out.join(SUMS))
        .arg("-out")
        .arg(out.join(format!("{SUMS}.sig")));
    execute(&mut openssl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_flags_are_read() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(String::from).collect() };
        let all = Request::parse(&[]).unwrap();
        assert_eq!(all.targets, TARGETS);
        assert_eq!(all.profile, Profile::Release);
        let one = Request::parse(&words("--quick aarch64-unknown-linux-gnu --sign k")).unwrap();
        assert_eq!(one.targets, ["aarch64-unknown-linux-gnu"]);
        assert_eq!(one.profile, Profile::Test);
        assert_eq!(one.key, Some("k".into()));
        let built = Request::parse(&words("--program x86_64-unknown-linux-gnu=a/b")).unwrap();
        assert_eq!(built.built, [("x86_64-unknown-linux-gnu", "a/b".into())]);
        assert!(built.targets.is_empty());
        for wrong in [
            "riscv64",
            "--sign",
            "--fast",
            "--program x",
            "--program y=z",
        ] {
            assert!(Request::parse(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_those_that_binstall_asks_for() {
        let manifest = std::fs::read_to_string(root().join("crates/cli/Cargo.toml")).unwrap();
        let expected = "strata-{ version }-{ target }.tar.gz";
        assert!(manifest.contains(expected), "{expected}");
        let version = env!("CARGO_PKG_VERSION");
        let name = archive_name("x86_64-unknown-linux-gnu");
        assert_eq!(name, format!("strata-{version}-x86_64-unknown-linux-gnu"));
    }
}
