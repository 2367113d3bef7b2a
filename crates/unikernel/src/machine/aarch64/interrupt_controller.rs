//! The machine's interrupt controller, whichever it is, and the timer of each processor.
#![allow(unsafe_code)]

use super::cpu::{self, read_register};
use super::gic::{self, v2, v3};
use super::{bcm2836, interrupts};
use crate::boot::board::Controller;
use crate::boot::memory_map::Range;
use crate::drivers::Registers;
use crate::machine::address_space::map_device;
use crate::machine::page_table::MapError;
use crate::machine::{time, watchdog};
use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Writes a system register.
macro_rules! write_register {
    ($name:literal, $value:expr) => {
        // SAFETY: the processor has the register, and what this module writes there only concerns interrupts.
        unsafe { asm!(concat!("msr ", $name, ", {}"), in(reg) u64::from($value), options(nostack)) }
    };
}

/// A controller's registers. Every processor has a view of its own.
struct View(Range);

impl Registers for View {
    fn read(&self, offset: usize) -> u32 {
        assert!(offset.is_multiple_of(4) && (offset as u64) + 4 <= self.0.len());
        // SAFETY: inside, aligned, and mapped by `start`.
        unsafe { cpu::read_device((self.0.start + offset as u64) as *const u32) }
    }
    fn write(&mut self, offset: usize, value: u32) {
        assert!(offset.is_multiple_of(4) && (offset as u64) + 4 <= self.0.len());
        // SAFETY: as above.
        unsafe { cpu::write_device((self.0.start + offset as u64) as *mut u32, value) }
    }
}

const NONE: u8 = 0;
const V2: u8 = 2;
const V3: u8 = 3;
const BCM2836: u8 = 4;

static KIND: AtomicU8 = AtomicU8::new(NONE);
/// Where the registers are: the distributor's, and the processors' or the redistributors'.
static PLACES: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

fn view(index: usize) -> View {
    let word = |at: usize| PLACES[at].load(Ordering::Relaxed);
    View(Range {
        start: word(2 * index),
        end: word(2 * index + 1),
    })
}

fn own_number() -> usize {
    (cpu::id() & 3) as usize
}

/// Starts the controller, with devices' interrupts to this processor.
///
/// # Safety
/// Once, on the boot processor, with interrupt tables loaded; there must be such a controller.
pub(super) unsafe fn start(controller: Controller) -> Result<(), MapError> {
    let (kind, first, second) = match controller {
        Controller::V2(distributor, interface) => (V2, distributor, interface),
        Controller::V3(distributor, all) => (V3, distributor, all),
        Controller::Bcm2836(registers) => (BCM2836, registers, Range::new(0, 0)),
    };
    for (index, range) in [first, second].into_iter().enumerate() {
        map_device(range)?;
        PLACES[2 * index].store(range.start, Ordering::Relaxed);
        PLACES[2 * index + 1].store(range.end, Ordering::Relaxed);
    }
    KIND.store(kind, Ordering::Release);
    match kind {
        V2 => v2::start(&mut view(0)),
        V3 => v3::start(&mut view(0), cpu::id()),
        _ => {}
    }
    start_processor();
    Ok(())
}

/// Starts this processor's part of the controller.
pub(super) fn start_processor() {
    match KIND.load(Ordering::Acquire) {
        V2 => v2::start_processor(&mut view(0), &mut view(1)),
        V3 => {
            let mut all = view(1);
            if let Some(at) = v3::find(&all, all.0.len() as usize, cpu::id()) {
                v3::start_processor(&mut all, at);
            }
            write_register!("S3_0_C12_C12_5", 1u64); // ICC_SRE_EL1
            // SAFETY: what follows goes by the registers that were just turned on.
            unsafe { asm!("isb", options(nostack)) };
            set_mask(gic::WITHOUT_DEVICES);
            write_register!("S3_0_C12_C12_3", 0u64); // ICC_BPR1_EL1
            write_register!("S3_0_C12_C12_7", 1u64); // ICC_IGRPEN1_EL1
        }
        BCM2836 => bcm2836::start_processor(&mut view(0), own_number()),
        _ => {}
    }
}

fn set_mask(mask: u32) {
    match KIND.load(Ordering::Relaxed) {
        V2 => v2::set_mask(&mut view(1), mask),
        V3 => {
            write_register!("S3_0_C4_C6_0", mask); // ICC_PMR_EL1
            // SAFETY: it only waits for the mask.
            unsafe { asm!("isb", "dsb sy", options(nostack)) };
        }
        _ => {}
    }
}

