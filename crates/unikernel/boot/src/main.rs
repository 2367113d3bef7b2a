//! The bootable program: enters from PVH or UEFI, starts the machine, runs the engine.
#![no_std]
#![no_main]

extern crate alloc;

mod entry;
mod runtime;

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU64, Ordering};
use strata_platform::Pool;
use strata_unikernel::boot::{BootInfo, Physical, pvh};
use strata_unikernel::console;
use strata_unikernel::machine::heap::{Heap, HugePages};
use strata_unikernel::machine::processors::WORKERS;
use strata_unikernel::machine::{Machine, cpu, crash, power, time, watchdog};
use strata_unikernel::prompt::{self, Means, Prompt};
use strata_unikernel::say;

/// The model that is part of the image.
#[cfg(feature = "tale")]
const MODEL: Option<&[u8]> = Some(include_bytes!("../../../../models/tale/tale-q4_k_m.gguf"));
#[cfg(not(feature = "tale"))]
const MODEL: Option<&[u8]> = None;

#[global_allocator]
static HEAP: Heap = Heap::new();

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    crash::crash(format_args!("{info}"), cpu::frame_pointer())
}

/// What the entry code has mapped: the first 4 GiB.
struct Low;

impl Physical for Low {
    fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
        let end = address.checked_add(len as u64)?;
        // SAFETY: mapped by the entry code, and nothing writes there until the start info has been read.
        (address != 0 && end <= 1 << 32)
            .then(|| unsafe { core::slice::from_raw_parts(address as *const u8, len) })
    }
}

/// From the PVH entry code.
extern "C" fn pvh_main(start_info: u64) -> ! {
    match pvh::read(&Low, start_info) {
        Ok(info) => run(&info),
        Err(error) => panic!("{error}"),
    }
}

/// From the EFI entry code.
extern "C" fn efi_main(_handle: u64, _table: u64) -> u64 {
    // EFI_UNSUPPORTED
    3 | 1 << 63
}

fn run(info: &BootInfo) -> ! {
    let image = entry::image();
    crash::set_offset(entry::offset());
    say!("Strata {}, by {:?}", env!("CARGO_PKG_VERSION"), info.source);
    // SAFETY: once, on the boot stack, with interrupts off, and what was read from the start info is believed.
    let machine = unsafe { Machine::start(info, &image, &HEAP) };
    let usage = HEAP.usage();
    say!(
        "{} processors, {} MiB of memory ({} MiB heap), {} MHz; vector state {:#x}, up after {} us",
        machine.processors(),
        info.memory.bytes() >> 20,
        usage.total >> 20,
        time::frequency() / 1_000_000,
        machine.features.xcr0,
        time::now() / 1000,
    );
    if machine.missing_processors > 0 {
        say!("{} processors did not start", machine.missing_processors);
    }
    if let Some(words) = &machine.last_words {
        say!("the run before this one ended: {words}");
    }
    if let Some(fault) = info
        .command_line
        .get("fault")
        .filter(|_| machine.last_words.is_none())
    {
        provoke(fault);
    }
    let parts = AtomicU64::new(0);
    WORKERS.run(&|worker| {
        parts.fetch_or(1 << worker, Ordering::Relaxed);
    });
    say!("workers {:#b}", parts.load(Ordering::Relaxed));
    speak(info);
    match info.command_line.get("then") {
        Some("exit") => power::exit(0x10),
        Some("reboot") => power::restart(),
        _ => power::shut_down(),
    }
}

/// Answers the prompt on the command line, if there is one.
fn speak(info: &BootInfo) {
    let prompt = match Prompt::from_options(&info.command_line) {
        Ok(Some(prompt)) => prompt,
        Ok(None) => return,
        Err(error) => return say!("{error}"),
    };
    let Some(model) = MODEL else {
        return say!("there is no model in this image to answer the prompt with");
    };
    let means = Means {
        pool: &WORKERS,
        memory: &HugePages,
        progress: &watchdog::progress,
    };
    let (start, mut first) = (time::now(), None);
    let answered = prompt::answer(model, &prompt, means, &mut |text| {
        first.get_or_insert_with(time::now);
        console::write(format_args!("{text}"));
    });
    say!();
    match answered {
        Ok(()) => {
            let first = first.unwrap_or_else(time::now) - start;
            let all = time::now() - start;
            say!(
                "first token after {} ms, all after {} ms",
                first / 1_000_000,
                all / 1_000_000
            );
        }
        Err(error) => say!("{error}"),
    }
}

/// Provokes a fault on purpose, to see that it is noticed.
fn provoke(fault: &str) {
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
