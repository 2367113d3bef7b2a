//! `cargo xtask test-boot`: boots the unikernel in QEMU, emulated, and looks at what it says.

use crate::boot_server;
use crate::command::{cargo, root, run as execute, target};
use crate::unikernel::{Built, Contents, build};
use anyhow::{Context, Result, bail, ensure};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const QEMU: &str = "qemu-system-x86_64";
/// QEMU's exit status for `then=exit`: twice 0x10, plus one.
const EXITED: i32 = 0x21;
/// Emulation on a machine that is busy with other tests is slow.
const PATIENCE: Duration = Duration::from_secs(180);
const FIRMWARE: [&str; 3] = [
    "/usr/share/OVMF/OVMF_CODE_4M.fd",
    "/usr/share/OVMF/OVMF_CODE.fd",
    "/usr/share/edk2/x64/OVMF_CODE.4m.fd",
];

const PROMPT: &str = "Once upon a time";
const TOKENS: &str = "12";

/// A machine and how it is started.
struct Boot<'a> {
    name: &'a str,
    machine: &'a str,
    memory: &'a str,
    options: &'a str,
    devices: Vec<String>,
}

impl Default for Boot<'_> {
    fn default() -> Self {
        Self {
            name: "",
            machine: "q35",
            memory: "128M",
            options: "",
            devices: Vec::new(),
        }
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let contents = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Contents::Tale,
        ["--machine"] => Contents::Machine,
        _ => bail!("cargo xtask test-boot [--machine]"),
    };
    if Command::new(QEMU).arg("--version").output().is_err() {
        ensure!(std::env::var_os("CI").is_none(), "{QEMU} is not installed");
        eprintln!("\nskipped: booting the unikernel, because {QEMU} is not installed");
        return Ok(());
    }
    // It is a workspace of its own, which the checks of the others do not see.
    let manifest = "--manifest-path crates/unikernel/boot/Cargo.toml";
    execute(&mut cargo(&format!("fmt {manifest} --check")))?;
    let features = match contents {
        Contents::Machine => "--no-default-features",
        Contents::Tale => "",
    };
    let clippy = format!("clippy {manifest} {features} --quiet --target-dir");
    let folder = target().join("unikernel");
    execute(cargo(&clippy).arg(folder).args(["--", "-D", "warnings"]))?;
    let machine = build(Contents::Machine)?;
    faults(&machine)?;
    disks(&machine)?;
    cards(&machine)?;
    power(&machine)?;
    if contents == Contents::Machine {
        return firmware(&machine, "then=exit", "by Uefi");
    }
    let tale = build(Contents::Tale)?;
    let expected = answer_here()?;
    let options = &format!("then=exit prompt=\"{PROMPT}\" n={TOKENS} temp=0");
    for machine in ["microvm", "q35"] {
        let said = boot(
            &tale,
            &Boot {
                name: &format!("the same bytes, {machine}"),
                machine,
                options,
                ..Boot::default()
            },
        )?;
        expect(&said, "processors 2,")?;
        expect(&said, &expected)?;
    }
    module(&tale, options, &expected)?;
    boot_server::run(&tale)?;
    firmware(&tale, options, &expected)
}

/// A model that the hypervisor loads beside the kernel is used instead of the built-in one.
fn module(built: &Built, options: &str, expected: &str) -> Result<()> {
    let model = root().join("models/tale/tale-q4_k_m.gguf");
    let said = boot(
        built,
        &Boot {
            name: "a model as initrd",
            options,
            memory: "160M",
            devices: vec!["-initrd".into(), model.display().to_string()],
            ..Boot::default()
        },
    )?;
    expect(&said, "the model is the module of 18855040 bytes")?;
    expect(&said, expected)
}

/// Each fault is noticed, and its reason known to the run that follows.
fn faults(built: &Built) -> Result<()> {
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
        let machine = if fault == "stuck" { "microvm" } else { "q35" };
        let said = boot(
            built,
            &Boot {
                name: &format!("fault {fault}"),
                machine,
                options: &format!("then=exit fault={fault}"),
                ..Boot::default()
            },
        )?;
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
    }
    Ok(())
}

/// Disks give the bytes that are in the file.
fn disks(built: &Built) -> Result<()> {
    let path = target().join("unikernel/disk.img");
    let bytes: Vec<u8> = (0..3u32 << 20)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    std::fs::write(&path, &bytes)?;
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    for (machine, device) in [
        ("q35", "virtio-blk-pci,drive=d"),
        ("microvm", "virtio-blk-device,drive=d"),
        ("q35", "nvme,drive=d,serial=1"),
    ] {
        let file = format!(
            "if=none,id=d,format=raw,readonly=on,file={}",
            path.display()
        );
        let said = boot(
            built,
            &Boot {
                name: device,
                machine,
                options: "then=exit check=disks",
                devices: ["-drive", &file, "-device", device]
                    .map(String::from)
                    .to_vec(),
                ..Boot::default()
            },
        )?;
        expect(&said, &format!("checksum {sum:016x}"))?;
    }
    Ok(())
}

