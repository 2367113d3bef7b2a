//! Random load for as long as you like, with three of ten requests canceled: nothing may be lost.
//!
//! `cargo xtask soak engine --minutes 10`; the tests do the same for half a minute.
#![allow(unsafe_code)]

mod load;

use std::time::Duration;

fn main() {
    let mut minutes = 1.0;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse().ok());
        match (argument.as_str(), value) {
            ("--minutes", Some(value)) if (0.1..=100_000.0).contains(&value) => minutes = value,
            _ => {
                eprintln!("usage: soak [--minutes N]");
                std::process::exit(2);
            }
        }
    }
    let rounds = load::soak(Duration::from_secs_f64(minutes * 60.0), &mut |round| {
        println!("{round}");
    });
    load::check(&rounds);
    println!("no page is lost, and memory is flat");
}
