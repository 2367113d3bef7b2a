//! How fast this machine reads its memory: the wall that decoding runs into.

use crate::caches::Cache;
use crate::memory_budget::Budget;
use std::hint::black_box;
use std::time::Instant;
use strata_platform::{Memory, OutOfMemory, Pool, for_each_part};

/// How well a speed is to be known.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Within a tenth of a second, on a buffer that a large cache may hold a part of.
    Quick,
    /// Within a second or two, on a buffer that no cache holds a noticeable part of.
    Full,
}

impl Effort {
    /// How much is read, and how often. The median of an odd number is one of them.
    fn amount(self) -> (usize, usize) {
        const LEAST: usize = 64 << 20;
        if self == Effort::Quick {
            return (LEAST, 3);
        }
        let last = Cache::all().iter().map(|cache| cache.bytes).max();
        let enough = last.unwrap_or(0).saturating_mul(8).max(1 << 30);
        let room = Budget::now().available_bytes / 4;
        let bytes = usize::try_from(enough.min(room)).unwrap_or(LEAST);
        (bytes.max(LEAST), 7)
    }
}

/// The speed at which all workers of `pool` together read memory of `memory`, in bytes a second.
///
/// The median of several passes, each over a gigabyte or more of which every worker reads a part of its own, front to
/// back: as weights are read. In a virtual machine it depends on the neighbours, who share the memory.
pub fn read_bandwidth(
    pool: &dyn Pool,
    memory: &dyn Memory,
    effort: Effort,
) -> Result<f64, OutOfMemory> {
    let (bytes, passes) = effort.amount();
    measure(pool, memory, bytes, passes)
}

fn measure(
    pool: &dyn Pool,
    memory: &dyn Memory,
    bytes: usize,
    passes: usize,
) -> Result<f64, OutOfMemory> {
    let mut region = memory.region(bytes)?;
    // Each worker touches its part first, so that it gets memory near to it.
    let mut parts: Vec<&mut [u8]> = region.chunks_mut(share(pool, bytes)).collect();
    for_each_part(pool, &mut parts, |_, part| number(part));
    Ok(speed(pool, &region, passes))
}

/// The same for bytes that are there already, in a few passes.
pub fn read_bandwidth_of(pool: &dyn Pool, bytes: &[u8]) -> f64 {
    speed(pool, bytes, 3)
}

fn share(pool: &dyn Pool, bytes: usize) -> usize {
    bytes
        .div_ceil(pool.workers())
        .next_multiple_of(LINE)
        .max(LINE)
}

/// The speed of the best way to read, in bytes a second. Every way is tried twice; the two that were fastest then take turns,
/// and the better median counts.
fn speed(pool: &dyn Pool, bytes: &[u8], passes: usize) -> f64 {
    let parts: Vec<&[u8]> = bytes.chunks(share(pool, bytes.len())).collect();
    let time = |way: Way| {
        let start = Instant::now();
        pool.run(&|worker| {
            if let Some(part) = parts.get(worker) {
                black_box(way(part));
            }
        });
        start.elapsed().as_secs_f64()
    };
    let mut ways = WAYS.map(|way| (time(way).min(time(way)), way));
    ways.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut seconds = [const { Vec::new() }; 2];
    for _ in 0..passes.max(1) {
        for ((_, way), seconds) in ways.iter().zip(&mut seconds) {
            seconds.push(time(*way));
        }
    }
    let best = seconds
        .into_iter()
        .map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            seconds[seconds.len() / 2]
        })
        .fold(f64::INFINITY, f64::min);
    bytes.len() as f64 / best.max(f64::MIN_POSITIVE)
}

const LINE: usize = 64;

/// A way to read: the sum of all words.
type Way = fn(&[u8]) -> u64;

/// By the hardware's prefetcher alone or with lines asked for ahead, which some processors need to reach their memory's
/// speed; front to back, or from several places at once, which keeps more reads in flight.
const WAYS: [Way; 7] = [
    read::<0, 1>,
    read::<2304, 1>,
    read::<4608, 1>,
    read::<0, 2>,
    read::<0, 4>,
    read::<1024, 4>,
    read::<2304, 4>,
];

/// Asks for the line `AHEAD` bytes further, where the processor has an instruction for it.
#[allow(unsafe_code)]
#[inline(always)]
fn ask<const AHEAD: usize>(line: &[u8; LINE]) {
    #[cfg(target_arch = "x86_64")]
    if AHEAD > 0 {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(AHEAD).cast()) }
    }
    let _ = line;
}

/// No two pages alike: a system that keeps equal ones once would have less to read.
fn number(bytes: &mut [u8]) {
    for (i, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *word = (i as u64).to_ne_bytes();
    }
}

/// Reads everything and does little with it, in the widest registers that there are.
#[allow(unsafe_code)]
fn read<const AHEAD: usize, const STREAMS: usize>(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn in_256_bits<const AHEAD: usize, const STREAMS: usize>(bytes: &[u8]) -> u64 {
            sum::<AHEAD, STREAMS>(bytes)
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has it.
            return unsafe { in_256_bits::<AHEAD, STREAMS>(bytes) };
        }
    }
    sum::<AHEAD, STREAMS>(bytes)
}

/// The sum of all words, from `STREAMS` places at once.
#[inline(always)]
fn sum<const AHEAD: usize, const STREAMS: usize>(bytes: &[u8]) -> u64 {
    let lines = bytes.as_chunks::<LINE>().0;
    let each = lines.len() / STREAMS;
    let streams: [&[[u8; LINE]]; STREAMS] =
        std::array::from_fn(|stream| &lines[stream * each..][..each]);
    let mut sums = [[0u64; 8]; STREAMS];
    for at in 0..each {
        for (sums, stream) in sums.iter_mut().zip(streams) {
            add::<AHEAD>(sums, &stream[at]);
        }
    }
    for line in &lines[STREAMS * each..] {
        add::<AHEAD>(&mut sums[0], line);
    }
    sums.as_flattened()
        .iter()
        .fold(0, |sum, word| sum.wrapping_add(*word))
}

#[inline(always)]
fn add<const AHEAD: usize>(sums: &mut [u64; 8], line: &[u8; LINE]) {
    ask::<AHEAD>(line);
    for (sum, word) in sums.iter_mut().zip(line.as_chunks().0) {
        *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HugePages, ThreadPool};
    use strata_platform::SystemMemory;

    #[test]
    fn every_number_of_workers_reads_at_some_speed() {
        for workers in [1, 2, 3] {
            let pool = ThreadPool::new(Some(workers)).unwrap();
            for bytes in [1, 64, 8 << 20] {
                let speed = measure(&pool, &HugePages::Transparent, bytes, 3).unwrap();
                assert!(speed.is_finite() && speed > 0.0);
            }
        }
    }

    #[test]
    fn everything_is_read() {
        // No multiple of any number of places.
        let bytes: Vec<u8> = (0..(1 << 16) + 7 * LINE).map(|i| (i * i) as u8).collect();
        let by_words: u64 = bytes
            .as_chunks()
            .0
            .iter()
            .fold(0, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
        for way in WAYS {
            assert_eq!(way(&bytes), by_words);
        }
    }

    #[test]
    fn too_little_memory_is_an_error() {
        let pool = ThreadPool::new(Some(1)).unwrap();
        assert!(measure(&pool, &SystemMemory, isize::MAX as usize - 4096, 1).is_err());
    }
}
