//! The engine for browsers and edge runtimes: one model in a module of WebAssembly, asked in JSON by one thread. Built for
//! shared memory, other threads help it to compute.
//!
//! The host calls [`step`] until nothing is under way, and does other things between two steps. Texts go in through memory
//! that [`allocate`] gives; what a call gives back lies at [`output`], until the next call.
#![cfg_attr(target_feature = "atomics", feature(stdarch_wasm_atomic_wait))]

extern crate alloc;

mod adapters;
mod host;
mod memory;
mod model;
mod request;
#[cfg(target_feature = "atomics")]
mod threads;
mod vectors;

use adapters::AdapterFile;
use core::cell::UnsafeCell;
use host::Host;
use model::Opened;
use request::Next;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator::new();

/// Everything, for the one thread that asks.
struct Global {
    model: UnsafeCell<Option<Opened>>,
    output: UnsafeCell<Vec<u8>>,
    /// Adapters of the model that is opened next.
    adapters: UnsafeCell<Vec<AdapterFile>>,
}

// SAFETY: one thread asks. Others, if there are any, only do the tasks of a pool, which have what they need with them.
unsafe impl Sync for Global {}

static GLOBAL: Global = Global {
    model: UnsafeCell::new(None),
    output: UnsafeCell::new(Vec::new()),
    adapters: UnsafeCell::new(Vec::new()),
};

/// The model. Calls do not nest: the host's functions, which are called from inside, never call back.
fn opened() -> &'static mut Option<Opened> {
    // SAFETY: one thread asks, and there is no other reference while a call lasts.
    unsafe { &mut *GLOBAL.model.get() }
}

/// The adapters of the model that is opened next.
fn waiting() -> &'static mut Vec<AdapterFile> {
    // SAFETY: as above.
    unsafe { &mut *GLOBAL.adapters.get() }
}

/// Puts a text where the host reads it.
fn give(text: String) {
    // SAFETY: as above.
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
    // SAFETY: one thread asks, and there is no other reference while a call lasts.
    unsafe { (*GLOBAL.output.get()).as_ptr() }
}

/// How long it is.
#[unsafe(no_mangle)]
pub extern "C" fn output_len() -> usize {
    // SAFETY: as above.
    unsafe { (*GLOBAL.output.get()).len() }
}

/// Gives the model that is opened next a LoRA adapter, a GGUF file, with its strength in requests that name none. Adapters are
/// numbered from 0 on, as they come.
///
/// # Safety
///
/// `file` came from [`allocate`] with this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adapter(file: *mut u8, len: usize, scale: f32) {
    // SAFETY: the caller says so.
    let bytes = unsafe { taken(file, len) };
    waiting().push(AdapterFile { bytes, scale });
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
    tell_panics();
    *opened() = None;
    let adapters = core::mem::take(waiting());
    match model::open(file, &adapters, context, requests) {
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

/// Says what a model would take, as JSON at [`output`], without loading it. Takes what [`open`] takes and gives what it gives.
///
/// # Safety
///
/// `file` came from [`allocate`] with this length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plan(file: *mut u8, len: usize, context: usize, requests: usize) -> i32 {
    // SAFETY: the caller says so.
    let file = unsafe { taken(file, len) };
    tell_panics();
    match model::plan(&file, context, requests) {
        Ok(plan) => {
            give(plan);
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

/// Says how many threads compute, the one that asks included; before a model is opened. Gives how many will.
#[cfg(target_feature = "atomics")]
#[unsafe(no_mangle)]
pub extern "C" fn set_threads(count: usize) -> usize {
    threads::set_workers(count)
}

/// The life of such a thread, by its number from 1 on: computes when it is asked to, and never returns. The host has given the
/// instance a stack of its own.
#[cfg(target_feature = "atomics")]
#[unsafe(no_mangle)]
pub extern "C" fn work(number: usize) {
    threads::serve(number);
}

/// Has the host told what went wrong, before the instance ends.
fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        #[cfg(target_feature = "atomics")]
        threads::panicked();
        Host::say(&panic.to_string());
    }));
}
