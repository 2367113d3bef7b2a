//! A PC, brought up.
#![allow(unsafe_code)]

use super::acpi::power::PowerControl;
use super::acpi::{self, Tables as AcpiTables, madt, mcfg, nfit};
use super::features::Features;
use super::interrupts::{self, Tables};
use super::processors::{self, INTERRUPT_STACK};
use super::{cpu, io_apic, local_apic, power};
use crate::boot::BootInfo;
use crate::boot::memory_map::{PAGE, Range};
use crate::drivers::tpm;
use crate::machine::Machine;
use crate::machine::address_space::{FirmwareMemory, Image, Stack};
use crate::machine::start::TICKS;
use crate::say;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::UnsafeCell;

pub(crate) use super::processors::reserve_page;

/// Where QEMU's microvm has its virtio devices.
const MICROVM: (u64, u64, u64) = (0xfeb0_0000, 512, 24);

/// Something that the boot processor alone uses.
#[repr(C, align(16))]
struct Own<T>(UnsafeCell<T>);

// SAFETY: used by one processor.
unsafe impl<T> Sync for Own<T> {}

// The boot processor's tables and stacks until there is a heap.
static ORDINARY: Own<[u8; INTERRUPT_STACK]> = Own(UnsafeCell::new([0; INTERRUPT_STACK]));
static SEVERE: Own<[u8; INTERRUPT_STACK]> = Own(UnsafeCell::new([0; INTERRUPT_STACK]));
static TABLES: Own<Tables> = Own(UnsafeCell::new(Tables::new(0, 0)));

/// Where last words are kept: the page just below the image's usual place, which neither SeaBIOS, qboot nor OVMF use.
pub(crate) fn last_words(_: &Image) -> Range {
    Range::new(0x1f_f000, PAGE)
}

/// The registers of the console that are in memory: a PC's are behind ports.
pub(crate) fn console(_: &BootInfo) -> Option<Range> {
    None
}

pub(crate) fn gigabyte_pages(features: &Features) -> bool {
    features.gigabyte_pages
}

/// Loads the boot processor's tables, so that exceptions are noticed.
///
/// # Safety
/// Once, by the boot processor, with interrupts off, before anything else runs.
pub(crate) unsafe fn prepare(features: &Features) {
    // SAFETY: the caller's promise.
    unsafe {
        interrupts::fill_gates();
        let top = |stack: &Own<_>| stack.0.get() as u64 + INTERRUPT_STACK as u64;
        *TABLES.0.get() = Tables::new(top(&ORDINARY), top(&SEVERE));
        interrupts::load(&mut *TABLES.0.get());
        processors::prepare(features);
        mask_old_interrupts();
    }
}

/// Starts the interrupt controllers, the other processors and the timer, and finds what ACPI knows.
///
/// # Safety
/// On the boot processor, with a heap and time in order; what `info` says must be true.
pub(crate) unsafe fn bring_up(machine: &mut Machine, info: &BootInfo, page: Option<Range>) {
    let (start, bytes, count) = MICROVM;
    let slots = (0..count).map(|i| Range::new(start + i * bytes, bytes));
    machine.virtio.extend(slots);
    let (start, bytes) = tpm::PLACE;
    machine.tpm = Some(Range::new(start, bytes));
    // SAFETY: interrupt tables are loaded; the rest is the caller's promise.
    unsafe {
        guard_stacks();
        if let Err(error) = local_apic::start() {
            return say!("the interrupt controller cannot be used: {error}");
        }
        let ids = read_tables(machine, info);
        if let Some(page) = page {
            machine.missing_processors = processors::start(&ids, page, &machine.features);
        } else {
            machine.missing_processors = ids.len().saturating_sub(1);
        }
        local_apic::start_timer(TICKS);
        cpu::interrupts_on();
    }
}

/// Reads ACPI's tables, and gives the ids of the processors.
fn read_tables(machine: &mut Machine, info: &BootInfo) -> Vec<u32> {
    // SAFETY: firmware has let go, and nothing here writes to its tables.
    let memory = unsafe { FirmwareMemory::new() };
    let Some(rsdp) = info.rsdp.or_else(|| acpi::root(&memory)) else {
        say!("no ACPI: one processor, no power control");
        return Vec::new();
    };
    match AcpiTables::find(&memory, rsdp) {
        Ok(tables) => {
            power::set_control(PowerControl::read(&tables));
            machine.configuration_spaces =
                tables.get(b"MCFG").map(mcfg::spaces).unwrap_or_default();
            machine.persistent = tables.get(b"NFIT").map(nfit::ranges).unwrap_or_default();
            let madt = tables.get(b"APIC").unwrap_or_default();
            // SAFETY: this is the boot processor, and the only one that runs.
            unsafe { io_apic::start(&madt::io_apics(madt)) };
            madt::processors(madt)
        }
        Err(error) => {
            say!("{error}: one processor, no power control");
            Vec::new()
        }
    }
}

/// Gives the boot processor interrupt stacks whose overflow is noticed.
///
/// # Safety
/// On the boot processor, with a heap.
unsafe fn guard_stacks() {
    if let (Some(ordinary), Some(severe)) =
        (Stack::new(INTERRUPT_STACK), Stack::new(INTERRUPT_STACK))
    {
        let tables = Box::leak(Box::new(Tables::new(ordinary.top, severe.top)));
        // SAFETY: the gates are filled and the stacks new.
        unsafe { interrupts::load(tables) };
    }
}

/// Keeps the PC's old interrupt controllers quiet.
///
/// # Safety
/// For the bare machine.
unsafe fn mask_old_interrupts() {
    // SAFETY: the ports of the two controllers' masks, or of nothing.
    unsafe {
        cpu::out8(0x21, 0xff);
        cpu::out8(0xa1, 0xff);
    }
}