/// Cards send a question and hear the answer.
fn cards(built: &Built) -> Result<()> {
    for (machine, device) in [
        ("q35", "virtio-net-pci"),
        ("q35", "e1000"),
        ("q35", "e1000e"),
        ("microvm", "virtio-net-device"),
    ] {
        let device_option = format!("{device},netdev=n");
        let said = boot(
            built,
            &Boot {
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
            },
        )?;
        expect(&said, "heard from [52, 55, 0a, 00, 02, 02]")?;
    }
    Ok(())
}

/// Turning off ends QEMU, and so does a restart where QEMU is told not to.
fn power(built: &Built) -> Result<()> {
    for machine in ["microvm", "q35"] {
        for options in ["", "then=reboot"] {
            let (said, code) = start(
                &built.elf,
                &Boot {
                    name: &format!("{machine} {options}"),
                    machine,
                    options,
                    devices: vec!["-no-reboot".into()],
                    ..Boot::default()
                },
            )?;
            ensure!(code == Some(0), "QEMU ended with {code:?} after:\n{said}");
        }
    }
    Ok(())
}

/// From firmware, through a volume with a script for its shell.
fn firmware(built: &Built, options: &str, expected: &str) -> Result<()> {
    let Some(code) = FIRMWARE.iter().find(|path| Path::new(path).exists()) else {
        ensure!(std::env::var_os("CI").is_none(), "OVMF is not installed");
        eprintln!("skipped: booting from UEFI firmware, because OVMF is not installed");
        return Ok(());
    };
    let volume = target().join("unikernel/volume");
    std::fs::create_dir_all(&volume)?;
    std::fs::copy(&built.efi, volume.join("strata.efi"))?;
    let script = format!("fs0:\\strata.efi {options}\r\n");
    std::fs::write(volume.join("startup.nsh"), script)?;
    let firmware = format!("if=pflash,format=raw,readonly=on,file={code}");
    let files = format!("format=raw,file=fat:rw:{}", volume.display());
    let boot = Boot {
        name: "UEFI",
        memory: "256M",
        devices: ["-vga", "std", "-drive", &firmware, "-drive", &files]
            .map(String::from)
            .to_vec(),
        ..Boot::default()
    };
    let (said, _) = start(Path::new(""), &boot)?;
    expect(&said, "by Uefi")?;
    expect(&said, expected)
}

/// What the program says to the same prompt on this machine.
fn answer_here() -> Result<String> {
    let output = cargo("run --quiet --profile test --package strata -- run tale --raw --temp 0 -n")
        .args([TOKENS, PROMPT])
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

fn expect(said: &str, sign: &str) -> Result<()> {
    ensure!(
        said.contains(sign),
        "{sign:?} is not in what the machine said:\n{said}"
    );
    Ok(())
}

fn boot(built: &Built, boot: &Boot<'_>) -> Result<String> {
    let (said, code) = start(&built.elf, boot)?;
    ensure!(
        code == Some(EXITED),
        "QEMU ended with {code:?} after:\n{said}"
    );
    Ok(said)
}

/// Boots a kernel, or what the devices hold if its path is empty; gives what it said and QEMU's exit status.
fn start(kernel: &Path, boot: &Boot<'_>) -> Result<(String, Option<i32>)> {
    let begin = Instant::now();
    let mut command = Command::new(QEMU);
    command.args(["-M", boot.machine, "-m", boot.memory]);
    command.args("-accel tcg -cpu max -smp 2 -nodefaults -display none -serial stdio".split(' '));
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    if kernel != PathBuf::new() {
        command
            .arg("-kernel")
            .arg(kernel)
            .args(["-append", boot.options]);
    }
    command.args(&boot.devices);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {QEMU}"))?;
    let mut output = child.stdout.take().context("QEMU has no output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = output.read_to_end(&mut said);
        let _ = sender.send(said);
    });
    let said = receiver.recv_timeout(PATIENCE);
    if said.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    let Ok(said) = said.or_else(|_| receiver.recv()) else {
        bail!("what QEMU said was lost");
    };
    let said = String::from_utf8_lossy(&said).into_owned();
    eprintln!(
        "  boot: {} ({:.1} s)",
        boot.name,
        begin.elapsed().as_secs_f64()
    );
    ensure!(
        begin.elapsed() < PATIENCE,
        "{} took too long and said:\n{said}",
        boot.name
    );
    Ok((said, status.code()))
}
