//! Faults on purpose, by `fault=…`, to see that each is noticed.

use crate::entry;
use strata_platform::Pool;
use strata_unikernel::machine::processors::WORKERS;
use strata_unikernel::machine::watchdog;
use strata_unikernel::say;

/// Provokes a fault on purpose, to see that it is noticed.
pub(crate) fn provoke(fault: &str) {
    let image = entry::image();
    say!("provoking: {fault}");
    match fault {
        "panic" => panic!("on purpose"),
        // SAFETY: it is not: the page must be protected, and the access a fault.
        "null" => unsafe { (16 as *mut u8).write_volatile(1) },
        // SAFETY: as above.
        "text" => unsafe { (image.text.start as *mut u8).write_volatile(1) },
        // SAFETY: as above.
        "constants" => unsafe { (image.read_only.start as *mut u8).write_volatile(1) },
        "execute" => {
            let code = alloc::boxed::Box::new([0xc3u8; 16]);
            // SAFETY: as above.
            let run: extern "C" fn() = unsafe { core::mem::transmute(code.as_ptr()) };
            run();
        }
        "stack" => {
            say!("{}", deep(1));
        }
        "worker" => WORKERS.run(&|worker| {
            assert!(worker == 0, "on purpose, by another processor");
        }),
        "memory" => say!("{}", alloc::vec![1u8; 1 << 40].len()),
        "stuck" => {
            watchdog::arm(200_000_000);
            loop {
                core::hint::spin_loop();
            }
        }
        _ => say!("there is no fault of that name"),
    }
    say!("nothing noticed it");
}

#[allow(unconditional_recursion)] // on purpose
fn deep(n: u64) -> u64 {
    let big = core::hint::black_box([n; 512]);
    deep(n + 1) + big[n as usize % 512]
}
