//! The other processors: started one by one, then workers for good.
#![allow(unsafe_code)]

use super::{cpu, interrupt_controller, interrupts, paging, power};
use crate::boot::board::Processor;
use crate::boot::memory_map::{PAGE, Range};
use crate::machine::address_space::{Stack, map, root};
use crate::machine::page_table::{Access, Caching};
use crate::machine::time;
use crate::machine::workers::{Doze, Workers};
use alloc::vec::Vec;
use core::arch::{asm, naked_asm};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Kernels keep some tiles on the stack.
const STACK: usize = 256 << 10;
/// The stack of exceptions.
pub(super) const EXCEPTION_STACK: usize = 16 << 10;

/// Sleeping until an interrupt, woken by one from another processor.
pub struct Halt;

impl Doze for Halt {
    fn sleep(&self, has_work: &dyn Fn() -> bool) {
        cpu::interrupts_off();
        // SAFETY: workers have loaded their interrupt tables. They let interrupts in while they work, because there is none
        // that they could not refuse.
        unsafe {
            if has_work() {
                cpu::interrupts_on();
            } else {
                cpu::sleep();
            }
        }
    }
    fn wake(&self) {
        interrupt_controller::wake_others();
    }
}

/// All processors.
pub static WORKERS: Workers<Halt> = Workers::new(Halt);

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// What a starting processor is given: page tables, its stack, that for exceptions.
#[repr(C, align(64))]
struct Starter(UnsafeCell<[u64; 3]>);

// SAFETY: written by the boot processor while no other starts.
unsafe impl Sync for Starter {}

static STARTER: Starter = Starter(UnsafeCell::new([0; 3]));

/// Where processors start, with translation and caches off.
#[unsafe(naked)]
unsafe extern "C" fn start_code() {
    naked_asm!(
        "msr daifset, #15",
        "bl {level}",
        "adrp x19, {starter}",
        "add x19, x19, :lo12:{starter}",
        "ldr x0, [x19]",
        "bl {activate}",
        "mov x0, #(3 << 20)",
        "msr cpacr_el1, x0",
        "isb",
        "msr spsel, #0",
        "ldp x1, x0, [x19, #8]",
        "mov sp, x1",
        "mov x29, xzr",
        "mov x30, xzr",
        "b {enter}",
        level = sym cpu::leave_hypervisor_level,
        starter = sym STARTER,
        activate = sym paging::activate_final,
        enter = sym enter,
    )
}

extern "C" fn enter(exception_stack: u64) -> ! {
    // SAFETY: the stack was made for this processor alone.
    unsafe { interrupts::load(exception_stack) };
    interrupt_controller::start_processor();
    // Before it says that it has started, because the first job may follow at once.
    let slot = WORKERS.join();
    STARTED.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the vectors are loaded.
    unsafe { cpu::interrupts_on() };
    WORKERS.work(slot, || true);
    cpu::stop()
}

/// Starts the processors but for the one that runs this. Gives back how many did not start.
///
/// # Safety
/// For the boot processor, with interrupt tables, heap, time and interrupt controller in order.
pub(super) unsafe fn start(processors: impl Iterator<Item = Processor>) -> usize {
    let others = processors.filter(|processor| processor.id != cpu::id());
    // All before the first starts: a stack's guard takes a large page apart, which nobody may use meanwhile.
    let stacks = |one| Some((one, Stack::new(STACK)?, Stack::new(EXCEPTION_STACK)?));
    let others: Vec<_> = others.map(stacks).collect();
    let mut failed = 0;
    for one in others {
        let started = one.is_some_and(|(processor, stack, exceptions)| {
            // SAFETY: the caller's promise; one that did not start is never heard of again.
            unsafe { start_one(processor, [root(), stack.top, exceptions.top]) }
        });
        if !started {
            failed += 1;
        }
    }
    failed
}

/// # Safety
/// As for [`start`].
unsafe fn start_one(processor: Processor, given: [u64; 3]) -> bool {
    let before = STARTED.load(Ordering::SeqCst);
    let place = STARTER.0.get();
    // SAFETY: no other processor starts now.
    unsafe { place.write_volatile(given) };
    // It starts without caches.
    cpu::write_back(place as u64, size_of::<Starter>() as u64);
    let entry = start_code as *const () as u64;
    match processor.release {
        Some(release) => {
            let page = Range::new(release, 8).pages_around();
            // SAFETY: the device tree says that the processor looks there; the page was kept out of the heap.
            unsafe {
                let open = |access| map(page, access, Caching::WriteBack).is_ok();
                if page.len() != PAGE || !open(Access::ReadWrite) {
                    return false;
                }
                (release as *mut u64).write_volatile(entry);
                cpu::write_back(release, 8);
                open(Access::Nothing);
                asm!("sev", options(nostack));
            }
        }
        None if power::start_processor(processor.id, entry) => {}
        None => return false,
    }
    (0..50_000).any(|_| {
        time::wait(10);
        STARTED.load(Ordering::SeqCst) != before
    })
}
