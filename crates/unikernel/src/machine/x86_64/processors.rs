//! The other processors: started one by one, then workers for good.
#![allow(unsafe_code)]

use super::features::Features;
use super::interrupts::{Tables, load};
use super::paging::PAGE_ATTRIBUTES;
use super::{cpu, local_apic};
use crate::boot::memory_map::{MemoryMap, PAGE, Range};
use crate::machine::address_space::{Stack, map, root};
use crate::machine::page_table::{Access, Caching};
use crate::machine::time;
use crate::machine::workers::{Doze, Workers};
use alloc::boxed::Box;
use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Kernels keep some tiles on the stack.
const STACK: usize = 256 << 10;
/// The stack of interrupt handlers.
pub(crate) const INTERRUPT_STACK: usize = 16 << 10;

const PAGE_ATTRIBUTE_TABLE: u32 = 0x277;

// Real mode to long mode in one step, on a page below 1 MiB. Addresses are relative to the page, whose address is in ebx.
global_asm!(
    r#"
    .section .rodata.strata_trampoline, "a"
    .globl strata_trampoline, strata_trampoline_end
    .balign 16
    .code16
strata_trampoline:
    cli
    cld
    mov %cs, %ax
    mov %ax, %ds
    movzwl %ax, %ebx
    shl $4, %ebx
    lgdtl (9f - strata_trampoline)
    mov $0x620, %eax
    mov %eax, %cr4
    mov (8f - strata_trampoline), %eax
    mov %eax, %cr3
    mov $0xc0000080, %ecx
    rdmsr
    or $0x900, %eax
    wrmsr
    mov $0x80010033, %eax
    mov %eax, %cr0
    ljmpl *(7f - strata_trampoline)
    .code64
2:  mov $16, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    mov %ebx, %ebx
    mov (8f + 8 - strata_trampoline)(%rbx), %rsp
    mov (8f + 24 - strata_trampoline)(%rbx), %rdi
    xor %ebp, %ebp
    call *(8f + 16 - strata_trampoline)(%rbx)
    ud2
    .balign 16
6:  .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff
    # Filled in: the limit and address of the segments, the far address of the 64-bit code.
    .balign 8
9:  .short 23
    .long 6b - strata_trampoline
    .balign 8
7:  .long 2b - strata_trampoline
    .short 8
    # Filled in: page tables, stack, entry, argument.
    .balign 8
8:  .quad 0, 0, 0, 0
strata_trampoline_end:
    .text
"#,
    options(att_syntax)
);

unsafe extern "C" {
    #[link_name = "strata_trampoline"]
    static TRAMPOLINE: u8;
    #[link_name = "strata_trampoline_end"]
    static TRAMPOLINE_END: u8;
}

/// How far from the trampoline's end its blanks are.
const ARGUMENTS: usize = 32;
const FAR_JUMP: usize = ARGUMENTS + 8;
const SEGMENTS: usize = FAR_JUMP + 8 - 2;

/// Sleeping until an interrupt, woken by one from another processor.
pub struct Halt;

impl Doze for Halt {
    fn sleep(&self, has_work: &dyn Fn() -> bool) {
        cpu::interrupts_off();
        if !has_work() {
            // SAFETY: workers have loaded their interrupt tables, and interrupts are off.
            unsafe { cpu::sleep() };
        }
        cpu::interrupts_off();
    }
    fn wake(&self) {
        local_apic::wake_others();
    }
}

/// All processors.
pub static WORKERS: Workers<Halt> = Workers::new(Halt);

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// What a starting processor is given.
struct Starter {
    tables: &'static mut Tables,
    features: Features,
}

/// What every processor does once it has tables: vectors, page attributes.
///
/// # Safety
/// On each processor of the bare machine, once.
pub(crate) unsafe fn prepare(features: &Features) {
    // SAFETY: the caller's promise; every x86-64 processor has the page attribute table, and nothing is mapped through
    // the entry that changes.
    unsafe {
        cpu::enable(features);
        cpu::write_msr(PAGE_ATTRIBUTE_TABLE, PAGE_ATTRIBUTES);
    }
}

