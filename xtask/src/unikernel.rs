//! `cargo xtask unikernel`: builds the bootable program.

use crate::aarch64;
use crate::command::{answers, cargo, debian_install, root, run, target};
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

/// How it is compiled.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As it is shipped.
    Release,
    /// Soon, for tests.
    Quick,
}

pub(crate) fn command(arguments: &[String]) -> Result<()> {
    const USAGE: &str = "cargo xtask unikernel [--machine] [--arch aarch64]";
    let (mut contents, mut arm) = (Contents::Tale, false);
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--machine" => contents = Contents::Machine,
            "--arch" => match words.next() {
                Some("aarch64") => arm = true,
                Some("x86_64") => arm = false,
                _ => bail!(USAGE),
            },
            _ => bail!(USAGE),
        }
    }
    if arm {
        let Some(path) = build_for_aarch64(contents, Profile::Release)? else {
            bail!("there are no tools for AArch64");
        };
        let bytes = std::fs::metadata(root().join(&path))?.len();
        println!("{} ({:.2} MB)", path.display(), bytes as f64 / 1e6);
        return Ok(());
    }
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
const MOST_BYTES: usize = 4_800_000;
const MOST_BYTES_AARCH64: usize = 5_000_000;

/// Where the linker is that takes the header's numbers: beside the usual compiler, or Debian's.
fn linker_flags() -> Result<Vec<String>> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir"])
        .output();
    let output = output.context("cannot start rustc")?;
    let libraries = String::from_utf8(output.stdout)?;
    let beside = Path::new(libraries.trim())
        .with_file_name("bin")
        .join("gcc-ld");
    let mut flags = vec!["-Clink-arg=-fuse-ld=lld".to_owned()];
    if beside.join("ld.lld").is_file() {
        flags.push(format!("-Clink-arg=-B{}", beside.display()));
    } else if !answers(Command::new("ld.lld").arg("--version")) {
        debian_install(&["lld"])?;
    }
    Ok(flags)
}

/// Builds the program for AArch64, with Debian's toolchain where the usual one does not know the target; nothing where
/// neither can be had. What is built begins with the headers of Linux' images and of EFI applications.
pub(crate) fn build_for_aarch64(contents: Contents, profile: Profile) -> Result<Option<PathBuf>> {
    let Some(rustc) = aarch64::compiler()? else {
        return Ok(None);
    };
    let profile = match profile {
        Profile::Release => "release",
        Profile::Quick => "quick",
    };
    let mut command = cargo("build --quiet --manifest-path crates/unikernel/boot/Cargo.toml");
    command.args([
        "--profile",
        profile,
        "--target",
        aarch64::TARGET,
        "--target-dir",
    ]);
    command.arg(folder());
    if contents == Contents::Machine {
        command.arg("--no-default-features");
    }
    let mut flags = flags();
    flags.extend(linker_flags()?);
    command
        .env("RUSTC", rustc)
        .env("CARGO_INCREMENTAL", "0")
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            aarch64::LINKER,
        )
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    // The linter's own compiler is not this one.
    command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    run(&mut command)?;
    let linked = folder()
        .join(aarch64::TARGET)
        .join(profile)
        .join("strata-boot");
    let file =
        std::fs::read(&linked).with_context(|| format!("cannot read {}", linked.display()))?;
    let kernel = Kernel::parse(&file)?;
    let model = std::fs::read(root().join(TALE)).context("cannot read the model tale")?;
    let settings = [("name".to_owned(), "tale".to_owned())];
    let (name, layout) = match contents {
        Contents::Machine => ("machine-aarch64.efi", image(Form::Efi, &kernel, &[], None)?),
        Contents::Tale => {
            let stripped = kernel.stripped();
            let is_large = profile == "release" && stripped.len() > MOST_BYTES_AARCH64;
            ensure!(
                !is_large,
                "the program for AArch64 has {} bytes, more than {MOST_BYTES_AARCH64}",
                stripped.len()
            );
            write(&folder().join("kernel-aarch64.elf"), &stripped)?;
            let layout = image(Form::Efi, &kernel, &settings, Some(&model))?;
            ("strata-aarch64.efi", layout)
        }
    };
    let path = folder().join(name);
    write(&path, &layout.to_vec())?;
    Ok(Some(path))
}

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
