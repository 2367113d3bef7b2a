//! When the program cannot go on: say why and where, keep the reason, and do as the policy says.
#![allow(unsafe_code)]

use super::interrupts::Frame;
use super::last_words::LastWords;
use super::page_table::look_up;
use super::{backtrace, cpu, interrupt_controller, paging, power};
use crate::boot::memory_map::Range;
use crate::console;
use crate::say;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// What to do after a crash.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Policy {
    /// Start again.
    Restart = 0,
    /// Stand still, so that the screen can be read.
    Halt = 1,
    /// Leave QEMU, by its debug device.
    Exit = 2,
}

impl Policy {
    /// The policy that an option names.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "reboot" => Some(Self::Restart),
            "halt" => Some(Self::Halt),
            "exit" => Some(Self::Exit),
            _ => None,
        }
    }
}

/// QEMU's exit status is twice this plus one.
const EXIT_CODE: u32 = 0x7e;

static POLICY: AtomicU8 = AtomicU8::new(Policy::Restart as u8);
static CRASHING: AtomicBool = AtomicBool::new(false);
/// Where last words are kept; 0 before there is a page for them.
static PLACE: AtomicU64 = AtomicU64::new(0);
static IMAGE: AtomicU64 = AtomicU64::new(0);

/// Sets what a crash does.
pub fn set_policy(policy: Policy) {
    POLICY.store(policy as u8, Ordering::Relaxed);
}

/// Sets by how much addresses are off those in the program's file.
pub fn set_offset(offset: u64) {
    IMAGE.store(offset, Ordering::Relaxed);
}

/// Whether some processor is crashing.
pub fn is_crashing() -> bool {
    CRASHING.load(Ordering::Acquire)
}

/// Takes over the page for last words, and tells what the previous run left there.
///
/// # Safety
/// It must be memory that nobody else uses, mapped and writable.
pub unsafe fn keep_last_words(page: Range, tell: impl FnOnce(&str)) {
    PLACE.store(page.start, Ordering::Release);
    with_page(|page| {
        let mut words = LastWords(page);
        if let Some(text) = words.read() {
            tell(text);
        }
        words.forget();
    });
}

fn with_page(work: impl FnOnce(&mut [u8; 4096])) {
    let place = PLACE.load(Ordering::Acquire);
    if place != 0 {
        // SAFETY: `keep_last_words` was promised the page, and one at a time uses it: first the boot processor, then
        // the one that crashes.
        work(unsafe { &mut *(place as *mut [u8; 4096]) });
    }
}

/// Where an address is in the program's file.
pub fn file_address(address: u64) -> u64 {
    address.wrapping_sub(IMAGE.load(Ordering::Relaxed))
}

/// Ends the run: the reason goes to the console and to the next run, the callers of `frame_pointer` to the console.
pub fn crash(reason: fmt::Arguments<'_>, frame_pointer: u64) -> ! {
    end(reason, frame_pointer, None)
}

/// Ends the run because of something that happened to it, whose registers go to the console too.
pub fn interrupted(reason: fmt::Arguments<'_>, frame: &Frame) -> ! {
    end(reason, frame.frame_pointer(), Some(frame))
}

fn end(reason: fmt::Arguments<'_>, frame_pointer: u64, frame: Option<&Frame>) -> ! {
    cpu::interrupts_off();
    if CRASHING.swap(true, Ordering::AcqRel) {
        // A second crash, in what follows or on another processor.
        power::restart_if(POLICY.load(Ordering::Relaxed) == Policy::Restart as u8);
        cpu::stop();
    }
    interrupt_controller::stop_others();
    console::seize();
    say!("\ncrash: {reason}");
    let registers = frame.map_or(&[][..], |frame| &frame.registers[..]);
    for (names, values) in Frame::NAMES.chunks(4).zip(registers.chunks(4)) {
        for (name, value) in names.iter().zip(values) {
            console::write(format_args!("  {name:>3} {value:016x}"));
        }
        say!();
    }
    backtrace::walk(frame_pointer, read_stack, |address| {
        say!("  called from {:#x}", file_address(address));
    });
    with_page(|page| LastWords(page).keep(reason));
    match POLICY.load(Ordering::Relaxed) {
        policy if policy == Policy::Halt as u8 => cpu::stop(),
        policy if policy == Policy::Exit as u8 => power::exit(EXIT_CODE),
        _ => power::restart(),
    }
}

/// A word of memory, if it is mapped.
fn read_stack(address: u64) -> Option<u64> {
    look_up::<paging::Entries>(paging::root(), address, |table, index| {
        // SAFETY: tables are mapped to themselves and hold 512 entries.
        unsafe { (table as *const u64).add(index).read_volatile() }
    })?;
    // SAFETY: the page is mapped, and an aligned word is on one page.
    Some(unsafe { (address as *const u64).read_volatile() })
}
