//! `cargo xtask unikernel`: builds the bootable program.

use crate::command::{cargo, root, run, target};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// Position-independent, because firmware puts it anywhere; no red zone and frame pointers in our own code; addresses
/// that are relocated must be writable. An explicit target keeps all this from build scripts.
const FLAGS: [&str; 4] = [
    "-Crelocation-model=pie",
    "-Cno-redzone=yes",
    "-Cforce-frame-pointers=yes",
    "-Crelro-level=off",
];
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Where `link.ld` puts the image.
const IMAGE_BASE: u64 = 0x20_0000;

/// What is in the program.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// The machine alone, which is quick to build.
    Machine,
    /// The engine and the built-in model.
    Tale,
}

/// The two forms of the program.
pub(crate) struct Built {
    /// For PVH.
    pub(crate) elf: PathBuf,
    /// For UEFI.
    pub(crate) efi: PathBuf,
}

pub(crate) fn command(arguments: &[String]) -> Result<()> {
    let contents = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Contents::Tale,
        ["--machine"] => Contents::Machine,
        _ => bail!("cargo xtask unikernel [--machine]"),
    };
    let built = build(contents)?;
    for path in [&built.elf, &built.efi] {
        let bytes = std::fs::metadata(path)?.len();
        println!("{} ({:.2} MB)", path.display(), bytes as f64 / 1e6);
    }
    Ok(())
}

pub(crate) fn build(contents: Contents) -> Result<Built> {
    let folder = target().join("unikernel");
    let mut command =
        cargo("build --quiet --release --manifest-path crates/unikernel/boot/Cargo.toml");
    command.args(["--target", TARGET]);
    command.arg("--target-dir").arg(&folder);
    if contents == Contents::Machine {
        command.arg("--no-default-features");
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", flags().join("\x1f"));
    run(&mut command)?;
    let linked = folder.join(TARGET).join("release/strata-boot");
    let name = match contents {
        Contents::Machine => "machine",
        Contents::Tale => "strata",
    };
    let built = Built {
        elf: folder.join(name).with_extension("elf"),
        efi: folder.join(name).with_extension("efi"),
    };
    let elf =
        std::fs::read(&linked).with_context(|| format!("cannot read {}", linked.display()))?;
    write(&built.elf, &stripped(&elf)?)?;
    write(&built.efi, &flat(&elf)?)?;
    Ok(built)
}

/// The flags, with those that keep this machine's paths out of panic messages.
fn flags() -> Vec<String> {
    let mut flags: Vec<String> = FLAGS.map(String::from).into();
    let home =
        std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| home + "/.cargo"));
    if let Ok(home) = home {
        flags.push(format!("--remap-path-prefix={home}=cargo"));
    }
    flags.push(format!("--remap-path-prefix={}/=", root().display()));
    flags
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(root().join(path), bytes)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A part of an ELF file that is loaded.
struct Segment {
    offset: usize,
    address: u64,
    bytes: usize,
}

fn segments(elf: &[u8]) -> Result<Vec<Segment>> {
    let number = |at: usize, bytes: usize| -> Result<u64> {
        let field = elf.get(at..at + bytes).context("the ELF file is cut off")?;
        Ok(field
            .iter()
            .rev()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    };
    ensure!(
        elf.starts_with(b"\x7fELF\x02\x01"),
        "this is no 64-bit ELF file"
    );
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut found = Vec::new();
    for index in 0..count {
        let at = usize::try_from(table + index * size)?;
        if number(at, 4)? == 1 {
            found.push(Segment {
                offset: number(at + 8, 8)?.try_into()?,
                address: number(at + 16, 8)?,
                bytes: number(at + 32, 8)?.try_into()?,
            });
        }
    }
    Ok(found)
}

/// The ELF file without sections, symbols and debug information.
fn stripped(elf: &[u8]) -> Result<Vec<u8>> {
    let end = segments(elf)?.iter().map(|s| s.offset + s.bytes).max();
    let end = end.context("the ELF file loads nothing")?;
    let mut out = elf.get(..end).context("the ELF file is cut off")?.to_vec();
    out[40..48].fill(0);
    out[58..64].fill(0);
    Ok(out)
}

/// The bytes as they are loaded, which begin with a PE header.
fn flat(elf: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for segment in segments(elf)? {
        let start = segment.address.checked_sub(IMAGE_BASE);
        let start = usize::try_from(start.context("a segment lies below the image")?)?;
        let bytes = elf.get(segment.offset..segment.offset + segment.bytes);
        let bytes = bytes.context("the ELF file is cut off")?;
        out.resize(out.len().max(start + bytes.len()), 0);
        out[start..start + bytes.len()].copy_from_slice(bytes);
    }
    ensure!(
        out.starts_with(b"MZ"),
        "the image does not begin with a PE header"
    );
    Ok(out)
}