fn send_others(number: u32) {
    // What they are called for must be there when they come.
    core::sync::atomic::fence(Ordering::SeqCst);
    match KIND.load(Ordering::Relaxed) {
        V2 => v2::send_others(&mut view(0), number),
        V3 => {
            // SAFETY: stores before it are seen by whoever is called.
            unsafe { asm!("dsb ish", options(nostack)) };
            write_register!("S3_0_C12_C11_5", v3::to_others(number)); // ICC_SGI1R_EL1
            // SAFETY: it is sent now.
            unsafe { asm!("isb", options(nostack)) };
        }
        BCM2836 => bcm2836::send_others(&mut view(0), own_number(), 1 << number),
        _ => {}
    }
}

/// Wakes all other processors.
pub fn wake_others() {
    send_others(gic::WAKE);
}

/// Stops all other processors.
pub fn stop_others() {
    send_others(gic::STOP);
}

/// Deals with whatever interrupts this processor.
pub(super) fn handle(frame: &interrupts::Frame) {
    match KIND.load(Ordering::Relaxed) {
        V2 => {
            let taken = v2::acknowledge(&view(1));
            dispatch(frame, taken & 0x3ff, || v2::end(&mut view(1), taken));
        }
        V3 => {
            let taken = read_register!("S3_0_C12_C12_0") as u32; // ICC_IAR1_EL1
            dispatch(frame, taken & 0xff_ffff, || {
                write_register!("S3_0_C12_C12_1", taken); // ICC_EOIR1_EL1
            });
        }
        BCM2836 => {
            let source = bcm2836::source(&view(0), own_number());
            if source & bcm2836::MAILBOX != 0 {
                let bits = bcm2836::receive(&mut view(0), own_number());
                if bits & 1 << gic::STOP != 0 {
                    cpu::stop();
                }
            }
            if source & bcm2836::TIMER != 0 {
                dispatch(frame, gic::TIMER, || ());
            }
        }
        _ => {}
    }
}

fn dispatch(frame: &interrupts::Frame, number: u32, end: impl Fn()) {
    match number {
        gic::TIMER => {
            set_timer(PERIOD.load(Ordering::Relaxed));
            end();
            watchdog::tick(frame);
        }
        gic::STOP => {
            end();
            cpu::stop();
        }
        gic::NOTHING..=1023 => {}
        gic::DEVICES.. => {
            WOKEN.store(true, Ordering::Relaxed);
            set_mask(gic::WITHOUT_DEVICES);
            end();
        }
        _ => end(),
    }
}

/// How many counts there are from one interrupt of the timer to the next.
static PERIOD: AtomicU64 = AtomicU64::new(u64::MAX);
/// Whether a device has interrupted the present nap, or did the last.
static WOKEN: AtomicBool = AtomicBool::new(false);
/// What is let in during a nap.
static LET_IN: AtomicU32 = AtomicU32::new(gic::WITH_DEVICES);

/// Has the timer interrupt this processor in so many counts.
fn set_timer(counts: u64) {
    let now = read_register!("cntvct_el0");
    write_register!("cntv_cval_el0", now.saturating_add(counts));
    write_register!("cntv_ctl_el0", 1u64);
    // SAFETY: an interrupt that was there is gone before others are let in.
    unsafe { asm!("isb", options(nostack)) };
}

/// Interrupts this processor `hz` times a second from now on.
pub fn start_timer(hz: u32) {
    PERIOD.store(time::frequency() / u64::from(hz.max(1)), Ordering::Relaxed);
    set_timer(PERIOD.load(Ordering::Relaxed));
}

/// Naps on through devices' interrupts from now on.
pub fn ignore_devices() {
    LET_IN.store(gic::WITHOUT_DEVICES, Ordering::Relaxed);
}

/// Sleeps until an interrupt, at most so long, and says whether it was a device's. For a program that polls its devices
/// and found nothing to do.
///
/// # Safety
/// On the boot processor, after [`start_timer`].
pub unsafe fn nap(microseconds: u32) -> bool {
    let counts = u128::from(time::frequency()) * u128::from(microseconds) / 1_000_000;
    cpu::interrupts_off();
    set_timer(counts.clamp(1, u128::from(u64::MAX)) as u64);
    WOKEN.store(false, Ordering::Relaxed);
    set_mask(LET_IN.load(Ordering::Relaxed));
    // SAFETY: interrupt tables are loaded, and interrupts are off.
    unsafe { cpu::sleep() };
    cpu::interrupts_off();
    set_mask(gic::WITHOUT_DEVICES);
    set_timer(PERIOD.load(Ordering::Relaxed));
    // SAFETY: as above.
    unsafe { cpu::interrupts_on() };
    WOKEN.load(Ordering::Relaxed)
}
