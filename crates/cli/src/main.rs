//! The `strata` program.
fn main() {}
