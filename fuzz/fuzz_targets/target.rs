//! The target of the program's name, under libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use strata_fuzz::Target;

static TARGET: LazyLock<&Target> =
    LazyLock::new(|| Target::find(env!("CARGO_BIN_NAME")).expect("a target of this name"));

fuzz_target!(|bytes: &[u8]| {
    (TARGET.run)(bytes);
});
