//! What is left of the pool's speed while other programs want the processors, beside one worker alone.
//!
//! `cargo run --release -p strata-host --example contention [BUSY_LOOPS]`

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};
use strata_host::ThreadPool;
use strata_platform::Pool;

/// Tasks of a token, pieces of a task, and the length of a piece, about as a small model has them.
const TASKS: usize = 60;
const PIECES: usize = 16;
const ROUNDS: u64 = 1500;
const TIME: Duration = Duration::from_secs(2);

/// Tokens a second.
fn speed(pool: &ThreadPool) -> f64 {
    let (start, mut tokens) = (Instant::now(), 0u32);
    while start.elapsed() < TIME {
        for _ in 0..TASKS {
            let next = AtomicUsize::new(0);
            pool.share(&|_| {
                while next.fetch_add(1, Ordering::Relaxed) < PIECES {
                    black_box((0..ROUNDS).fold(1u64, |sum, i| black_box(sum.wrapping_mul(i))));
                }
            });
        }
        tokens += 1;
    }
    f64::from(tokens) / start.elapsed().as_secs_f64()
}

fn main() -> std::io::Result<()> {
    let loops = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let all = std::thread::available_parallelism()?.get();
    for workers in [1, all] {
        let pool = ThreadPool::new(Some(workers))?;
        let quiet = speed(&pool);
        let stop = AtomicBool::new(false);
        let busy = scope(|scope| {
            for _ in 0..loops.unwrap_or(all) {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        spin_loop();
                    }
                });
            }
            let busy = speed(&pool);
            stop.store(true, Ordering::Relaxed);
            busy
        });
        println!(
            "{workers} workers: {quiet:.0} tokens/s, {busy:.0} beside busy loops ({:.0}%)",
            100.0 * busy / quiet
        );
    }
    Ok(())
}
