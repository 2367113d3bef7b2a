//! What the shell tells of the machine.

use crate::attest;
use crate::boot::{BootInfo, CommandLine, listed};
use crate::drivers::Disk;
use crate::drivers::pci::Function;
use crate::machine::heap::Heap;
use crate::machine::{cpu, time, watchdog};
use crate::network::Network;
use crate::say;
use crate::serve::{Counters, ModelFacts, Server};
use crate::storage::{Volume, partitions};
use alloc::format;

pub(super) fn machine(info: &BootInfo, processors: usize) {
    say!(
        "Strata {}, by {:?}, {processors} processors, {} MHz",
        env!("CARGO_PKG_VERSION"),
        info.source,
        time::frequency() / 1_000_000
    );
}

pub(super) fn memory(heap: &Heap) {
    let usage = heap.usage();
    say!(
        "{} KiB of {} KiB in use, in {} pieces",
        usage.used >> 10,
        usage.total >> 10,
        usage.pieces
    );
}

/// The name that a processor gives itself, and what it can do for the kernels.
pub(super) fn processor() {
    say!("{}", cpu::name());
    say!("{}", cpu::abilities().join(" "));
}

pub(super) fn memory_map(info: &BootInfo) {
    let kinds = [("free", &info.memory), ("of firmware", &info.borrowed)];
    for (kind, map) in kinds {
        for range in map.ranges() {
            say!(
                "{:#014x}..{:#014x} {} KiB {kind}",
                range.start,
                range.end,
                range.len() >> 10
            );
        }
    }
    if let Some(module) = info.module {
        say!(
            "{:#014x}..{:#014x} {} KiB module",
            module.start,
            module.end,
            module.len() >> 10
        );
    }
}

pub(super) fn functions(functions: &[Function]) {
    for function in functions {
        say!("{} {}", function.place, function.info);
    }
    if functions.is_empty() {
        say!("there is no PCI");
    }
}

pub(super) fn disks(disks: &[Disk]) {
    for (number, disk) in disks.iter().enumerate() {
        let mut disk = disk.lock();
        let (name, size) = (disk.name(), disk.block_bytes());
        let bytes = disk.blocks().saturating_mul(size as u64);
        say!(
            "disk {number}: {name}, {} KiB in blocks of {size}",
            bytes >> 10
        );
        match partitions(&mut Volume::whole(&mut *disk)) {
            Ok(found) => found.iter().enumerate().for_each(|(i, part)| {
                let ours = part.kind == strata_image::DATA_PARTITION;
                say!(
                    "  partition {}: from {:#x}, {} KiB{}",
                    i + 1,
                    part.start,
                    part.bytes >> 10,
                    if ours { ", for data" } else { "" }
                );
            }),
            Err(error) => say!("  {error}"),
        }
    }
}

pub(super) fn measured() {
    if !attest::is_on() {
        say!("there is no TPM");
    }
    for event in attest::events() {
        let digits = event.digest.map(|byte| format!("{byte:02x}")).concat();
        say!("{:>2} {digits} {}", event.register, event.what);
    }
}

pub(super) fn network(network: &Network<'_>) {
    let (name, card) = network.card();
    let (came, went) = network.frames();
    let open = if network.is_open() { "open" } else { "closed" };
    match network.address() {
        Some(address) => say!(
            "{name} {card:02x?}: {address}, port {} {open}",
            network.port()
        ),
        None => say!("{name} {card:02x?}: no address yet"),
    }
    say!("{came} frames came, {went} went");
}

pub(super) fn connections(network: &Network<'_>) {
    for (state, remote, coming, going) in network.connections() {
        let remote = remote.map(|remote| format!("{remote}")).unwrap_or_default();
        say!("{state:<12} {remote:<24} {coming} bytes to read, {going} to send");
    }
}

/// Those that the settings name, with a star at the one that answers.
pub(super) fn models(options: &CommandLine, loaded: Option<&ModelFacts>) {
    let show = |name: &str, place: &str| {
        let star = if loaded.is_some_and(|facts| facts.is_called(name)) {
            '*'
        } else {
            ' '
        };
        say!("{star} {name:<24}{place}");
    };
    let own = options.get("model").filter(|place| !place.is_empty());
    show(
        options.get("name").unwrap_or("model"),
        own.unwrap_or("as the image or a disk has it"),
    );
    for model in listed::models(options.get("models").unwrap_or_default()) {
        match model {
            Ok(model) => show(model.name, model.path),
            Err(error) => say!("{error}"),
        }
    }
}

pub(super) fn model(facts: &ModelFacts) {
    say!(
        "{}: {}, {} weights, {} MiB, context {} of {}, {} tokens known",
        facts.name,
        facts.family,
        facts.parameters,
        facts.bytes >> 20,
        facts.context,
        facts.trained_context,
        facts.vocabulary
    );
}

pub(super) fn counters(counters: &Counters) {
    say!(
        "{} running, {} waiting, {} finished, {} failed; {} tokens read, {} written; {} of {} pages free",
        counters.running,
        counters.waiting,
        counters.finished,
        counters.failed,
        counters.prompt_tokens,
        counters.generated_tokens,
        counters.free_pages,
        counters.pages
    );
}

/// Tokens a second, read and written. The text begins with the time, so that none of it is known already.
pub(super) fn speed(server: &mut Server, mut network: Option<&mut Network<'_>>) {
    let text = format!(
        "{} {}",
        time::now(),
        "It was a long day by the sea. ".repeat(12)
    );
    let mut measure = |text: &str, tokens| {
        let count = |server: &Server| {
            let counters = server.counters();
            counters.map_or((0, 0), |c| (c.prompt_tokens, c.generated_tokens))
        };
        let before = count(server);
        let start = time::now();
        let network = network.as_deref_mut();
        let told = server.continue_text(network, text, tokens, &mut |_| watchdog::progress());
        if let Err(fault) = told {
            say!("{}", fault.message);
        }
        let after = count(server);
        let (read, written) = (after.0 - before.0, after.1 - before.1);
        (read, written, (time::now() - start).max(1))
    };
    let (read, _, reading) = measure(&text, 1);
    let (_, written, both) = measure(&text, 33);
    let rate = |tokens: u64, spent: u64| tokens as f64 * 1e9 / spent as f64;
    say!(
        "{read} tokens read, {:.1} a second; {written} written, {:.1} a second",
        rate(read, reading),
        rate(written, both)
    );
}
