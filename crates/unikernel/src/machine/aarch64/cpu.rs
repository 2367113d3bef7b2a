//! The instructions and registers that only a bare machine has.
#![allow(unsafe_code)]

use super::features::Features;
use super::paging::NO_TRANSLATION;
use crate::machine::entropy;
use alloc::string::String;
use alloc::vec::Vec;
use core::arch::{asm, naked_asm};

/// Reads a system register.
macro_rules! read_register {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading the register changes nothing, and every processor at this level has it.
        unsafe {
            core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nomem, nostack, preserves_flags));
        }
        value
    }};
}
pub(super) use read_register;

/// What this processor can do.
pub fn features() -> Features {
    Features::read(
        read_register!("id_aa64isar0_el1"),
        read_register!("id_aa64isar1_el1"),
        read_register!("id_aa64pfr0_el1"),
    )
}

/// What the processor calls itself: who made it, and which.
pub fn name() -> String {
    let midr = read_register!("midr_el1");
    let (maker, part) = (midr >> 24 & 0xff, midr >> 4 & 0xfff);
    let known = match (maker, part) {
        (0x41, 0xd03) => "Cortex-A53",
        (0x41, 0xd04) => "Cortex-A35",
        (0x41, 0xd05) => "Cortex-A55",
        (0x41, 0xd07) => "Cortex-A57",
        (0x41, 0xd08) => "Cortex-A72",
        (0x41, 0xd0b) => "Cortex-A76",
        (0x41, 0xd0c) => "Neoverse N1",
        (0x41, 0xd40) => "Neoverse V1",
        (0x41, 0xd49) => "Neoverse N2",
        _ => "AArch64 processor",
    };
    alloc::format!("{known} (MIDR {midr:#x})")
}

/// What it can do, by name.
pub fn abilities() -> Vec<&'static str> {
    features().names().collect()
}

/// The fields of `MPIDR_EL1` that tell this processor from others.
pub fn id() -> u64 {
    read_register!("mpidr_el1") & 0xff_00ff_ffff
}

/// The virtual counter.
pub fn time_stamp() -> u64 {
    let value: u64;
    // SAFETY: reading it changes nothing; the barrier keeps it from being read too early.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) value, options(nostack, preserves_flags)) }
    value
}

/// Goes on at the level of kernels where a loader has started the program at that of hypervisors, with translation off
/// then; without one, nothing changes. For entry code: it uses no memory.
///
/// # Safety
/// Interrupts must be off, and all that is in use be mapped to itself.
#[unsafe(naked)]
pub unsafe extern "C" fn leave_hypervisor_level() {
    naked_asm!(
        "mrs x1, CurrentEL",
        "cmp x1, #8",
        "b.ne 2f",
        // Kernels are AArch64, and nothing that they do is trapped.
        "mov x1, #(1 << 31)",
        "msr hcr_el2, x1",
        "isb",
        "mov x1, #0x33ff",
        "msr cptr_el2, x1",
        "msr hstr_el2, xzr",
        "msr vttbr_el2, xzr",
        "mov x1, #3",
        "msr cnthctl_el2, x1",
        "msr cntvoff_el2, xzr",
        "mrs x1, midr_el1",
        "msr vpidr_el2, x1",
        "mrs x1, mpidr_el1",
        "msr vmpidr_el2, x1",
        // The registers of GICv3, if there is one.
        "mrs x1, id_aa64pfr0_el1",
        "ubfx x1, x1, #24, #4",
        "cbz x1, 1f",
        "mrs x1, S3_4_C12_C9_5", // ICC_SRE_EL2
        "orr x1, x1, #1",
        "orr x1, x1, #8",
        "msr S3_4_C12_C9_5, x1",
        "isb",
        "mrs x1, S3_4_C12_C9_5",
        "tbz x1, #0, 1f",
        "msr S3_4_C12_C11_0, xzr", // ICH_HCR_EL2
        "1:",
        "ldr x1, ={sctlr}",
        "msr sctlr_el1, x1",
        "mov x1, #0x3c4", // EL1 with its own stack pointer off, everything masked
        "msr spsr_el2, x1",
        "msr elr_el2, x30",
        "eret",
        "2: ret",
        sctlr = const NO_TRANSLATION,
    )
}

