//! How fast a file larger than memory could be worked through: read ahead, read, released, piece by piece.
//!
//! `cargo run --release -p strata-host --example stream FILE`

use std::path::Path;
use std::time::Instant;
use strata_host::{MappedFile, Usage};
use strata_platform::{Backing, Resident};

/// A layer of a large model, about.
const PIECE: usize = 100_000_000;

fn main() -> std::io::Result<()> {
    let Some(path) = std::env::args().nth(1) else {
        return Err(std::io::Error::other("name a file"));
    };
    let file = MappedFile::open(Path::new(&path))?;
    for (name, backing) in [
        ("without advice", &Resident(&[]) as &dyn Backing),
        ("with advice", &file),
    ] {
        file.done_with(file.bytes());
        let read_before = Usage::now().map_or(0, |usage| usage.read_bytes);
        let start = Instant::now();
        let mut sum = 0u64;
        let mut resident = 0;
        let mut pieces = file.bytes().chunks(PIECE).peekable();
        if let Some(piece) = pieces.peek() {
            backing.will_need(piece);
        }
        while let Some(piece) = pieces.next() {
            if let Some(next) = pieces.peek() {
                backing.will_need(next);
            }
            for word in piece.as_chunks().0 {
                sum = sum.wrapping_add(u64::from_ne_bytes(*word));
            }
            backing.done_with(piece);
            resident = Usage::now().map_or(0, |usage| usage.resident_bytes.max(resident));
        }
        let seconds = start.elapsed().as_secs_f64();
        let read = Usage::now().map_or(0, |usage| usage.read_bytes) - read_before;
        println!(
            "{name}: {:.2} GB/s, {:.0} MB read from disk, at most {:.0} MB in memory (sum {sum:x})",
            file.bytes().len() as f64 / seconds / 1e9,
            read as f64 / 1e6,
            resident as f64 / 1e6,
        );
    }
    Ok(())
}
