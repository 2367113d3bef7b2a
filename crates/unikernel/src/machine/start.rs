//! From the entry code to a machine in order.
#![allow(unsafe_code)]

use super::acpi::mcfg::{self, ConfigurationSpace};
use super::acpi::power::PowerControl;
use super::acpi::{Tables as AcpiTables, madt, nfit};
use super::address_space::{self, FirmwareMemory, Image, Stack};
use super::crash::{self, Policy};
use super::features::Features;
use super::heap::Heap;
use super::interrupts::{self, Tables};
use super::processors::{self, INTERRUPT_STACK, WORKERS};
use super::{cpu, io_apic, last_words, local_apic, power, time};
use crate::boot::BootInfo;
use crate::boot::memory_map::{PAGE, Range};
use crate::say;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use strata_platform::Pool;

/// How often the timer looks at the watchdog and wakes a sleeping program.
const TICKS: u32 = 20;

/// A machine in order: memory mapped, all processors at work, time running.
#[derive(Debug)]
pub struct Machine {
    /// What the processors can do.
    pub features: Features,
    /// Where PCI's configuration space is in memory.
    pub configuration_spaces: Vec<ConfigurationSpace>,
    /// Where there is persistent memory.
    pub persistent: Vec<Range>,
    /// Processors that did not start.
    pub missing_processors: usize,
    /// Why the run before this one ended, if it crashed.
    pub last_words: Option<String>,
}

/// Something that the boot processor alone uses.
#[repr(C, align(16))]
struct Own<T>(UnsafeCell<T>);

// SAFETY: used by one processor.
unsafe impl<T> Sync for Own<T> {}

// The boot processor's tables and stacks until there is a heap.
static ORDINARY: Own<[u8; INTERRUPT_STACK]> = Own(UnsafeCell::new([0; INTERRUPT_STACK]));
static SEVERE: Own<[u8; INTERRUPT_STACK]> = Own(UnsafeCell::new([0; INTERRUPT_STACK]));
static TABLES: Own<Tables> = Own(UnsafeCell::new(Tables::new(0, 0)));

impl Machine {
    /// Brings the machine up and gives all free memory to `heap`.
    ///
    /// # Safety
    /// Once, by the boot processor, with interrupts off, on the image's own stack, after firmware has let go. What
    /// `info` says must be true, and `heap` be the program's allocator.
    pub unsafe fn start(info: &BootInfo, image: &Image, heap: &Heap) -> Self {
        let features = cpu::features();
        if let Some(policy) = info.command_line.get("panic").and_then(Policy::named) {
            crash::set_policy(policy);
        }
        // SAFETY: the caller's promise: nothing else runs yet.
        unsafe {
            interrupts::fill_gates();
            let top = |stack: &Own<_>| stack.0.get() as u64 + INTERRUPT_STACK as u64;
            *TABLES.0.get() = Tables::new(top(&ORDINARY), top(&SEVERE));
            interrupts::load(&mut *TABLES.0.get());
            processors::prepare(&features);
            mask_old_interrupts();
        }
        // SAFETY: the caller's promise.
        let (page, words) = unsafe { start_memory(info, image, heap, &features) };
        // SAFETY: firmware has let go of the timer.
        unsafe { time::start() };
        let mut machine = Self {
            features,
            configuration_spaces: Vec::new(),
            persistent: Vec::new(),
            missing_processors: 0,
            last_words: words,
        };
        // SAFETY: interrupt tables are loaded; the rest is the caller's promise.
        unsafe {
            guard_stacks();
            if let Err(error) = local_apic::start() {
                say!("the interrupt controller cannot be used: {error}");
                return machine;
            }
            let ids = machine.read_tables(info);
            if let Some(page) = page {
                machine.missing_processors = processors::start(&ids, page, &features);
            } else {
                machine.missing_processors = ids.len().saturating_sub(1);
            }
            local_apic::start_timer(TICKS);
            cpu::interrupts_on();
        }
        machine
    }

    /// How many processors work.
    pub fn processors(&self) -> usize {
        WORKERS.workers()
    }

    /// Reads ACPI's tables, and gives the ids of the processors.
    fn read_tables(&mut self, info: &BootInfo) -> Vec<u32> {
        // SAFETY: firmware has let go, and nothing here writes to its tables.
        let memory = unsafe { FirmwareMemory::new() };
        let Some(rsdp) = info.rsdp else {
            say!("no ACPI: one processor, no power control");
            return Vec::new();
        };
        match AcpiTables::find(&memory, rsdp) {
            Ok(tables) => {
                power::set_control(PowerControl::read(&tables));
                self.configuration_spaces =
                    tables.get(b"MCFG").map(mcfg::spaces).unwrap_or_default();
                self.persistent = tables.get(b"NFIT").map(nfit::ranges).unwrap_or_default();
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
}

/// Maps memory and fills the heap. Gives the page for starting processors, and the last words of the run before.
///
/// # Safety
/// As for [`Machine::start`].
unsafe fn start_memory(
    info: &BootInfo,
    image: &Image,
    heap: &Heap,
    features: &Features,
) -> (Option<Range>, Option<String>) {
    let mut memory = info.memory.clone();
    let mut borrowed = info.borrowed.clone();
    for map in [&mut memory, &mut borrowed] {
        map.remove(image.whole());
        map.remove(Range::new(0, 16 * PAGE)); // old firmware's data, and the page that stays unmapped
        map.remove(info.module.unwrap_or(Range::new(0, 0)));
    }
    let page = processors::reserve_page(&mut memory);
    let keeps = memory.contains(last_words::PLACE) || borrowed.contains(last_words::PLACE);
    memory.remove(last_words::PLACE);
    borrowed.remove(last_words::PLACE);
    let module = info.module.map(Range::pages_around);
    let mut mapped = borrowed.clone();
    let also = [module, page, keeps.then_some(last_words::PLACE)];
    for range in also.into_iter().flatten() {
        mapped.add(range);
    }
    // SAFETY: what is left in `memory` is free; below 4 GiB it is mapped by the entry code or by firmware.
    unsafe {
        if let Err(error) =
            address_space::switch(&mut memory, &mapped, image, features.gigabyte_pages)
        {
            crash::crash(format_args!("{error}"), cpu::frame_pointer());
        }
        for &range in memory.ranges().iter().chain(borrowed.ranges()) {
            heap.add(range);
        }
    }
    let mut words = None;
    if keeps {
        // SAFETY: the page was taken out of `memory` and is mapped.
        unsafe { crash::keep_last_words(|text| words = Some(String::from(text))) };
    }
    (page, words)
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
