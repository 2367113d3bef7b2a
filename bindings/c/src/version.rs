//! What was built.

use crate::errors::guard;
use crate::memory::string;
use std::ffi::c_char;

/// The number of the interface. It changes with every change that breaks programs.
const ABI: u32 = 1;

/// The number of this interface. A program that was compiled with another STRATA_ABI_VERSION must not go on.
#[unsafe(no_mangle)]
pub extern "C" fn strata_abi_version() -> u32 {
    ABI
}

/// The library's version, such as "0.1.0". The text is the library's and stays.
#[unsafe(no_mangle)]
pub extern "C" fn strata_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// What this build can do: names with a space between them, such as "adapters chat completions". The text is the
/// library's and stays.
#[unsafe(no_mangle)]
pub extern "C" fn strata_features() -> *const c_char {
    static TEXT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let text = TEXT.get_or_init(|| strata_bindings::FEATURES.join(" ") + "\0");
    text.as_ptr().cast()
}

/// Checks that this build can do all of that: names as strata_features has them, with spaces between. Returns 0, or -1 with the
/// error "unsupported", which says what is missing. Call it once before anything else, after strata_abi_version.
///
/// # Safety
///
/// The text ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strata_require(features: *const c_char) -> i32 {
    guard(-1, || {
        // SAFETY: the caller says so.
        strata_bindings::require(unsafe { string(features, "the features") }?).map(|()| 0)
    })
}
