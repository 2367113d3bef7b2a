//! The I/O APICs: interrupts of devices, which do nothing but wake the boot processor (Intel's 82093AA).
//!
//! No handler looks at a device: whoever wakes does. Their priority is let through while the processor naps
//! ([`super::local_apic::nap`]) and held back while it works, so that a line that stays raised cannot flood it.
#![allow(unsafe_code)]

use super::acpi::madt::IoApic;
use super::interrupts::DEVICE;
use super::local_apic;
use crate::boot::memory_map::Range;
use crate::machine::address_space::map_device;

const WINDOW: u64 = 0x10;
const VERSION: u32 = 1;
const TABLE: u32 = 0x10;
/// As PCI's lines are: active while low, until dealt with.
const PCI: u32 = 1 << 13 | 1 << 15;

/// Has every line but those of clocks and of power management wake this processor.
///
/// # Safety
/// For the bare machine, once, when nobody else uses the controllers that ACPI told of.
pub(super) unsafe fn start(controllers: &[IoApic]) {
    for controller in controllers {
        let IoApic { address, first } = *controller;
        if map_device(Range::new(address, 2 * WINDOW)).is_err() {
            continue;
        }
        let (select, window) = (address as *mut u32, (address + WINDOW) as *mut u32);
        let write = |register, value| {
            // SAFETY: mapped, and by the caller's promise such a controller's registers.
            unsafe {
                select.write_volatile(register);
                window.write_volatile(value);
            }
        };
        // SAFETY: as above.
        let version = unsafe {
            select.write_volatile(VERSION);
            window.read_volatile()
        };
        for line in 0..=(version >> 16 & 0xff).min(239) {
            let kind = match first.saturating_add(line) {
                0 | 2 | 8 | 9 => continue,
                1..16 => 0,
                _ => PCI,
            };
            write(TABLE + 2 * line + 1, local_apic::id() << 24);
            write(TABLE + 2 * line, kind | u32::from(DEVICE));
        }
    }
}
