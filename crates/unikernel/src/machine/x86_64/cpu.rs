//! The instructions that only a bare machine has: ports, model-specific and control registers.
#![allow(unsafe_code)]

use super::features::{Features, Leaf};
use crate::machine::entropy;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::arch::asm;
use core::arch::x86_64::{__cpuid_count, _rdtsc};

/// Writes a port.
///
/// # Safety
/// What the device behind the port does must be sound.
pub unsafe fn out8(port: u16, value: u8) {
    // SAFETY: the caller's promise.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags)) }
}

/// Reads a port.
///
/// # Safety
/// What the device behind the port does must be sound.
pub unsafe fn in8(port: u16) -> u8 {
    let value;
    // SAFETY: the caller's promise.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nostack, preserves_flags)) }
    value
}

/// Writes a port.
///
/// # Safety
/// What the device behind the port does must be sound.
pub unsafe fn out16(port: u16, value: u16) {
    // SAFETY: the caller's promise.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nostack, preserves_flags)) }
}

/// Reads a port.
///
/// # Safety
/// What the device behind the port does must be sound.
pub unsafe fn in16(port: u16) -> u16 {
    let value;
    // SAFETY: the caller's promise.
    unsafe { asm!("in ax, dx", in("dx") port, out("ax") value, options(nostack, preserves_flags)) }
    value
}

/// Writes a port.
///
/// # Safety
/// What the device behind the port does must be sound.
pub unsafe fn out32(port: u16, value: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags));
    }
}

/// Reads a port.
///
/// # Safety
/// What the device behind the port does must be sound.
pub unsafe fn in32(port: u16) -> u32 {
    let value;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("in eax, dx", in("dx") port, out("eax") value, options(nostack, preserves_flags));
    }
    value
}

/// Reads PCI's configuration by ports; the number says where.
pub fn read_configuration(place: u32) -> u32 {
    // SAFETY: the ports of PCI's configuration, or of nothing.
    unsafe {
        out32(0xcf8, place);
        in32(0xcfc)
    }
}

/// Writes PCI's configuration by ports.
///
/// # Safety
/// What this does to the device must be sound.
pub unsafe fn write_configuration(place: u32, value: u32) {
    // SAFETY: as above, and the caller's promise.
    unsafe {
        out32(0xcf8, place);
        out32(0xcfc, value);
    }
}

/// Reads a device's register.
///
/// # Safety
/// The address must be mapped and aligned, and what reading there does be sound.
pub unsafe fn read_device(address: *const u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { address.read_volatile() }
}

/// Writes a device's register.
///
/// # Safety
/// The address must be mapped and aligned, and what writing there does be sound.
pub unsafe fn write_device(address: *mut u32, value: u32) {
    // SAFETY: the caller's promise.
    unsafe { address.write_volatile(value) }
}

/// Reads a model-specific register.
///
/// # Safety
/// The processor must have it.
pub unsafe fn read_msr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high, options(nostack));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Writes a model-specific register.
///
/// # Safety
/// The processor must have it, and what the value does must be sound.
pub unsafe fn write_msr(register: u32, value: u64) {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") low, in("edx") high, options(nostack));
    }
}

/// One leaf of CPUID.
pub fn cpuid(leaf: u32, subleaf: u32) -> Leaf {
    let found = __cpuid_count(leaf, subleaf);
    Leaf {
        eax: found.eax,
        ebx: found.ebx,
        ecx: found.ecx,
        edx: found.edx,
    }
}

/// What this processor can do.
pub fn features() -> Features {
    Features::read(cpuid)
}

/// The name that the processor gives itself.
pub fn name() -> String {
    let mut name = String::new();
    if cpuid(0x8000_0000, 0).eax >= 0x8000_0004 {
        for leaf in 0x8000_0002..=0x8000_0004 {
            let leaf = cpuid(leaf, 0);
            let words = [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx];
            let bytes = words.into_iter().flat_map(u32::to_le_bytes);
            name.extend(bytes.filter(|&byte| byte >= 0x20).map(char::from));
        }
    }
    format!("{} (signature {:#x})", name.trim(), cpuid(1, 0).eax)
}

/// What it can do for the kernels, and for the machine.
pub fn abilities() -> Vec<&'static str> {
    let (basic, extended, more) = (cpuid(1, 0), cpuid(7, 0), cpuid(7, 1));
    let has = [
        ("sse4.2", basic.ecx >> 20),
        ("avx", basic.ecx >> 28),
        ("fma", basic.ecx >> 12),
        ("f16c", basic.ecx >> 29),
        ("avx2", extended.ebx >> 5),
        ("avx512f", extended.ebx >> 16),
        ("avx512vnni", extended.ecx >> 11),
        ("avxvnni", more.eax >> 4),
        ("amx-int8", extended.edx >> 25),
        ("sha", extended.ebx >> 29),
        ("rdrand", basic.ecx >> 30),
        ("x2apic", basic.ecx >> 21),
        ("hypervisor", basic.ecx >> 31),
    ];
    let names = has.into_iter().filter(|(_, bits)| bits & 1 == 1);
    names.map(|(name, _)| name).collect()
}