/// The frame pointer of the caller.
#[inline(always)]
pub fn frame_pointer() -> u64 {
    let pointer;
    // SAFETY: it only copies a register.
    unsafe { asm!("mov {}, x29", out(reg) pointer, options(nomem, nostack, preserves_flags)) }
    pointer
}

/// Random numbers of the processor's own; none where it has no such instruction or it does not answer.
pub fn random_numbers(take: &mut dyn FnMut(u64)) {
    /// How often it is asked while it has nothing ready.
    const TRIES: usize = 64;
    if !features().random {
        return;
    }
    for _ in 0..entropy::ASKED / 8 {
        let given = (0..TRIES).find_map(|_| {
            let (number, ready): (u64, u64);
            // SAFETY: the processor has the register, RNDR, which only sets flags when it is read.
            unsafe {
                asm!("mrs {}, S3_3_C2_C4_0", "cset {}, ne", out(reg) number, out(reg) ready, options(nomem, nostack));
            }
            (ready == 1).then_some(number)
        });
        given.into_iter().for_each(&mut *take);
    }
}

/// Reads a device's register by the one instruction that hypervisors can emulate, before whatever follows.
///
/// # Safety
/// The address must be mapped and aligned, and what reading there does be sound.
pub unsafe fn read_device(address: *const u32) -> u32 {
    let value;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ldr {:w}, [{}]", "dmb oshld", out(reg) value, in(reg) address, options(nostack, preserves_flags));
    }
    value
}

/// Writes a device's register, behind whatever was written to memory before.
///
/// # Safety
/// The address must be mapped and aligned, and what writing there does be sound.
pub unsafe fn write_device(address: *mut u32, value: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("dmb oshst", "str {:w}, [{}]", in(reg) value, in(reg) address, options(nostack, preserves_flags));
    }
}

/// What a machine without PCI says, or for buses that are not in its memory: there are no ports.
pub fn read_configuration(_: u32) -> u32 {
    u32::MAX
}

/// Does nothing, as above.
///
/// # Safety
/// None; as other architectures have it.
pub unsafe fn write_configuration(_: u32, _: u32) {}

/// Brings what was written to memory itself, for those who do not look into caches.
pub(super) fn write_back(start: u64, bytes: u64) {
    // The log of the smallest line's words is in the register.
    let line = 4u64 << (read_register!("ctr_el0") >> 16 & 15);
    let mut at = start / line * line;
    // SAFETY: cleaning a line changes nothing that this processor sees.
    unsafe {
        while at < start.saturating_add(bytes) {
            asm!("dc cvac, {}", in(reg) at, options(nostack, preserves_flags));
            at += line;
        }
        asm!("dsb sy", options(nostack, preserves_flags));
    }
}

/// Lets interrupts in.
///
/// # Safety
/// Interrupt tables must be loaded.
pub unsafe fn interrupts_on() {
    // SAFETY: the caller's promise.
    unsafe { asm!("msr daifclr, #7", options(nostack)) }
}

/// Keeps interrupts out.
pub fn interrupts_off() {
    // SAFETY: it only delays interrupts.
    unsafe { asm!("msr daifset, #3", options(nostack)) }
}

/// Sleeps until there is an interrupt, which is let in afterwards.
///
/// # Safety
/// Interrupts must be off, and interrupt tables loaded. They are on afterwards.
pub unsafe fn sleep() {
    // SAFETY: the caller's promise; what is kept out wakes the processor all the same.
    unsafe { asm!("dsb sy", "wfi", "msr daifclr, #7", "isb", options(nostack)) }
}

/// Stops this processor for good.
pub fn stop() -> ! {
    loop {
        // SAFETY: nothing runs after it.
        unsafe { asm!("msr daifset, #15", "wfi", options(nomem, nostack)) }
    }
}
