//! The unikernel on AArch64: QEMU's `virt` with both kinds of interrupt controllers, devices in memory and on PCI.

use super::answer_here;
use super::client::KEY;
use super::guest::{Boot, done, expect, install_qemu_for_aarch64};
use super::server;
use crate::command::root;
use crate::unikernel::{Contents, Profile, build_for_aarch64};
use anyhow::{Context, Result, bail, ensure};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

const CONTROLLERS: [&str; 2] = ["virt,gic-version=2", "virt,gic-version=3"];
/// Without and with dot products.
const MODELS: [&str; 3] = ["cortex-a57", "cortex-a72", "max"];

fn boot<'a>(name: &'a str, machine: &'a str) -> Boot<'a> {
    Boot {
        name,
        machine,
        memory: "256M",
        model: "cortex-a57",
        ..Boot::default()
    }
}

/// The program with the model tale; nothing where there are no tools.
fn tale() -> Result<Option<PathBuf>> {
    if !install_qemu_for_aarch64()? {
        return Ok(None);
    }
    let built = build_for_aarch64(Contents::Tale, Profile::Quick)?;
    Ok(built.map(|path| root().join(path)))
}

/// Faults, devices and power of the machine alone; then the same text from all kinds of machines, and the same bytes by HTTP.
pub(super) fn whole() -> Result<()> {
    let Some(tale) = tale()? else {
        return Ok(());
    };
    machine_alone()?;
    let expected = answer_here()?;
    texts(&tale, &expected)?;
    let here = server::here()?;
    for (controller, card) in [
        (0, "virtio-net-pci"),
        (1, "virtio-net-device"),
        (1, "e1000e"),
    ] {
        serves(here.address, &tale, CONTROLLERS[controller], card)?;
    }
    Ok(())
}

/// The server's bytes are those of the server here, and `shutdown` ends QEMU.
fn serves(here: SocketAddr, tale: &Path, machine: &str, card: &str) -> Result<()> {
    let begin = Instant::now();
    let options = format!("key={KEY}");
    let boot = Boot {
        options: &options,
        ..boot("", machine)
    };
    let mut guest = boot.start(Some(tale), Some(card))?;
    let started = server::ready(&mut guest.running);
    guest.explain(started)?;
    done(&format!("{machine} with {card} is ready"), begin);
    let there = guest.address();
    let compared = server::doors(there)
        .and_then(|()| server::same_answers(here, there, 1))
        .and_then(|()| server::crowd(there))
        .and_then(|()| server::well(&guest));
    guest.explain(compared)?;
    expect(&guest.said(), "random numbers from")?;
    guest.write("shutdown")?;
    let status = guest.running.child.wait()?;
    ensure!(
        status.success(),
        "QEMU ended with {status}:\n{}",
        guest.said()
    );
    Ok(())
}

/// The same text from every kind of processor, and from machines of all sizes.
fn texts(tale: &Path, expected: &str) -> Result<()> {
    let options = super::images::prompt_options();
    let mut failed = Vec::new();
    for (machine, processors, memory, model) in kinds() {
        let name = format!("{machine}, {processors} × {model}, {memory}");
        let boot = Boot {
            name: &name,
            machine,
            memory,
            processors,
            model,
            options: &options,
            ..Boot::default()
        };
        let answered = boot.run(Some(tale)).and_then(|said| {
            expect(&said, &format!("processors {processors},"))?;
            expect(&said, expected)
        });
        if let Err(error) = answered {
            eprintln!("  boot: {name}: {error:#}");
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("these do not give the same text: {}", failed.join("; "));
    }
    Ok(())
}

fn kinds() -> Vec<(&'static str, usize, &'static str, &'static str)> {
    let mut kinds = Vec::new();
    for machine in CONTROLLERS {
        for model in MODELS {
            kinds.extend([(machine, 1, "256M", model), (machine, 4, "1G", model)]);
        }
    }
    // A loader that starts it at the level of hypervisors, and firmware that is called by `smc` then.
    kinds.push((
        "virt,gic-version=2,virtualization=on",
        2,
        "256M",
        "cortex-a57",
    ));
    kinds.push(("virt,gic-version=3,virtualization=on", 2, "4G", "max"));
    kinds
}

/// Faults, disks, cards, power.
fn machine_alone() -> Result<()> {
    let built = build_for_aarch64(Contents::Machine, Profile::Quick)?;
    let machine = root().join(built.context("there were tools a moment ago")?);
    super::faults(&machine, |fault| {
        CONTROLLERS[usize::from(fault.len() % 2 == 0)]
    })?;
    super::disks(
        &machine,
        &[
            (CONTROLLERS[0], "virtio-blk-device,drive=d"),
            (CONTROLLERS[1], "virtio-blk-pci,drive=d"),
            (CONTROLLERS[1], "nvme,drive=d,serial=1"),
        ],
    )?;
    super::cards(
        &machine,
        &[
            (CONTROLLERS[0], "virtio-net-device"),
            (CONTROLLERS[1], "virtio-net-pci"),
            (CONTROLLERS[1], "e1000e"),
        ],
    )?;
    super::power(&machine, &CONTROLLERS)
}
