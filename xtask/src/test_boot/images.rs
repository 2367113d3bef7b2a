//! Images as `strata image` writes them, booted by firmware.

use super::client::KEY;
use super::guest::{Boot, done, expect, firmware, scratch};
use super::server;
use super::{PROMPT, TOKENS};
use crate::command::{root, run as execute, strata_for_checks};
use crate::unikernel::Built;
use anyhow::{Result, bail};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The application from firmware's shell, with options, through a volume with a script.
pub(super) fn application(built: &Built, options: &str, expected: &str) -> Result<()> {
    let Some(code) = firmware()? else {
        return Ok(());
    };
    let volume = scratch("volume");
    std::fs::create_dir_all(&volume)?;
    std::fs::copy(&built.efi, volume.join("strata.efi"))?;
    let script = format!("fs0:\\strata.efi {options}\r\n");
    std::fs::write(volume.join("startup.nsh"), script)?;
    let files = format!("format=raw,file=fat:rw:{}", volume.display());
    let said = uefi("UEFI's shell", code)
        .with(&["-vga", "std", "-drive", &files])
        .run(None)?;
    expect(&said, "by Uefi")?;
    expect(&said, expected)
}

pub(super) fn uefi<'a>(name: &'a str, code: &str) -> Boot<'a> {
    let firmware = format!("if=pflash,format=raw,readonly=on,file={code}");
    let boot = Boot {
        name,
        memory: "256M",
        ..Boot::default()
    };
    boot.with(&["-drive", &firmware])
}

/// Writes an image with the program, as a user does.
pub(super) fn write(kernel: &Path, model: &Path, path: &Path, settings: &Path) -> Result<()> {
    execute(
        Command::new(strata_for_checks()?)
            .arg("image")
            .arg(model)
            .arg("--output")
            .arg(path)
            .arg("--kernel")
            .arg(kernel)
            .arg("--config")
            .arg(settings)
            .args(["--api-key", KEY]),
    )
}

/// A stick, a disk and a disc: each boots by itself, with the settings and the model that it holds.
pub(super) fn media(here: SocketAddr) -> Result<()> {
    let Some(code) = firmware()? else {
        return Ok(());
    };
    let settings = scratch("image.toml");
    std::fs::write(&settings, "name = \"tale\"\n")?;
    let kernel = scratch("kernel.elf");
    let model = root().join("models/tale/tale-q4_k_m.gguf");
    for (name, file, devices) in [
        ("a USB stick", "tale.img", "qemu-xhci usb-storage,drive=d"),
        ("an NVMe disk", "tale.img", "nvme,drive=d,serial=1"),
        ("a SATA disk", "tale.img", "ide-hd,drive=d,bus=ide.0"),
        (
            "a disc",
            "tale.iso",
            "ich9-ahci,id=a ide-cd,drive=d,bus=a.0",
        ),
        (
            "a disc on a USB stick",
            "tale.iso",
            "qemu-xhci usb-storage,drive=d",
        ),
    ] {
        let begin = Instant::now();
        let path = scratch(file);
        write(&kernel, &model, &path, &settings)?;
        let drive = format!(
            "if=none,id=d,format=raw,snapshot=on,file={}",
            path.display()
        );
        let mut boot = uefi(name, code).with(&["-drive", &drive]);
        boot = boot.with(&["-device", "virtio-rng-pci"]);
        for device in devices.split(' ') {
            boot = boot.with(&["-device", device]);
        }
        let mut guest = boot.start(None, Some("virtio-net-pci"))?;
        if let Err(error) = server::ready(&mut guest.running) {
            bail!("{name}: {error:#}; the machine said:\n{}", guest.said());
        }
        server::well(&guest)?;
        expect(
            &guest.said(),
            "random numbers from the processor, firmware, virtio",
        )?;
        let request = &server::requests("Tell me a story about a fox.")[0].replace("64", TOKENS);
        server::same_answer(here, guest.address(), request)?;
        done(&format!("UEFI from {name}"), begin);
    }
    Ok(())
}

/// What the machine is asked at boot.
pub(super) fn prompt_options() -> String {
    format!("then=exit prompt=\"{PROMPT}\" n={TOKENS} temp=0")
}
