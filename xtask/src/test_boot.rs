//! `cargo xtask test-boot`: boots the unikernel in QEMU, emulated, and looks at what it says.

mod aarch64;
mod client;
mod data;
mod guest;
mod images;
mod load;
mod matrix;
mod measured;
mod models;
mod placement;
mod secure_boot;
mod server;
mod several;
mod shell;
mod trust;

use crate::command::{cargo, run as execute, strata_for_checks, target};
use crate::unikernel::{Built, Contents, build};
use anyhow::{Context, Result, bail, ensure};
use guest::{Boot, Guest, expect, install_qemu, scratch};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

pub(crate) const USAGE: &str = "cargo xtask test-boot [--quick | --machine | --models | --trust | --data | --aarch64 | --all [WORDS]] [--minutes N]";
const PROMPT: &str = "Once upon a time";
const TOKENS: &str = "12";

/// How much is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Extent {
    /// The same bytes by HTTP: what CI has time for.
    Quick,
    /// The machine without an engine.
    Machine,
    /// Several models on one machine.
    Models,
    /// What makes a machine one that can be trusted.
    Trust,
    /// Power cuts.
    Data,
    /// AArch64 alone.
    Aarch64,
    /// Every kind of machine whose name has these words.
    All(String),
    /// Everything, and so many minutes of mixed load.
    Whole { minutes: u64 },
}

