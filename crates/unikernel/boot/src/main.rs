//! The bootable program: enters from a hypervisor, a loader or UEFI, starts the machine, runs the engine.
#![no_std]
#![no_main]

extern crate alloc;

#[cfg(feature = "engine")]
mod boot_prompt;
#[cfg(feature = "engine")]
mod change;
// What only the tests of the machine alone ask for is no part of what people boot.
#[cfg(not(feature = "engine"))]
mod checks;
mod entry;
#[cfg(not(feature = "engine"))]
mod faults;
mod runtime;
#[cfg(feature = "engine")]
mod server;
#[cfg(feature = "engine")]
mod source;

use alloc::vec::Vec;
use core::panic::PanicInfo;
use strata_image::le;
#[cfg(feature = "engine")]
use strata_image::measure;
use strata_unikernel::attest;
use strata_unikernel::boot::memory_map::Range;
#[cfg(feature = "engine")]
use strata_unikernel::boot::trust::Refusal;
use strata_unikernel::boot::trust::Trust;
use strata_unikernel::boot::{BootInfo, CommandLine, Physical, uefi};
use strata_unikernel::console;
use strata_unikernel::drivers::{Devices, find_tpm};
use strata_unikernel::machine::address_space::FirmwareMemory;
use strata_unikernel::machine::heap::Heap;
use strata_unikernel::machine::lock::Lock;
use strata_unikernel::machine::{Machine, cpu, crash, power, time};
use strata_unikernel::say;
#[cfg(feature = "engine")]
use strata_unikernel::{shell::settings, storage};

#[global_allocator]
static HEAP: Heap = Heap::new();

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    crash::crash(format_args!("{info}"), cpu::frame_pointer())
}

/// From the EFI entry code. Returns only if firmware does not let go.
extern "C" fn efi_main(handle: u64, table: u64) -> usize {
    // SAFETY: nothing was written to yet.
    let program = unsafe { entry::measured() };
    // SAFETY: what firmware gave the entry code.
    let mut info = match unsafe { uefi::leave(handle, table) } {
        Ok(info) => info,
        Err(status) => return status,
    };
    info.program = Some(program);
    go_on(info)
}

/// Goes on from the entry code, whose stack goes with firmware or is the boot stack.
fn go_on(mut info: BootInfo) -> ! {
    attach(&mut info);
    let info = INFO.lock().insert(info) as *const BootInfo;
    // SAFETY: firmware has let go, interrupts are off, and `INFO` is never touched again.
    unsafe { entry::on_boot_stack(run, info) }
}

/// Adds what `strata image` put behind the image: options that the command line overrules, and a model for want of
/// another.
fn attach(info: &mut BootInfo) {
    // SAFETY: nothing was given to the heap yet, and the first 4 GiB, or all that firmware knows, are mapped.
    if let Some(attachment) = unsafe { entry::attachment() } {
        let settled = Trust::of_image(attachment.options).and_then(|(trust, options)| {
            info.trust = trust;
            trust.settle(&options, &info.command_line)
        });
        match settled {
            Ok(options) => info.command_line = options,
            Err(refusal) => info.refusal = Some(refusal),
        }
        let model = attachment.model.map(|model| Range {
            start: model.start,
            end: model.end,
        });
        info.module = info.module.or(model);
    }
}

static INFO: Lock<Option<BootInfo>> = Lock::new(None);