extern "C" fn enter(starter: *mut Starter) -> ! {
    // SAFETY: `start_one` made it for this processor alone.
    let starter = unsafe { Box::from_raw(starter) };
    let Starter { tables, features } = *starter;
    // SAFETY: the gates are filled, the stacks are this processor's own.
    unsafe {
        load(tables);
        prepare(&features);
        // The boot processor has mapped the registers, so this cannot fail.
        let _ = local_apic::start();
    }
    // Before it says that it has started, because the first job may follow at once.
    let slot = WORKERS.join();
    STARTED.fetch_add(1, Ordering::SeqCst);
    WORKERS.work(slot, || true);
    cpu::stop()
}

/// A page below 1 MiB for the start code, taken out of `memory`.
pub fn reserve_page(memory: &mut MemoryMap) -> Option<Range> {
    // Below 640 KiB; the lowest pages hold what old firmware left.
    let place = memory.take(PAGE, PAGE, 0xa_0000)?;
    (place.start >= PAGE).then_some(place)
}

/// Starts the processors with these APIC ids, but for the one that runs this. Gives back how many did not start.
///
/// # Safety
/// For the boot processor, with interrupt tables, heap, time and its APIC in order. `page` must be free.
pub unsafe fn start(ids: &[u32], page: Range, features: &Features) -> usize {
    let own = local_apic::id();
    let others = || ids.iter().copied().filter(|&id| id != own);
    // SAFETY: the page is free and nothing else lies on it.
    unsafe {
        let _ = map(page, Access::ReadWrite, Caching::WriteBack);
        let from = &raw const TRAMPOLINE;
        let len = (&raw const TRAMPOLINE_END).offset_from_unsigned(from);
        core::ptr::copy_nonoverlapping(from, page.start as *mut u8, len);
        let end = page.start + len as u64;
        for blank in [FAR_JUMP, SEGMENTS] {
            let at = (end - blank as u64) as *mut u32;
            at.write_unaligned(at.read_unaligned() + page.start as u32);
        }
    }
    others().for_each(local_apic::send_init);
    time::wait(10_000);
    let mut failed = 0;
    for id in others() {
        // SAFETY: the caller's promise.
        if unsafe { start_one(id, page, features) }.is_none() {
            failed += 1;
        }
    }
    // SAFETY: no processor runs there any more: those that started said so from elsewhere, and one that did not is
    // stopped by another reset.
    unsafe {
        let _ = map(page, Access::Nothing, Caching::WriteBack);
    }
    failed
}

/// # Safety
/// As for [`start`].
unsafe fn start_one(id: u32, page: Range, features: &Features) -> Option<()> {
    let stack = Stack::new(STACK)?;
    let (ordinary, severe) = (Stack::new(INTERRUPT_STACK)?, Stack::new(INTERRUPT_STACK)?);
    let starter = Box::new(Starter {
        tables: Box::leak(Box::new(Tables::new(ordinary.top, severe.top))),
        features: *features,
    });
    let before = STARTED.load(Ordering::SeqCst);
    // SAFETY: the page is the start code's; it is writable only while no processor runs there.
    unsafe {
        map(page, Access::ReadWrite, Caching::WriteBack).ok()?;
        let end = &raw const TRAMPOLINE_END as u64 - &raw const TRAMPOLINE as u64 + page.start;
        let arguments = (end - ARGUMENTS as u64) as *mut [u64; 4];
        arguments.write_volatile([
            root(),
            stack.top,
            enter as *const () as u64,
            Box::into_raw(starter) as u64,
        ]);
        map(page, Access::ReadExecute, Caching::WriteBack).ok()?;
    }
    for micros in [200, 500_000] {
        local_apic::send_startup(id, (page.start / PAGE) as u8);
        for _ in 0..micros / 10 {
            if STARTED.load(Ordering::SeqCst) != before {
                return Some(());
            }
            time::wait(10);
        }
    }
    local_apic::send_init(id);
    None
}
