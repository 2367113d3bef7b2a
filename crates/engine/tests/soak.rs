//! Six seconds of random load with three of ten requests canceled: no page is lost, and memory is flat.
//! `cargo xtask soak engine --minutes 10` is the same for longer.
#![allow(unsafe_code)]

#[path = "../examples/soak/load.rs"]
mod load;

use std::time::Duration;

/// The only test in its program: memory is counted for all of it.
#[test]
fn random_load_leaves_nothing_behind() {
    let rounds = load::soak(Duration::from_secs(6), &mut |round| println!("{round}"));
    load::check(&rounds);
}
