//! How near the kernels come to the machine's limits: decode in GB/s of weights against a plain read, prefill in
//! operations a second against the instructions' peak.
//!
//! `cargo run --release -p strata-kernels --example bandwidth [--threads N] [--isa NAME] [--tokens N] [--cols N] [TYPE…]`
#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use memmap2::{Advice, MmapMut};
use strata_kernels::{
    ActRows, Isa, Kernels, PANEL_ROWS, Panels, TileMut, act_format, is_packed, pack_panel,
    panel_bytes,
};
use strata_quant::{F16, GgmlType};

/// Bytes of weights, in a few parts that take turns: by the time one is read again, the caches have lost it.
const BYTES: usize = 256 << 20;
const TURNS: usize = 4;
/// How long each figure is measured, at least.
const SECONDS: f64 = 0.4;

struct Options {
    threads: usize,
    tokens: usize,
    cols: usize,
    isas: Vec<Isa>,
    types: Vec<GgmlType>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        tokens: 64,
        cols: 2048,
        isas: Vec::new(),
        types: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--threads" => {
                options.threads = value()?.parse().map_err(|_| "--threads takes a number")?;
            }
            "--tokens" => {
                options.tokens = value()?.parse().map_err(|_| "--tokens takes a number")?;
            }
            "--cols" => {
                options.cols = value()?.parse().map_err(|_| "--cols takes a number")?;
            }
            "--isa" => options
                .isas
                .push(Isa::from_name(&value()?).ok_or("no such instruction set")?),
            name => options
                .types
                .push(GgmlType::from_name(name).ok_or(format!("no type {name}"))?),
        }
    }
    if options.isas.is_empty() {
        options.isas.push(Kernels::detect().isa());
    }
    if options.types.is_empty() {
        options.types = GgmlType::ALL
            .iter()
            .copied()
            .filter(|&ty| is_packed(ty))
            .collect();
    }
    Ok(options)
}

fn main() -> Result<(), String> {
    let options = options()?;
    let (threads, cols) = (options.threads, options.cols);
    let mut memory = MmapMut::map_anon(BYTES).map_err(|error| error.to_string())?;
    #[cfg(target_os = "linux")]
    if memory.advise(Advice::HugePage).is_err() {
        println!("no huge pages");
    }
    memory.fill(1);
    let size = BYTES / TURNS;
    let read = best(
        |turn| read(&memory[turn * size..][..size], threads),
        size as f64 / 1e9,
    );
    println!("{threads} threads; a plain read takes {read:.1} GB/s");
    #[cfg(target_arch = "x86_64")]
    if Kernels::for_isa(Isa::Avx512Vnni).is_some() {
        // SAFETY: the instruction set was found.
        let peak = best(
            |_| on_threads(threads, |_| unsafe { peak::zmm() }),
            threads as f64 * peak::OPS / 1e12,
        );
        println!("512-bit vpdpbusd: {peak:.2} Tera-ops/s");
    }
    for &isa in &options.isas {
        let Some(kernels) = Kernels::for_isa(isa) else {
            println!("{isa}: not on this processor");
            continue;
        };
        println!(
            "{isa:<12} {:>14} {:>9} {:>22}",
            "decode GB/s", "of read", "prefill Tera-ops/s"
        );
        for &ty in &options.types {
            let panels = size / panel_bytes(ty, cols);
            let part = panels * panel_bytes(ty, cols);
            fill(ty, cols, &mut memory[..part * TURNS]);
            let one = activations(kernels, ty, cols, 1);
            let run = |turn| {
                matmul(
                    kernels,
                    (ty, cols),
                    &memory[turn * part..][..part],
                    &one,
                    threads,
                );
            };
            let decode = best(run, part as f64 / 1e9);
            // A few panels a thread, so that a run is short: prefill does not depend on memory.
            let few = ((1 << 24) / (cols * options.tokens)).clamp(4, 64) * threads;
            let part = &memory[..few * panel_bytes(ty, cols)];
            let many = activations(kernels, ty, cols, options.tokens);
            let ops = 2.0 * (few * PANEL_ROWS * cols * options.tokens) as f64;
            let prefill = best(
                |_| matmul(kernels, (ty, cols), part, &many, threads),
                ops / 1e12,
            );
            println!(
                "{ty:<12} {decode:>14.1} {:>8.0}% {prefill:>22.3}",
                100.0 * decode / read
            );
        }
    }
    Ok(())
}

