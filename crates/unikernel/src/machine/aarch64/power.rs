//! Off, again, and out: by firmware with PSCI (Arm DEN 0022), or by a Raspberry Pi's power manager.
#![allow(unsafe_code)]

use super::cpu;
use crate::boot::board::Conduit;
use crate::boot::memory_map::Range;
use crate::machine::address_space::map_device;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

const SYSTEM_OFF: u64 = 0x8400_0008;
const SYSTEM_RESET: u64 = 0x8400_0009;
const CPU_ON: u64 = 0xc400_0003;

const NONE: u8 = 0;
const HYPERVISOR: u8 = 1;
const SECURE_MONITOR: u8 = 2;

static CONDUIT: AtomicU8 = AtomicU8::new(NONE);
/// The power manager; 0 where there is none.
static MANAGER: AtomicU64 = AtomicU64::new(0);

/// Tells how firmware is called, and where a power manager is.
pub(super) fn set_control(conduit: Option<Conduit>, manager: Option<Range>) {
    let conduit = match conduit {
        Some(Conduit::Hypervisor) => HYPERVISOR,
        Some(Conduit::SecureMonitor) => SECURE_MONITOR,
        None => NONE,
    };
    CONDUIT.store(conduit, Ordering::Relaxed);
    if let Some(manager) = manager.filter(|&range| map_device(range).is_ok()) {
        MANAGER.store(manager.start, Ordering::Relaxed);
    }
}

/// Calls firmware; nothing where there is none.
fn call(function: u64, arguments: [u64; 3]) -> Option<i64> {
    let [first, second, third] = arguments;
    let conduit = CONDUIT.load(Ordering::Relaxed);
    let mut result = function;
    // SAFETY: the device tree says that firmware answers such calls, which keep all registers but x0 to x17.
    unsafe {
        match conduit {
            HYPERVISOR => asm!("hvc #0", inout("x0") result, inout("x1") first => _,
                inout("x2") second => _, inout("x3") third => _, clobber_abi("C"), options(nostack)),
            SECURE_MONITOR => asm!("smc #0", inout("x0") result, inout("x1") first => _,
                inout("x2") second => _, inout("x3") third => _, clobber_abi("C"), options(nostack)),
            _ => return None,
        }
    }
    Some(result as i64)
}

/// Starts a processor at an address. Says whether firmware has done so.
pub(super) fn start_processor(id: u64, entry: u64) -> bool {
    call(CPU_ON, [id, entry, 0]) == Some(0)
}

/// Has a Raspberry Pi's watchdog reset it at once; `halt` tells the loader to leave it at that.
fn reset_by_manager(halt: bool) {
    const CONTROL: u64 = 0x1c;
    const STATUS: u64 = 0x20;
    const TIMEOUT: u64 = 0x24;
    const PASSWORD: u32 = 0x5a00_0000;
    const HALT: u32 = 0x555;
    let manager = MANAGER.load(Ordering::Relaxed);
    if manager == 0 {
        return;
    }
    let at = |register| (manager + register) as *mut u32;
    // SAFETY: the device tree says that the manager is there, and `set_control` has mapped it.
    unsafe {
        let status = cpu::read_device(at(STATUS));
        let status = if halt { status | HALT } else { status & !HALT };
        cpu::write_device(at(STATUS), PASSWORD | status & 0xff_ffff);
        cpu::write_device(at(TIMEOUT), PASSWORD | 10);
        let control = cpu::read_device(at(CONTROL)) & 0xff_ffcf;
        cpu::write_device(at(CONTROL), PASSWORD | control | 0x20);
    }
    (0..100_000_000).for_each(|_| core::hint::spin_loop());
}

/// Turns the machine off; where that is not possible the processor stops.
pub fn shut_down() -> ! {
    cpu::interrupts_off();
    call(SYSTEM_OFF, [0; 3]);
    reset_by_manager(true);
    crate::say!("the machine does not turn off: it can be switched off now");
    cpu::stop()
}

/// Starts the machine again, by whatever way works.
pub fn restart() -> ! {
    cpu::interrupts_off();
    call(SYSTEM_RESET, [0; 3]);
    reset_by_manager(false);
    cpu::stop()
}

/// Starts the machine again if so asked.
pub fn restart_if(wanted: bool) {
    if wanted {
        restart();
    }
}

/// Stops, with what was said on the screen.
pub fn halt() -> ! {
    cpu::interrupts_off();
    cpu::stop()
}

static LEAVING: AtomicBool = AtomicBool::new(false);

/// Whether [`exit`] has asked for what may be an exception.
pub(super) fn is_leaving() -> bool {
    LEAVING.load(Ordering::Relaxed)
}

/// Turns the machine off because nobody takes the status of [`exit`].
pub(super) fn stop_for_good() -> ! {
    call(SYSTEM_OFF, [0; 3]);
    cpu::stop()
}

/// Leaves QEMU with the status `2 * code + 1`, as on PCs, if it takes calls of semihosting; else turns the machine off.
pub fn exit(code: u32) -> ! {
    const EXIT: u64 = 0x18;
    const APPLICATION: u64 = 0x2_0026;
    cpu::interrupts_off();
    LEAVING.store(true, Ordering::Relaxed);
    let block = [APPLICATION, u64::from(2 * code + 1)];
    // SAFETY: an instruction that emulators and debuggers take for a call, and processors for an invalid one, which the
    // handler of exceptions expects now.
    unsafe { asm!("hlt #0xf000", in("x0") EXIT, in("x1") &block, options(nostack)) };
    stop_for_good()
}
