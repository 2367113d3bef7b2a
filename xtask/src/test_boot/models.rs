//! Where models come from, and those that are none.

use super::guest::{Boot, done, expect, firmware, scratch};
use super::images;
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
    // Scales that are no numbers, and nothing tells what the file should sum to.
    let mut damaged = whole.clone();
    damaged[whole.len() / 2..].fill(0xff);
    let kernel = scratch("kernel.elf");
    let other = b"This is no model.".repeat(99);
    for (name, bytes, message) in [
        ("absent", None, "there is no model"),
        ("cut off", Some(&whole[..1 << 20]), " of a data section of "),
        ("changed", Some(&changed[..]), "the file claims"),
        ("something else", Some(&other[..]), "not a GGUF file"),
        (
            "damaged",
            Some(&damaged[..]),
            "the model fails its self-test",
        ),
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

/// A model in persistent memory, which is read where it lies.
pub(super) fn persistent_memory(options: &str, expected: &str) -> Result<()> {
    let path = scratch("nvdimm.img");
    let mut bytes = std::fs::read(root().join(TALE))?;
    bytes.resize(bytes.len().next_multiple_of(32 << 20), 0);
    std::fs::write(&path, &bytes)?;
    let memory = format!(
        "memory-backend-file,id=m,mem-path={},size={},share=off,readonly=on",
        path.display(),
        bytes.len()
    );
    let boot = Boot {
        name: "a model in persistent memory",
        machine: "q35,nvdimm=on",
        memory: "128M,slots=2,maxmem=1G",
        options,
        ..Boot::default()
    };
    let boot = boot.with(&["-object", &memory, "-device", "nvdimm,memdev=m,unarmed=on"]);
    let said = boot.run(Some(&scratch("kernel.elf")))?;
    expect(&said, "persistent memory: 65536 blocks of 512 bytes")?;
    expect(&said, "the model is disk 0, 33554432 bytes")?;
    expect(&said, expected)
}

/// Large models from disks, with their checksum, in hardly more memory than their weights take: raw, and as a file of
/// the volume that firmware boots from.
pub(super) fn large_disks() -> Result<()> {
    let path = billion()?;
    let sum = sha256(&path)?;
    let kernel = scratch("kernel.elf");
    let mebibytes = std::fs::metadata(&path)?.len() >> 20;
    let memory = format!("{}M", mebibytes * 5 / 4);
    let asked = "watchdog=0 ctx=64 prompt=\"Once upon a time\" n=1 temp=0";
    let options = format!("then=exit sha256={sum} {asked}");
    let expected = |said: &str| {
        expect(said, "SHA-256 is as it should be")?;
        expect(said, "first token after")?;
        ensure!(!said.contains("it goes slowly"), "it did not fit:\n{said}");
        // Some pages are read once more, for the few numbers that lie between the matrices.
        let line = said
            .lines()
            .find(|line| line.contains("of the disk were read"));
        let read = line.and_then(|line| line.split(' ').next());
        let read: u64 = read.unwrap_or_default().parse()?;
        eprintln!("    {read} of {mebibytes} MiB were read");
        ensure!(
            read < mebibytes * 5 / 4,
            "{read} MiB were read of {mebibytes}"
        );
        Ok(())
    };
    for (machine, device) in [
        ("microvm", "virtio-blk-device,drive=d"),
        ("q35", "nvme,drive=d,serial=1"),
    ] {
        let boot = Boot {
            name: &format!("a 1b model from {device} in {memory}"),
            machine,
            memory: &memory,
            options: &options,
            ..Boot::default()
        };
        let boot = boot.with(&["-drive", &drive(&path), "-device", device]);
        expected(&boot.run(Some(&kernel))?)?;
    }
    // A file on a partition of it.
    let image = scratch("1b.img");
    let settings = scratch("1b.toml");
    let text = "prompt = \"Once upon a time\"\nn = 1\ntemp = 0\nctx = 64\nwatchdog = 0\n";
    std::fs::write(&settings, text)?;
    images::write(&kernel, &path, &image, &settings)?;
    let boot = Boot {
        name: "a 1b model as a file on virtio-blk",
        machine: "q35",
        memory: &memory,
        options: &options,
        ..Boot::default()
    };
    let boot = boot.with(&[
        "-drive",
        &drive(&image),
        "-device",
        "virtio-blk-pci,drive=d",
    ]);
    expected(&boot.run(Some(&kernel))?)?;
    if let Some(code) = firmware()? {
        // Firmware keeps some of the memory.
        let memory = format!("{}M", mebibytes * 5 / 4 + 96);
        let boot = Boot {
            memory: &memory,
            ..images::uefi("UEFI with a 1b model on its NVMe disk", code)
        };
        let boot = boot.with(&["-drive", &drive(&image), "-device", "nvme,drive=d,serial=1"]);
        let (said, status) = boot.finish(None)?;
        ensure!(
            status == Some(0),
            "QEMU ended with {status:?} after:\n{said}"
        );
        expect(&said, "the model is strata.gguf on disk 0 partition 1")?;
        expect(&said, "first token after")?;
        ensure!(!said.contains("it goes slowly"), "it did not fit:\n{said}");
    }
    std::fs::remove_file(&image)?;
    Ok(())
}

fn drive(path: &Path) -> String {
    let path = path.display();
    format!("if=none,id=d,format=raw,readonly=on,file={path}")
}

/// By the program that every system has.
pub(super) fn sha256(path: &Path) -> Result<String> {
    let output = Command::new("sha256sum").arg(path).output()?;
    ensure!(output.status.success(), "sha256sum failed");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split(' ').next().unwrap_or_default().into())
}
