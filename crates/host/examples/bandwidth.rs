//! What memory gives: the budget, the pages obtained, and the read bandwidth with 1 worker up to all.
//!
//! `cargo run --release -p strata-host --example bandwidth`

use std::time::Instant;
use strata_host::{Budget, Effort, HugePages, PageReport, ThreadPool, read_bandwidth};
use strata_platform::{Memory, SystemMemory, for_each_chunk};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("memory: {}", Budget::now());
    let pool = ThreadPool::new(None)?;
    let start = Instant::now();
    let mut region = HugePages::Transparent.region(1 << 30)?;
    for_each_chunk(&pool, &mut region, 2 << 20, |_, chunk| chunk.fill(1));
    println!(
        "first touch of 1 GiB: {:.3} s",
        start.elapsed().as_secs_f64()
    );
    if let Some(report) = PageReport::of(&region) {
        println!("region: {report}");
    }
    drop(region);
    let all = std::thread::available_parallelism()?.get();
    let counts = std::iter::successors(Some(1), |count| Some(count * 2));
    for workers in counts.take_while(|&count| count < all).chain([all]) {
        let pool = ThreadPool::new(Some(workers))?;
        let huge = read_bandwidth(&pool, &HugePages::Transparent, Effort::Full)?;
        let small = read_bandwidth(&pool, &SystemMemory, Effort::Full)?;
        println!(
            "workers {workers}: {:.1} GB/s in huge pages, {:.1} GB/s in ordinary ones",
            huge / 1e9,
            small / 1e9
        );
    }
    Ok(())
}