extern "C" fn run(info: &BootInfo) -> ! {
    let image = entry::image();
    crash::set_offset(entry::offset());
    say!("Strata {}, by {:?}", env!("CARGO_PKG_VERSION"), info.source);
    // SAFETY: once, on the boot stack, with interrupts off, and what was read from the start info is believed.
    let machine = unsafe { Machine::start(info, &image, &HEAP) };
    let wants_screen = info.command_line.get("console") != Some("serial");
    if let Some(framebuffer) = info.framebuffer.as_ref().filter(|_| wants_screen) {
        // SAFETY: what firmware described, and has let go of.
        if let Err(error) = unsafe { console::show_on(framebuffer) } {
            say!("the screen cannot be used: {error}");
        }
    }
    attest(info, &machine);
    if let Some(refusal) = &info.refusal {
        refuse(refusal, &info.command_line);
    }
    let usage = HEAP.usage();
    say!(
        "processors {}, memory {} MiB (heap {}), {} MHz, {}, up after {} us",
        machine.processors(),
        (info.memory.bytes() + info.borrowed.bytes()) >> 20,
        usage.total >> 20,
        time::frequency() / 1_000_000,
        machine.features,
        time::now() / 1000,
    );
    if let Some(why) = entry::fixed_because() {
        say!("the program's addresses can be foreseen: {why}");
    }
    if machine.missing_processors > 0 {
        say!("{} processors did not start", machine.missing_processors);
    }
    if let Some(words) = &machine.last_words {
        say!("the run before this one ended: {words}");
    }
    #[cfg(not(feature = "engine"))]
    if let Some(fault) = info
        .command_line
        .get("fault")
        .filter(|_| machine.last_words.is_none())
    {
        faults::provoke(fault);
    }
    let mut devices = Devices::find(&machine, &info.command_line);
    for disk in &devices.disks {
        let disk = disk.lock();
        say!(
            "{}: {} blocks of {} bytes",
            disk.name(),
            disk.blocks(),
            disk.block_bytes()
        );
    }
    for card in &devices.cards {
        say!("{}: {:02x?}", card.name(), card.address());
    }
    #[cfg(not(feature = "engine"))]
    match info.command_line.get("check") {
        Some("disks") => checks::disks(&devices),
        Some("cards") => checks::cards(&mut devices),
        Some("place") => say!("the program appears at {:#x}", image.text.start),
        _ => {}
    }
    #[cfg(feature = "engine")]
    {
        let options = options(info, &mut devices)
            .unwrap_or_else(|refusal| refuse(&refusal, &info.command_line));
        match options.get("prompt") {
            Some(_) => boot_prompt::answer(info, &options, &devices),
            None => server::serve(info, options, &machine, &mut devices),
        }
    }
    match info.command_line.get("then") {
        Some("exit") => power::exit(0x10),
        Some("reboot") => power::restart(),
        _ => power::shut_down(),
    }
}

/// Measures the program into the TPM, if there is one, behind what firmware has measured.
fn attest(info: &BootInfo, machine: &Machine) {
    let Some(tpm) = find_tpm(machine) else {
        return;
    };
    // SAFETY: firmware has let go, and its lists stay as they are.
    let memory = unsafe { FirmwareMemory::new() };
    let bytes = |start: u64, len: u64| memory.bytes(start, len as usize).unwrap_or_default();
    let mut log = info
        .firmware_log
        .map_or_else(Vec::new, |list| bytes(list.start, list.len()).to_vec());
    if let Some((later, known)) = info.later_log {
        let count = le::u64(bytes(later, 16), 8).unwrap_or(0);
        // It has a few pages, and events say how long they are.
        log.extend(attest::log::later_events(
            bytes(later + 16, 0x4000),
            count,
            known,
        ));
    }
    attest::start(tpm, log);
    match info.program {
        Some(digest) => attest::measure(attest::PROGRAM, digest, "strata program"),
        None => attest::measure_text(attest::PROGRAM, "unknown", "strata program, unknown"),
    }
}

/// Says why the machine does not start, and leaves it at that: the words stay on the screen.
fn refuse(why: &dyn core::fmt::Display, options: &CommandLine) -> ! {
    say!("this machine does not start: {why}");
    match options.get("then") {
        Some("exit") => power::exit(0x10),
        Some("reboot") => power::restart(),
        _ => power::halt(),
    }
}

/// The options, with those of the first `strata.toml` on a disk if firmware found none and the image takes any.
#[cfg(feature = "engine")]
fn options(info: &BootInfo, devices: &mut Devices) -> Result<CommandLine, Refusal> {
    let mut options = info.command_line.clone();
    if options.file().is_empty()
        && !info.trust.sealed
        && let Some(text) = storage::settings(&devices.disks, &mut |text| say!("{text}"))
    {
        options.set_file(&text);
    }
    info.trust.check_file(&options)?;
    info.trust.check_all(&options)?;
    let measured = measure::settings(info.trust.sealed, |key| options.get(key));
    attest::measure_text(attest::SETTINGS, &measured, "strata settings");
    settings::apply(&options);
    Ok(options)
}
