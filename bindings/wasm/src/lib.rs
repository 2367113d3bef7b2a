//! The engine for browsers and edge runtimes: one model in one thread of WebAssembly, asked in JSON.
//!
//! The host calls [`step`] until nothing is under way, and does other things between two steps. Texts go in through memory
//! that [`allocate`] gives; what a call gives back lies at [`output`], until the next call.
#![no_std]

extern crate alloc;

mod host;
mod model;
mod request;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use host::Host;
use model::Opened;
use request::Next;

#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Everything, for the one thread there is.
struct Global {
    model: UnsafeCell<Option<Opened>>,
    output: UnsafeCell<Vec<u8>>,
}

// SAFETY: a module without shared memory has one thread.
unsafe impl Sync for Global {}

static GLOBAL: Global = Global {
    model: UnsafeCell::new(None),
    output: UnsafeCell::new(Vec::new()),
};

/// The model. Calls do not nest: the host's functions, which are called from inside, never call back.
fn opened() -> &'static mut Option<Opened> {
    // SAFETY: there is one thread, and no other reference while a call lasts.
    unsafe { &mut *GLOBAL.model.get() }
}

/// Puts a text where the host reads it.
fn give(text: String) {
    // SAFETY: there is one thread, and no other reference while a call lasts.
    unsafe { *GLOBAL.output.get() = text.into_bytes() };
}

/// Bytes that the host wrote.
///
/// # Safety
///
/// `pointer` came from [`allocate`] with this length and was not released.
unsafe fn taken(pointer: *mut u8, len: usize) -> Vec<u8> {
    // SAFETY: `allocate` made it of a vector with this capacity, and the host has filled it.
    unsafe { Vec::from_raw_parts(pointer, len, len) }
}

/// Memory for the host to write to. A call that takes it frees it.
#[unsafe(no_mangle)]
pub extern "C" fn allocate(len: usize) -> *mut u8 {
    let mut bytes = core::mem::ManuallyDrop::new(Vec::<u8>::with_capacity(len));
    bytes.as_mut_ptr()
}

/// Where the text is that the latest call gave.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    // SAFETY: there is one thread, and no other reference while a call lasts.
    unsafe { (*GLOBAL.output.get()).as_ptr() }
}

/// How long it is.
#[unsafe(no_mangle)]
pub extern "C" fn output_len() -> usize {
    // SAFETY: as above.
    unsafe { (*GLOBAL.output.get()).len() }
}

/// Opens the model in a GGUF file, with positions for a context (0 leaves that to the model) and so many requests side by
/// side. Gives 1, or 0 with an error at [`output`].
///
/// # Safety
///
/// `file` came from [`allocate`] with this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(file: *mut u8, len: usize, context: usize, requests: usize) -> i32 {
    // SAFETY: the caller says so.
    let file = unsafe { taken(file, len) };
    *opened() = None;
    match model::open(file, context, requests) {
        Ok(model) => {
            give(model.info());
            *opened() = Some(model);
            1
        }
        Err(problem) => {
            give(request::failure("invalid_model", &problem));
            0
        }
    }
}

/// Asks what the server is asked at a path. Gives the request's number, or 0 with an error at [`output`].
///
/// # Safety
///
/// Both texts came from [`allocate`] with these lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn request(
    path: *mut u8,
    path_len: usize,
    body: *mut u8,
    body_len: usize,
) -> u32 {
    // SAFETY: the caller says so.
    let (path, body) = unsafe { (taken(path, path_len), taken(body, body_len)) };
    let path = String::from_utf8_lossy(&path);
    let Some(model) = opened() else {
        give(request::failure("closed", "no model is open"));
        return 0;
    };
    match model.request(&path, &body) {
        Ok(number) => number,
        Err(error) => {
            give(request::failure(error.code(), &error.to_string()));
            0
        }
    }
}

/// Computes a step. Gives 1 while anything is under way.
#[unsafe(no_mangle)]
pub extern "C" fn step() -> i32 {
    opened().as_mut().map_or(0, |model| i32::from(model.step()))
}

/// What comes next of a request: 1 with a document at [`output`], 2 if there is none yet, 0 after the last, −1 with an error.
#[unsafe(no_mangle)]
pub extern "C" fn next(number: u32) -> i32 {
    let next = opened()
        .as_mut()
        .map_or(Next::End, |model| model.next(number));
    match next {
        Next::Document(text) => {
            give(text);
            1
        }
        Next::Pending => 2,
        Next::End => 0,
        Next::Failed(error) => {
            give(request::failure(error.code(), &error.to_string()));
            -1
        }
    }
}

/// Cancels a request and forgets it.
#[unsafe(no_mangle)]
pub extern "C" fn cancel(number: u32) {
    if let Some(model) = opened() {
        model.cancel(number);
    }
}

/// Lets go of the model.
#[unsafe(no_mangle)]
pub extern "C" fn close() {
    *opened() = None;
}

/// Tells the host what went wrong, and ends.
#[panic_handler]
fn panicked(panic: &core::panic::PanicInfo<'_>) -> ! {
    Host::say(&panic.to_string());
    core::arch::wasm32::unreachable()
}
