//! Where models come from, and those that are none.

use super::guest::{Boot, done, expect, scratch};
use crate::command::{root, run as execute, strata_for_checks};
use crate::unikernel::Built;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const TALE: &str = "models/tale/tale-q4_k_m.gguf";

/// A model that the hypervisor loads beside the kernel is used instead of the attached one.
pub(super) fn module(built: &Built, options: &str, expected: &str) -> Result<()> {
    let model = root().join(TALE).display().to_string();
    let boot = Boot {
        name: "a model as initrd",
        options,
        memory: "160M",
        ..Boot::default()
    };
    let said = boot.with(&["-initrd", &model]).run(Some(&built.elf))?;
    expect(&said, "the model is the module of 18855040 bytes")?;
    expect(&said, expected)
}

/// What is no model leaves a message and a shell that works.
pub(super) fn broken() -> Result<()> {
    let begin = Instant::now();
    let whole = std::fs::read(root().join(TALE))?;
    let mut changed = whole.clone();
    changed[8..16].fill(0xff);
    let kernel = scratch("kernel.elf");
    let other = b"This is no model.".repeat(99);
    for (name, bytes, message) in [
        ("absent", None, "there is no model"),
        ("cut off", Some(&whole[..1 << 20]), " of a data section of "),
        ("changed", Some(&changed[..]), "the file claims"),
        ("something else", Some(&other[..]), "not a GGUF file"),
    ] {
        let path = scratch("broken.gguf");
        let mut boot = Boot {
            machine: "microvm",
            ..Boot::default()
        };
        if let Some(bytes) = bytes {
            std::fs::write(&path, bytes)?;
            boot = boot.with(&["-initrd", &path.display().to_string()]);
        }
        let mut guest = boot.start(Some(&kernel), Some("virtio-net-device"))?;
        guest.hear(0, "> ")?;
        let help = guest.ask("help", "shutdown")?;
        expect(&help, "reboot")?;
        let said = guest.said();
        ensure!(
            said.contains(message) && !said.contains("crash:"),
            "a model that is {name} leaves:\n{said}"
        );
    }
    done("broken models leave a shell", begin);
    Ok(())
}

/// A model of a billion weights, made once.
fn billion() -> Result<PathBuf> {
    let path = scratch("1b.gguf");
    if !path.exists() {
        execute(
            Command::new(strata_for_checks()?)
                .arg("synth")
                .arg(&path)
                .args(["--shape", "1b", "--mix", "q4_k_m"]),
        )?;
    }
    Ok(path)
}

/// Large models from disks, with their checksum.
pub(super) fn large_disks() -> Result<()> {
    let path = billion()?;
    let sum = sha256(&path)?;
    let kernel = scratch("kernel.elf");
    for (machine, device) in [
        ("microvm", "virtio-blk-device,drive=d"),
        ("q35", "nvme,drive=d,serial=1"),
    ] {
        let options =
            format!("then=exit watchdog=0 sha256={sum} prompt=\"Once upon a time\" n=1 temp=0");
        let drive = format!(
            "if=none,id=d,format=raw,readonly=on,file={}",
            path.display()
        );
        let boot = Boot {
            name: &format!("a 1b model from {device}"),
            machine,
            memory: "3G",
            options: &options,
            ..Boot::default()
        };
        let boot = boot.with(&["-drive", &drive, "-device", device]);
        let said = boot.run(Some(&kernel))?;
        expect(&said, "SHA-256 is as it should be")?;
        expect(&said, "first token after")?;
    }
    Ok(())
}

/// By the program that every system has.
fn sha256(path: &Path) -> Result<String> {
    let output = Command::new("sha256sum").arg(path).output()?;
    ensure!(output.status.success(), "sha256sum failed");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split(' ').next().unwrap_or_default().into())
}
