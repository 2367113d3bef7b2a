//! The local APIC: the timer, and interrupts between processors (Intel SDM volume 3, chapter 12).
#![allow(unsafe_code)]

use super::cpu;
use super::interrupts::{DEVICE, SPURIOUS, TIMER, WAKE};
use crate::boot::memory_map::{PAGE, Range};
use crate::machine::address_space::map_device;
use crate::machine::page_table::MapError;
use crate::machine::time;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

const BASE_MSR: u32 = 0x1b;
const ENABLED: u64 = 1 << 11;
const X2APIC: u64 = 1 << 10;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

const ID: u32 = 0x20;
const END: u32 = 0xb0;
const SPURIOUS_VECTOR: u32 = 0xf0;
const COMMAND: u32 = 0x300;
const TARGET: u32 = 0x310;
const TIMER_VECTOR: u32 = 0x320;
const TIMER_START: u32 = 0x380;
const TIMER_NOW: u32 = 0x390;
const TIMER_DIVIDE: u32 = 0x3e0;

const PERIODIC: u32 = 1 << 17;
const MASKED: u32 = 1 << 16;
const DIVIDE_BY_16: u32 = 3;
const SENDING: u32 = 1 << 12;
const ALL_OTHERS: u32 = 3 << 18;
const ASSERT: u32 = 1 << 14;
const NON_MASKABLE: u32 = 4 << 8;
const INIT: u32 = 5 << 8;
const STARTUP: u32 = 6 << 8;

/// Where the registers are in memory; 1 if they are reached as model-specific registers, 0 before [`start`].
static PLACE: AtomicU64 = AtomicU64::new(0);
const BY_MSR: u64 = 1;

fn read(register: u32) -> u32 {
    match PLACE.load(Ordering::Relaxed) {
        0 => 0,
        // SAFETY: in this mode the processor has these registers.
        BY_MSR => unsafe { cpu::read_msr(0x800 + register / 16) as u32 },
        // SAFETY: mapped by `start`.
        base => unsafe { ((base + u64::from(register)) as *const u32).read_volatile() },
    }
}

fn write(register: u32, value: u32) {
    match PLACE.load(Ordering::Relaxed) {
        0 => {}
        // SAFETY: in this mode the processor has these registers.
        BY_MSR => unsafe { cpu::write_msr(0x800 + register / 16, u64::from(value)) },
        // SAFETY: mapped by `start`.
        base => unsafe { ((base + u64::from(register)) as *mut u32).write_volatile(value) },
    }
}

/// Turns this processor's APIC on.
///
/// # Safety
/// Interrupt tables must be loaded.
pub unsafe fn start() -> Result<(), MapError> {
    let features = cpu::features();
    // SAFETY: every x86-64 processor has this register.
    let base = unsafe { cpu::read_msr(BASE_MSR) };
    let by_msr = features.x2apic || base & X2APIC != 0;
    let mode = ENABLED | if by_msr { X2APIC } else { 0 };
    // SAFETY: CPUID says that the mode is there. The address stays.
    unsafe { cpu::write_msr(BASE_MSR, base | mode) };
    let place = if by_msr { BY_MSR } else { base & ADDRESS };
    if !by_msr {
        map_device(Range::new(place, PAGE))?;
    }
    PLACE.store(place, Ordering::Relaxed);
    cpu::set_priority(DEVICE >> 4);
    write(SPURIOUS_VECTOR, 1 << 8 | u32::from(SPURIOUS));
    Ok(())
}

/// This processor's id.
pub fn id() -> u32 {
    match PLACE.load(Ordering::Relaxed) {
        BY_MSR => read(ID),
        _ => read(ID) >> 24,
    }
}

/// Says that an interrupt was dealt with.
pub fn end_of_interrupt() {
    write(END, 0);
}

