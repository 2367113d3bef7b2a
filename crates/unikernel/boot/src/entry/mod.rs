//! Where the machine enters, and where the image then is.
//!
//! The image begins with a PE header, so that it is an EFI application as it is: file offsets equal addresses.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{fixed_because, on_boot_stack};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{fixed_because, on_boot_stack};

use core::sync::atomic::{AtomicU64, Ordering};
use strata_image::reader::attachment::{self, Attachment};
use strata_image::{le, measure};
use strata_unikernel::boot::memory_map::Range;
use strata_unikernel::machine::address_space::Image;

unsafe extern "C" {
    static __image_start: u8;
    static __code_start: u8;
    static __text_end: u8;
    static __constants_end: u8;
    static __image_end: u8;
    static __data_end: u8;
    static __rela_start: u8;
    static __rela_end: u8;
    #[link_name = "strata_boot_guard"]
    static GUARD: u8;
}

/// Where the linker put the image, if nobody moves it.
const LINKED: u64 = 0x20_0000;

/// How far the image appears from where it is in memory.
static MOVED: AtomicU64 = AtomicU64::new(0);

/// Where the image is.
pub(crate) fn image() -> Image {
    let [start, text, constants, end, guard] = [
        &raw const __image_start,
        &raw const __text_end,
        &raw const __constants_end,
        &raw const __image_end,
        &raw const GUARD,
    ]
    .map(|address| address as u64);
    Image {
        text: Range { start, end: text },
        read_only: Range {
            start: text,
            end: constants,
        },
        data: Range {
            start: constants,
            end,
        },
        guard: Range::new(guard, 4096),
        physical: start.wrapping_sub(MOVED.load(Ordering::Relaxed)),
    }
}

/// What was put behind the image, beginning with the image itself.
///
/// # Safety
/// Only while the memory behind the image is as the loader left it, and mapped to itself.
pub(crate) unsafe fn attachment() -> Option<Attachment<'static>> {
    let start = &raw const __image_start;
    // SAFETY: the image begins with a page of headers.
    let head = unsafe { core::slice::from_raw_parts(start, 4096) };
    let place = attachment::place(head)?;
    let start = (start as u64).checked_add(place.start)?;
    let len = (place.end - place.start) as usize;
    // SAFETY: the caller's promise, and the loader put so many bytes there, as the headers say.
    let bytes = unsafe { core::slice::from_raw_parts(start as *const u8, len) };
    attachment::read(bytes, start)
}

/// The digest of the program as it was loaded.
///
/// # Safety
/// Only before any variable is written to.
pub(crate) unsafe fn measured() -> [u8; 32] {
    let bytes = |start: *const u8, end: *const u8| {
        // SAFETY: the linker's own symbols, around what the loader has put there; by the caller's promise nothing writes.
        unsafe { core::slice::from_raw_parts(start, end as usize - start as usize) }
    };
    let variables = &raw const __constants_end;
    // Where a pointer is, what kind of relocation, what is added: 24 bytes each, by rising places.
    let pointers = bytes(&raw const __rela_start, &raw const __rela_end).chunks_exact(24);
    let before = variables as u64 - &raw const __image_start as u64 + LINKED;
    let pointers = pointers.map(|entry| {
        let place = le::u64(entry, 0).unwrap_or(0);
        place.wrapping_sub(before) as usize
    });
    let fixed = bytes(&raw const __code_start, variables);
    measure::program(fixed, bytes(variables, &raw const __data_end), pointers)
}

/// By how much the image was moved.
pub(crate) fn offset() -> u64 {
    (&raw const __image_start as u64).wrapping_sub(LINKED)
}
