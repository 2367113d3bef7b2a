//! What is asked of the host.

use strata_platform::Clock;

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    /// Milliseconds on a clock that never goes back.
    fn now() -> f64;
    /// Milliseconds since 1970.
    fn unix() -> f64;
    /// A random number.
    fn random() -> f64;
    /// Bytes loaded, and bytes in all.
    fn progress(loaded: usize, total: usize);
    /// A text for whoever looks for errors.
    fn say(text: *const u8, len: usize);
}

pub(crate) struct Host;

impl Clock for Host {
    fn now_ns(&self) -> u64 {
        // SAFETY: the host's function takes nothing.
        (unsafe { now() } * 1e6) as u64
    }
}

impl Host {
    pub(crate) fn unix_milliseconds() -> u64 {
        // SAFETY: the host's function takes nothing.
        (unsafe { unix() }) as u64
    }

    pub(crate) fn seed() -> u64 {
        // SAFETY: the host's function takes nothing.
        (unsafe { random() } * 9_007_199_254_740_992.0) as u64
    }

    pub(crate) fn progress(loaded: usize, total: usize) {
        // SAFETY: the host's function takes numbers.
        unsafe { progress(loaded, total) };
    }

    pub(crate) fn say(text: &str) {
        // SAFETY: the text stays as it is while the host reads it.
        unsafe { say(text.as_ptr(), text.len()) };
    }
}