/// Interrupts this processor `hz` times a second from now on.
pub fn start_timer(hz: u32) {
    write(TIMER_DIVIDE, DIVIDE_BY_16);
    write(TIMER_VECTOR, MASKED);
    write(TIMER_START, u32::MAX);
    let before = cpu::time_stamp();
    time::wait(2000);
    let counted = u64::from(u32::MAX - read(TIMER_NOW));
    let passed = u128::from(cpu::time_stamp().wrapping_sub(before)).max(1);
    let per_second = u128::from(counted) * u128::from(time::frequency()) / passed;
    let period = (per_second / u128::from(hz.max(1))).clamp(1000, u128::from(u32::MAX)) as u32;
    COUNTS.store(
        per_second.min(u128::from(u64::MAX)) as u64,
        Ordering::Relaxed,
    );
    PERIOD.store(u64::from(period), Ordering::Relaxed);
    write(TIMER_VECTOR, PERIODIC | u32::from(TIMER));
    write(TIMER_START, period);
}

/// How often a second the timer counts, and how many counts there are from one interrupt to the next.
static COUNTS: AtomicU64 = AtomicU64::new(0);
static PERIOD: AtomicU64 = AtomicU64::new(0);

/// Whether a device has interrupted the present nap, or did the last.
static WOKEN: AtomicBool = AtomicBool::new(false);

/// Holds devices' interrupts back until the next nap. For their handler.
pub fn hold_devices() {
    WOKEN.store(true, Ordering::Relaxed);
    cpu::set_priority(DEVICE >> 4);
}

/// The priority of what is kept from interrupting a nap.
static KEPT_OUT: AtomicU8 = AtomicU8::new(0);

/// Naps on through devices' interrupts from now on.
pub fn ignore_devices() {
    KEPT_OUT.store(DEVICE >> 4, Ordering::Relaxed);
}

/// Sleeps until an interrupt, at most so long, and says whether it was a device's. For a program that polls its devices
/// and found nothing to do.
///
/// # Safety
/// On the boot processor, after [`start_timer`].
pub unsafe fn nap(microseconds: u32) -> bool {
    let counts = u128::from(COUNTS.load(Ordering::Relaxed)) * u128::from(microseconds) / 1_000_000;
    cpu::interrupts_off();
    write(TIMER_VECTOR, u32::from(TIMER));
    write(TIMER_START, counts.clamp(1, u128::from(u32::MAX)) as u32);
    WOKEN.store(false, Ordering::Relaxed);
    cpu::set_priority(KEPT_OUT.load(Ordering::Relaxed));
    // SAFETY: interrupt tables are loaded, and interrupts are off.
    unsafe { cpu::sleep() };
    cpu::set_priority(DEVICE >> 4);
    write(TIMER_VECTOR, PERIODIC | u32::from(TIMER));
    write(TIMER_START, PERIOD.load(Ordering::Relaxed) as u32);
    WOKEN.load(Ordering::Relaxed)
}

fn command(target: u32, command: u32) {
    if PLACE.load(Ordering::Relaxed) == BY_MSR {
        let value = u64::from(target) << 32 | u64::from(command);
        // Writes to this register do not wait for earlier stores by themselves.
        core::sync::atomic::fence(Ordering::SeqCst);
        // SAFETY: in this mode the processor has this register; the commands are those of this module.
        unsafe { cpu::write_msr(0x800 + COMMAND / 16, value) };
        return;
    }
    write(TARGET, target << 24);
    write(COMMAND, command);
    let mut spins = 1_000_000;
    while read(COMMAND) & SENDING != 0 && spins > 0 {
        spins -= 1;
    }
}

/// Wakes all other processors.
pub fn wake_others() {
    command(0, ALL_OTHERS | ASSERT | u32::from(WAKE));
}

/// Stops all other processors, by an interrupt that they cannot refuse.
pub fn stop_others() {
    command(0, ALL_OTHERS | ASSERT | NON_MASKABLE);
}

/// Resets a processor.
pub fn send_init(target: u32) {
    command(target, INIT | ASSERT);
}

/// Has a processor that was reset start at a page below 1 MiB.
pub fn send_startup(target: u32, page: u8) {
    command(target, STARTUP | ASSERT | u32::from(page));
}
