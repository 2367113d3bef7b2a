//! What it costs to start all workers and to wait for them: nanoseconds for each empty run.
//!
//! `cargo run --release -p strata-host --example barrier [WORKERS]`

use std::time::Instant;
use strata_host::{Pinning, PoolOptions, ThreadPool};
use strata_platform::Pool;

const RUNS: u32 = 20_000;
const PASSES: usize = 51;

fn main() -> std::io::Result<()> {
    let workers = std::env::args()
        .nth(1)
        .map_or(Some(2), |number| number.parse().ok());
    for pinning in [Pinning::None, Pinning::Workers] {
        let pool = ThreadPool::new(PoolOptions { workers, pinning })?;
        let mut passes: Vec<u128> = (0..PASSES)
            .map(|_| {
                let start = Instant::now();
                (0..RUNS).for_each(|_| pool.run(&|_| ()));
                start.elapsed().as_nanos() / u128::from(RUNS)
            })
            .collect();
        passes.sort_unstable();
        println!(
            "{} workers, pinning {:?}: {} ns a run (best {}, worst {})",
            pool.workers(),
            pool.pinning(),
            passes[PASSES / 2],
            passes[0],
            passes[PASSES - 1]
        );
    }
    Ok(())
}