/// The best rate of many runs, which are short, so that some of them have the processor for themselves.
fn best(run: impl Fn(usize), amount: f64) -> f64 {
    let (begin, mut best, mut turn) = (Instant::now(), 0f64, 0);
    while begin.elapsed().as_secs_f64() < SECONDS || turn < 2 * TURNS {
        let start = Instant::now();
        run(turn % TURNS);
        best = best.max(amount / start.elapsed().as_secs_f64());
        turn += 1;
    }
    best
}

fn on_threads(threads: usize, work: impl Fn(usize) + Sync) {
    if threads == 1 {
        return work(0);
    }
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}

fn read(memory: &[u8], threads: usize) {
    on_threads(threads, |thread| {
        let part = memory
            .chunks(memory.len() / threads)
            .nth(thread)
            .unwrap_or_default();
        let words: &[[u64; 8]] = bytemuck::cast_slice(part);
        let mut sums = [0u64; 8];
        for line in words {
            for (sum, word) in sums.iter_mut().zip(line) {
                *sum = sum.wrapping_add(*word);
            }
        }
        black_box(sums);
    });
}

/// Random weights of ordinary size, packed.
fn fill(ty: GgmlType, cols: usize, out: &mut [u8]) {
    let mut seed = 1u64;
    let mut rows = vec![0; panel_bytes(ty, cols)];
    for byte in &mut rows {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (seed >> 56) as u8;
    }
    // No number of a block that is a scale may be huge: in half floats the top exponent bit is cleared everywhere.
    let half = F16::from_f32(0.01).0;
    for block in rows.chunks_exact_mut(ty.block_bytes()) {
        match ty {
            GgmlType::F32 => block[3] = block[3] & 0x80 | 0x3c,
            GgmlType::BF16 => block[1] = block[1] & 0x80 | 0x3c,
            GgmlType::F16 => block[1] &= 0xbb,
            GgmlType::MXFP4 => block[0] = 120,
            GgmlType::Q6_K | GgmlType::Q3_K => {
                let at = block.len() - 2;
                block[at..].copy_from_slice(&half);
            }
            GgmlType::Q2_K => {
                block[80..82].copy_from_slice(&half);
                block[82..].copy_from_slice(&half);
            }
            GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => {
                block[..2].copy_from_slice(&half);
                block[2..4].copy_from_slice(&half);
            }
            _ => block[..2].copy_from_slice(&half),
        }
    }
    for panel in out.chunks_exact_mut(rows.len()) {
        pack_panel(ty, cols, &rows, panel);
    }
}

/// `tokens` rows of activations for weights of type `ty`.
fn activations(kernels: &Kernels, ty: GgmlType, cols: usize, tokens: usize) -> Vec<u8> {
    let format = act_format(ty);
    let x: Vec<f32> = (0..cols)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0)
        .collect();
    let mut acts = vec![0; tokens * format.row_bytes(cols)];
    for row in acts.chunks_exact_mut(format.row_bytes(cols)) {
        kernels.quantize_act(format, &x, row);
    }
    acts
}

/// All panels with all tokens, a run of panels for each thread.
fn matmul(
    kernels: &Kernels,
    (ty, cols): (GgmlType, usize),
    bytes: &[u8],
    acts: &[u8],
    threads: usize,
) {
    let (size, x) = (
        panel_bytes(ty, cols),
        ActRows::new(act_format(ty), cols, acts),
    );
    let panels = bytes.len() / size;
    on_threads(threads, |thread| {
        let (from, to) = (thread * panels / threads, (thread + 1) * panels / threads);
        let rows = (to - from) * PANEL_ROWS;
        let w = Panels::new(ty, rows, cols, &bytes[from * size..to * size]);
        let mut out = vec![0.0; x.tokens() * rows];
        kernels.matmul(w, x, TileMut::from_slice(&mut out, x.tokens(), rows));
        black_box(&out);
    });
}

/// The dot-product instruction alone, with nothing to wait for.
#[cfg(target_arch = "x86_64")]
mod peak {
    use core::arch::x86_64::*;
    use std::hint::black_box;

    const ROUNDS: usize = 100_000;
    pub(super) const OPS: f64 = (ROUNDS * 16 * 128) as f64;

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn zmm() {
        let x = black_box(_mm512_set1_epi8(3));
        let mut sums = [_mm512_setzero_si512(); 16];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, x, x);
            }
        }
        black_box(sums);
    }
}
