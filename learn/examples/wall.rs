//! How fast this machine reads memory, from buffers that fit the caches to one that does not:
//! `cargo run --release -p strata-learn --example wall`.

use strata_learn::wall::read_speed;

fn main() {
    for kib in [16, 256, 4 << 10, 64 << 10, 512 << 10] {
        let speed = read_speed(kib << 10);
        println!("{kib:>7} KiB  {:>6.1} GB/s", speed / 1e9);
    }
}
