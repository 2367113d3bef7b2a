//! Off, again, and out.
#![allow(unsafe_code)]

use super::acpi::power::{PowerControl, Register, Space};
use super::cpu;
use crate::boot::memory_map::Range;
use crate::machine::address_space::map_device;
use crate::machine::lock::Lock;
use core::arch::asm;

static CONTROL: Lock<PowerControl> = Lock::new(PowerControl::NONE);

/// Tells how this machine is turned off and reset. What cannot be reached is left out.
///
/// Registers are mapped now, because in a crash nothing may wait for a lock.
pub fn set_control(mut control: PowerControl) {
    let reachable = |register: &Register| {
        register.space == Space::Port || map_device(Range::new(register.address, 2)).is_ok()
    };
    control.reset = control.reset.filter(|(register, _)| reachable(register));
    for write in &mut control.sleep {
        *write = write.filter(|(register, _)| reachable(register));
    }
    *CONTROL.lock() = control;
}

fn write(register: Register, value: u16) {
    let address = register.address;
    // SAFETY: ACPI names these registers for this purpose, and those in memory are mapped.
    unsafe {
        match (register.space, register.bytes) {
            (Space::Port, 1) => cpu::out8(address as u16, value as u8),
            (Space::Port, _) => cpu::out16(address as u16, value),
            (Space::Memory, 1) => (address as *mut u8).write_volatile(value as u8),
            (Space::Memory, _) => (address as *mut u16).write_volatile(value),
        }
    }
}

/// Turns the machine off; where that is not possible the processor stops.
pub fn shut_down() -> ! {
    cpu::interrupts_off();
    let control = *CONTROL.lock();
    for (register, value) in control.sleep.into_iter().flatten() {
        write(register, value);
        wait();
    }
    crate::say!("the machine does not turn off: it can be switched off now");
    cpu::stop()
}

/// Starts the machine again, by whatever way works.
pub fn restart() -> ! {
    cpu::interrupts_off();
    CONTROL.break_open();
    let control = *CONTROL.lock();
    if let Some((register, value)) = control.reset {
        write(register, u16::from(value));
        wait();
    }
    // SAFETY: the reset port of chipsets, then the keyboard controller's; a machine without them ignores both.
    // Last, a fault without a handler resets every processor.
    unsafe {
        cpu::out8(0xcf9, 6);
        wait();
        cpu::out8(0x64, 0xfe);
        wait();
        let nothing = [0u64; 2];
        asm!("lidt [{}]", "int3", in(reg) &nothing);
    }
    cpu::stop()
}

/// Starts the machine again if so asked.
pub fn restart_if(wanted: bool) {
    if wanted {
        restart();
    }
}

/// A moment for a reset to happen.
fn wait() {
    for _ in 0..1_000_000 {
        core::hint::spin_loop();
    }
}

/// Stops, with what was said on the screen.
pub fn halt() -> ! {
    cpu::interrupts_off();
    cpu::stop()
}

/// Leaves QEMU with the status `2 * code + 1`, if it has its debug exit device at port 0xf4.
pub fn exit(code: u32) -> ! {
    // SAFETY: the port of that device; elsewhere nothing is there.
    unsafe { cpu::out32(0xf4, code) };
    cpu::stop()
}
