//! A machine that a device tree tells of, brought up.
#![allow(unsafe_code)]

use super::features::Features;
use super::processors::{self, EXCEPTION_STACK};
use super::{calendar, cpu, interrupt_controller, interrupts, power};
use crate::boot::BootInfo;
use crate::boot::memory_map::{MemoryMap, PAGE, Range};
use crate::machine::Machine;
use crate::machine::address_space::{Image, Stack};
use crate::machine::start::TICKS;
use crate::say;
use core::cell::UnsafeCell;

/// The boot processor's stack for exceptions, until there is a heap.
#[repr(C, align(16))]
struct EarlyStack(UnsafeCell<[u8; EXCEPTION_STACK]>);

// SAFETY: used by one processor.
unsafe impl Sync for EarlyStack {}

static STACK: EarlyStack = EarlyStack(UnsafeCell::new([0; EXCEPTION_STACK]));

/// Processors start anywhere.
pub(crate) fn reserve_page(_: &mut MemoryMap) -> Option<Range> {
    None
}

/// Where last words are kept: the page just below the image, where loaders put nothing.
pub(crate) fn last_words(image: &Image) -> Range {
    Range::new(image.text.start.saturating_sub(PAGE), PAGE)
}

/// The registers of the console.
pub(crate) fn console(info: &BootInfo) -> Option<Range> {
    info.board.as_ref()?.serial
}

/// Pages are taken apart while they are in use, and tables of 2 MiB pages are there from the beginning.
pub(crate) fn gigabyte_pages(_: &Features) -> bool {
    false
}

/// Loads the vectors, so that exceptions are noticed.
///
/// # Safety
/// Once, by the boot processor, with interrupts off, before anything else runs.
pub(crate) unsafe fn prepare(_: &Features) {
    let top = STACK.0.get() as u64 + EXCEPTION_STACK as u64;
    // SAFETY: the caller's promise.
    unsafe { interrupts::load(top) };
}

/// Starts the interrupt controller, the other processors and the timer, and notes what the device tree knows.
///
/// # Safety
/// On the boot processor, with a heap and time in order; what `info` says must be true.
pub(crate) unsafe fn bring_up(machine: &mut Machine, info: &BootInfo, _: Option<Range>) {
    let Some(board) = &info.board else {
        return say!("no device tree: one processor, no devices");
    };
    power::set_control(board.conduit, board.power);
    board.calendar.into_iter().for_each(calendar::set_place);
    machine
        .configuration_spaces
        .extend(board.pci.map(|pci| pci.space));
    let windows = board.pci.into_iter().flat_map(|pci| pci.windows);
    machine.pci_windows.extend(windows.flatten());
    machine.virtio.extend(board.virtio.iter());
    machine.persistent.extend(board.persistent.iter());
    machine.tpm = board.tpm;
    // SAFETY: the vectors are loaded; the rest is the caller's promise.
    unsafe {
        if let Some(stack) = Stack::new(EXCEPTION_STACK) {
            interrupts::load(stack.top);
        }
        let started = board
            .controller
            .map(|controller| interrupt_controller::start(controller));
        match started {
            Some(Ok(())) => {}
            Some(Err(error)) => return say!("the interrupt controller cannot be used: {error}"),
            None => return say!("there is no interrupt controller that is known: one processor"),
        }
        machine.missing_processors = processors::start(board.processors.iter());
        interrupt_controller::start_timer(TICKS);
        cpu::interrupts_on();
    }
}
