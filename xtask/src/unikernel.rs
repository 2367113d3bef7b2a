//! `cargo xtask unikernel`: builds the bootable program.

use crate::command::{cargo, root, run, target};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use strata_image::{Form, Kernel, image};

/// Position-independent, because firmware puts it anywhere; no red zone and frame pointers in our own code; addresses
/// that are relocated must be writable. An explicit target keeps all this from build scripts.
const FLAGS: [&str; 5] = [
    "-Crelocation-model=pie",
    "-Cno-redzone=yes",
    "-Cforce-frame-pointers=yes",
    "-Crelro-level=off",
    "--cfg=strata_compact",
];
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";
const TALE: &str = "models/tale/tale-q4_k_m.gguf";

/// What is in the program.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// The machine alone, which is quick to build.
    Machine,
    /// The engine, with the model tale behind the program.
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

/// The cargo call that builds it.
pub(crate) fn cargo_build(contents: Contents) -> Command {
    let mut command =
        cargo("build --quiet --release --manifest-path crates/unikernel/boot/Cargo.toml");
    command.args(["--target", TARGET]);
    command.arg("--target-dir").arg(folder());
    if contents == Contents::Machine {
        command.arg("--no-default-features");
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", flags().join("\x1f"));
    command
}

fn folder() -> PathBuf {
    target().join("unikernel")
}

/// What may be in an image besides its model.
const MOST_BYTES: usize = 4_600_000;

pub(crate) fn build(contents: Contents) -> Result<Built> {
    run(&mut cargo_build(contents))?;
    let folder = folder();
    let linked = folder.join(TARGET).join("release/strata-boot");
    let file =
        std::fs::read(&linked).with_context(|| format!("cannot read {}", linked.display()))?;
    let kernel = Kernel::parse(&file)?;
    let model = std::fs::read(root().join(TALE)).context("cannot read the model tale")?;
    let (name, settings, model) = match contents {
        Contents::Machine => ("machine", Vec::new(), None),
        Contents::Tale => {
            let name = ("name".into(), "tale".into());
            ("strata", vec![name], Some(&model[..]))
        }
    };
    if contents == Contents::Tale {
        // `strata image` takes it from here.
        let stripped = kernel.stripped();
        ensure!(
            stripped.len() <= MOST_BYTES,
            "the program has {} bytes, more than {MOST_BYTES}",
            stripped.len()
        );
        write(&folder.join("kernel.elf"), &stripped)?;
    }
    let built = Built {
        elf: folder.join(name).with_extension("elf"),
        efi: folder.join(name).with_extension("efi"),
    };
    for (path, form) in [(&built.elf, Form::Elf), (&built.efi, Form::Efi)] {
        write(path, &image(form, &kernel, &settings, model)?.to_vec())?;
    }
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