/// The time-stamp counter.
pub fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { _rdtsc() }
}

/// Turns on what [`Features`] says: vector states, and that the kernel neither runs nor reads pages of users.
///
/// # Safety
/// For the bare machine only, on each processor before code that uses vectors.
pub unsafe fn enable(features: &Features) {
    // SAFETY: the bits were taken from what CPUID says is there. No page is a user's, so SMEP and SMAP forbid nothing
    // that is in use. CR0: no emulation (bit 2), monitor (1), native errors (5), write protection (16).
    unsafe {
        let mut cr0: u64;
        asm!("mov {}, cr0", out(reg) cr0);
        cr0 = cr0 & !(1 << 2 | 1 << 3) | 1 << 1 | 1 << 5 | 1 << 16;
        asm!("mov cr0, {}", in(reg) cr0);
        let mut cr4: u64;
        asm!("mov {}, cr4", out(reg) cr4);
        asm!("mov cr4, {}", in(reg) cr4 | features.cr4);
        if features.xcr0 != 0 {
            let (low, high) = (features.xcr0 as u32, (features.xcr0 >> 32) as u32);
            asm!("xsetbv", in("ecx") 0, in("eax") low, in("edx") high);
        }
    }
}

/// The address whose access failed last.
pub fn fault_address() -> u64 {
    let address;
    // SAFETY: reading CR2 changes nothing; this runs at the highest privilege only.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags)) }
    address
}

/// The frame pointer of the caller.
#[inline(always)]
pub fn frame_pointer() -> u64 {
    let pointer;
    // SAFETY: it only copies a register.
    unsafe { asm!("mov {}, rbp", out(reg) pointer, options(nomem, nostack, preserves_flags)) }
    pointer
}

/// Random numbers of the processor's own, of both kinds where it has both; none where it has neither or does not answer.
pub fn random_numbers(take: &mut dyn FnMut(u64)) {
    /// How often an instruction is asked that has nothing ready.
    const TRIES: usize = 64;
    const RDRAND: u32 = 1 << 30;
    const RDSEED: u32 = 1 << 18;
    let mut ask = |number: fn() -> (u64, u8)| {
        for _ in 0..entropy::ASKED / 8 {
            let given = (0..TRIES).map(|_| number()).find(|(_, ready)| *ready != 0);
            given.into_iter().for_each(|(number, _)| take(number));
        }
    };
    if cpuid(0, 0).eax >= 7 && cpuid(7, 0).ebx & RDSEED != 0 {
        ask(|| {
            let (number, ready): (u64, u8);
            // SAFETY: the processor has the instruction, which only writes a register and flags.
            unsafe {
                asm!("rdseed {}", "setc {}", out(reg) number, out(reg_byte) ready, options(nomem, nostack));
            }
            (number, ready)
        });
    }
    if cpuid(1, 0).ecx & RDRAND != 0 {
        ask(|| {
            let (number, ready): (u64, u8);
            // SAFETY: as above.
            unsafe {
                asm!("rdrand {}", "setc {}", out(reg) number, out(reg_byte) ready, options(nomem, nostack));
            }
            (number, ready)
        });
    }
}

/// Lets interrupts in.
///
/// # Safety
/// Interrupt tables must be loaded.
pub unsafe fn interrupts_on() {
    // SAFETY: the caller's promise.
    unsafe { asm!("sti", options(nostack)) }
}

/// Keeps interrupts out.
pub fn interrupts_off() {
    // SAFETY: it only delays interrupts.
    unsafe { asm!("cli", options(nostack)) }
}

/// Keeps interrupts out whose vectors, divided by 16, are no more than this.
pub fn set_priority(priority: u8) {
    // SAFETY: it only delays interrupts.
    unsafe { asm!("mov cr8, {}", in(reg) u64::from(priority), options(nostack)) }
}

/// Sleeps until an interrupt, which is let in only with the sleep, so that none is missed between a look and it.
///
/// # Safety
/// Interrupts must be off, and interrupt tables loaded. They are on afterwards.
pub unsafe fn sleep() {
    // SAFETY: the caller's promise; `sti` takes effect after the next instruction.
    unsafe { asm!("sti", "hlt", options(nostack)) }
}

/// Stops this processor for good.
pub fn stop() -> ! {
    loop {
        // SAFETY: nothing runs after it.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) }
    }
}