impl Extent {
    fn parse(arguments: &[String]) -> Result<Self> {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Ok(match words[..] {
            ["--quick"] => Self::Quick,
            ["--machine"] => Self::Machine,
            ["--models"] => Self::Models,
            ["--trust"] => Self::Trust,
            ["--data"] => Self::Data,
            ["--aarch64"] => Self::Aarch64,
            ["--all"] => Self::All(String::new()),
            ["--all", only] => Self::All(only.into()),
            [] => Self::Whole { minutes: 0 },
            ["--minutes", minutes] => Self::Whole {
                minutes: minutes.parse().context(USAGE)?,
            },
            _ => bail!(USAGE),
        })
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let extent = Extent::parse(arguments)?;
    if extent != Extent::Aarch64 && !install_qemu()? {
        return Ok(());
    }
    if matches!(
        extent,
        Extent::Quick | Extent::Machine | Extent::Whole { .. }
    ) {
        lint(&extent)?;
    }
    match extent {
        // Under emulation a token takes a third of a second, and the recorded answers come on top.
        Extent::Quick => quick(&build(Contents::Tale)?, 1),
        Extent::Machine => {
            let machine = build(Contents::Machine)?;
            machine_alone(&machine)?;
            images::application(&machine, "then=exit", "by Uefi")
        }
        Extent::Models => several::change(&build(Contents::Tale)?, server::here()?.address),
        Extent::Aarch64 => aarch64::whole(),
        Extent::Trust => {
            build(Contents::Tale)?;
            trusted()
        }
        Extent::Data => data::cuts(&build(Contents::Tale)?),
        Extent::All(only) => matrix::run(&build(Contents::Tale)?, &answer_here()?, &only),
        Extent::Whole { minutes } => {
            machine_alone(&build(Contents::Machine)?)?;
            whole(&build(Contents::Tale)?, minutes)
        }
    }
}

/// It is a workspace of its own, which the checks of the others do not see.
fn lint(extent: &Extent) -> Result<()> {
    let manifest = "--manifest-path crates/unikernel/boot/Cargo.toml";
    execute(&mut cargo(&format!("fmt {manifest} --check")))?;
    let features = match extent {
        Extent::Machine => "--no-default-features",
        _ => "",
    };
    let clippy = format!("clippy {manifest} {features} --quiet --target-dir");
    let folder = target().join("unikernel");
    execute(cargo(&clippy).arg(folder).args(["--", "-D", "warnings"]))
}

/// The same bytes as from this system, by HTTP and by TLS; changed images are refused.
fn quick(tale: &Built, prompts: usize) -> Result<()> {
    let here = server::here()?;
    let guest = server::there(tale, "microvm", "virtio-net-device")?;
    guest.explain(same_service(here.address, &guest, prompts))?;
    let first = guest.program_counter()?;
    drop(guest);
    placement::apart(first, trust::sealed(here.address)?)
}

/// Signed, sealed, measured, and what becomes of it with a changed bit.
fn trusted() -> Result<()> {
    let kernel = scratch("kernel.elf");
    measured::attested(&kernel)?;
    secure_boot::enrolled(&kernel)?;
    let here = server::here()?;
    trust::sealed(here.address).map(drop)
}

fn same_service(here: SocketAddr, guest: &Guest, prompts: usize) -> Result<()> {
    let there = guest.address();
    server::doors(there)?;
    server::same_answers(here, there, prompts)?;
    // The few prompts of CI go with a quarter of the recordings.
    let one_of = if prompts == usize::MAX { 1 } else { 4 };
    server::recorded_answers(there, one_of)?;
    server::crowd(there)?;
    server::official_client(here, there)?;
    server::well(guest)
}

/// Boots an image that continues a text by itself, and waits for the answer. QEMU loads an ELF itself, and firmware
/// boots a disk.
pub(crate) fn answers_at_boot(image: &Path, expected: &str) -> Result<()> {
    if !install_qemu()? {
        return Ok(());
    }
    let begin = Instant::now();
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    let boot = Boot {
        name: &name,
        machine: "microvm",
        memory: "256M",
        ..Boot::default()
    };
    let mut guest = if image.extension().is_some_and(|ending| ending == "elf") {
        boot.start(Some(image), None)?
    } else {
        let Some(code) = guest::firmware()? else {
            return Ok(());
        };
        let drive = format!(
            "if=none,id=d,format=raw,readonly=on,file={}",
            image.display()
        );
        let boot = images::uefi(&name, code).with(&["-drive", &drive]);
        let boot = boot.with(&["-device", "nvme,drive=d,serial=1"]);
        boot.start(None, None)?
    };
    guest.hear(0, expected)?;
    guest::done(&format!("{name} answers"), begin);
    Ok(())
}

fn machine_alone(machine: &Built) -> Result<()> {
    let machine = &machine.elf;
    placement::drawn(machine)?;
    faults(machine, |fault| match fault {
        "stuck" => "microvm",
        _ => "q35",
    })?;
    disks(
        machine,
        &[
            ("q35", "virtio-blk-pci,drive=d"),
            ("microvm", "virtio-blk-device,drive=d"),
            ("q35", "nvme,drive=d,serial=1"),
            ("q35", "ide-hd,drive=d,bus=ide.0"),
            (
                "q35",
                "ide-hd,drive=d,bus=ide.3,logical_block_size=512,physical_block_size=4096",
            ),
        ],
    )?;
    cards(
        machine,
        &[
            ("q35", "virtio-net-pci"),
            ("q35", "e1000"),
            ("q35", "e1000e"),
            ("microvm", "virtio-net-device"),
        ],
    )?;
    power(machine, &["microvm", "q35"])
}

fn whole(tale: &Built, minutes: u64) -> Result<()> {
    let expected = answer_here()?;
    let options = &images::prompt_options();
    for machine in ["microvm", "q35"] {
        let boot = Boot {
            name: &format!("the same bytes, {machine}"),
            machine,
            options,
            ..Boot::default()
        };
        let said = boot.run(Some(&tale.elf))?;
        expect(&said, "processors 2,")?;
        expect(&said, &expected)?;
    }
    models::module(tale, options, &expected)?;
    models::broken()?;
    let kernel = scratch("kernel.elf");
    secure_boot::enrolled(&kernel)?;
    measured::attested(&kernel)?;
    quick(tale, usize::MAX)?;
    data::cuts(tale)?;
    shell::session(tale)?;
    images::application(tale, options, &expected)?;
    let here = server::here()?;
    several::change(tale, here.address)?;
    let mut guest = server::there(tale, "q35", "e1000e")?;
    let served = server::doors(guest.address()).and_then(|()| server::crowd(guest.address()));
    guest.explain(served)?;
    if minutes > 0 {
        load::run(here.address, &mut guest, minutes)?;
    }
    drop(guest);
    images::media(here.address)?;
    models::persistent_memory(options, &expected)?;
    models::large_disks()
}

/// Each fault is noticed, and its reason known to the run that follows.
fn faults(kernel: &Path, machine: impl Fn(&str) -> &'static str) -> Result<()> {
    for (fault, sign) in [
        ("panic", "on purpose"),
        ("null", "page fault"),
        ("text", "page fault"),
        ("constants", "page fault"),
        ("execute", "page fault"),
        ("stack", "page fault"),
        ("worker", "on purpose, by another processor"),
        ("memory", "memory allocation"),
        ("stuck", "the watchdog saw no progress"),
    ] {
        let said = Boot {
            name: &format!("fault {fault}"),
            machine: machine(fault),
            options: &format!("then=exit fault={fault}"),
            ..Boot::default()
        }
        .run(Some(kernel))?;
        for sign in [
            "crash:",
            "called from",
            sign,
            "the run before this one ended:",
        ] {
            expect(&said, sign)?;
        }
        ensure!(
            !said.contains("nothing noticed it"),
            "{fault} was not noticed"
        );
        if kernel.ends_with("machine.elf") && fault == "panic" {
            placement::resolved(&said, "boot/src/faults.rs")?;
        }
    }
    Ok(())
}

/// Disks give the bytes that are in the file.
fn disks(kernel: &Path, list: &[(&str, &str)]) -> Result<()> {
    let path = scratch("disk.img");
    let bytes: Vec<u8> = (0..3u32 << 20)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    std::fs::write(&path, &bytes)?;
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    for &(machine, device) in list {
        let file = format!(
            "if=none,id=d,format=raw,snapshot=on,file={}",
            path.display()
        );
        let said = Boot {
            name: device,
            machine,
            options: "then=exit check=disks",
            devices: ["-drive", &file, "-device", device]
                .map(String::from)
                .to_vec(),
            ..Boot::default()
        }
        .run(Some(kernel))?;
        expect(&said, &format!("checksum {sum:016x}"))?;
    }
    Ok(())
}

/// Cards send a question and hear the answer.
fn cards(kernel: &Path, list: &[(&str, &str)]) -> Result<()> {
    for &(machine, device) in list {
        let device_option = format!("{device},netdev=n");
        let said = Boot {
            name: device,
            machine,
            options: "then=exit check=cards",
            devices: [
                "-netdev",
                "user,id=n,restrict=on",
                "-device",
                &device_option,
            ]
            .map(String::from)
            .to_vec(),
            ..Boot::default()
        }
        .run(Some(kernel))?;
        expect(&said, "heard from [52, 55, 0a, 00, 02, 02]")?;
    }
    Ok(())
}

/// Turning off ends QEMU, and so does a restart where QEMU is told not to.
fn power(kernel: &Path, machines: &[&str]) -> Result<()> {
    for &machine in machines {
        for options in ["", "then=reboot"] {
            let (said, code) = Boot {
                name: &format!("{machine} {options}"),
                machine,
                options,
                devices: vec!["-no-reboot".into()],
                ..Boot::default()
            }
            .finish(Some(kernel))?;
            ensure!(code == Some(0), "QEMU ended with {code:?} after:\n{said}");
        }
    }
    Ok(())
}

/// What the program says to the same prompt on this machine.
fn answer_here() -> Result<String> {
    let output = Command::new(strata_for_checks()?)
        .args(["run", "tale", "--raw", "--temp", "0", "-n", TOKENS, PROMPT])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start the program")?;
    ensure!(
        output.status.success(),
        "the program failed ({})",
        output.status
    );
    let text = String::from_utf8(output.stdout)?;
    let text = text.trim_end_matches('\n');
    ensure!(text.len() > 20, "the program said only {text:?}");
    // The serial line ends lines with a return too.
    Ok(text.replace('\n', "\r\n"))
}
