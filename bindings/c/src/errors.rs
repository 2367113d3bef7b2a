//! The last error of each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use strata_bindings::{Error, ErrorKind};

/// An error as C reads it.
struct LastError {
    code: CString,
    message: CString,
    hint: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Option<LastError>> = const { RefCell::new(None) };
}

/// A text without the zero bytes that C would take for its end.
pub(crate) fn text(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).unwrap_or_else(|error| {
        let mut bytes = error.into_vec();
        bytes.retain(|byte| *byte != 0);
        CString::new(bytes).unwrap_or_default()
    })
}

pub(crate) fn set(error: Option<&Error>) {
    let last = error.map(|error| LastError {
        code: text(error.code()),
        message: text(error.to_string()),
        hint: error.hint().map(text),
    });
    // A thread that ends has no errors any more.
    let _ = LAST.try_with(|kept| kept.replace(last));
}

/// Does something that may fail or panic; an error becomes the thread's last one, and `otherwise` is returned.
pub(crate) fn guard<T>(otherwise: T, act: impl FnOnce() -> Result<T, Error>) -> T {
    let bug = || Error::new(ErrorKind::Internal, "a bug in Strata: a call panicked");
    match catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(bug())) {
        Ok(value) => {
            set(None);
            value
        }
        Err(error) => {
            set(Some(&error));
            otherwise
        }
    }
}

/// Frees something. Where that goes well the thread's last error stays: languages with a collector free at any moment, also
/// between a call that failed and the question why.
pub(crate) fn guard_free(act: impl FnOnce() -> Result<(), Error>) {
    let bug = || Error::new(ErrorKind::Internal, "a bug in Strata: a call panicked");
    if let Err(error) = catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(bug())) {
        set(Some(&error));
    }
}

fn read(part: impl FnOnce(&LastError) -> *const c_char) -> *const c_char {
    let found = LAST.try_with(|last| last.borrow().as_ref().map(part));
    found.ok().flatten().unwrap_or(null())
}

/// The kind of the error that the thread's latest call failed with, a name that stays the same from version to version:
/// invalid_argument, not_found, invalid_model, out_of_memory, io, unsupported, template, context_exceeded, overloaded,
/// canceled, timed_out, closed, internal. NULL if it did not fail. The text is good until the thread's next call; what is freed
/// without a fault leaves the error as it is.
#[unsafe(no_mangle)]
pub extern "C" fn strata_error_code() -> *const c_char {
    read(|last| last.code.as_ptr())
}

/// What went wrong in the thread's latest call, a sentence in UTF-8. NULL if it did not fail. The text is good until the
/// thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn strata_error_message() -> *const c_char {
    read(|last| last.message.as_ptr())
}

/// What the user can do about it. NULL if there is no advice. The text is good until the thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn strata_error_hint() -> *const c_char {
    read(|last| last.hint.as_ref().map_or(null(), |hint| hint.as_ptr()))
}
