//! How near the kernels come to the machine's limits: decode in GB/s of weights against a plain read, prefill in
//! operations a second against the instructions' peak.
//!
//! `cargo run --release -p strata-kernels --example throughput [--threads N] [--isa NAME] [--batch N] [--tokens N]
//! [--cols N] [TYPE…]`; `--batch` is the tokens of a decode step, `--tokens` those of a prefill.

use std::hint::black_box;
use std::time::Instant;

use memmap2::{Advice, MmapMut};
use strata_kernels::{
    ActRows, Isa, Kernels, PANEL_ROWS, Panels, TileMut, act_format, is_packed, pack_panel,
    panel_bytes,
};
use strata_quant::{GgmlType, quantize};

/// Bytes of weights, in a few parts that take turns: by the time one is read again, the caches have lost it.
const BYTES: usize = 256 << 20;
const TURNS: usize = 4;
/// How long each figure is measured, at least.
const SECONDS: f64 = 0.4;

struct Options {
    threads: usize,
    tokens: usize,
    batch: usize,
    cols: usize,
    isas: Vec<Isa>,
    types: Vec<GgmlType>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        tokens: 64,
        batch: 1,
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
            "--batch" => {
                options.batch = value()?.parse().map_err(|_| "--batch takes a number")?;
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
    let threads = options.threads;
    let mut memory = MmapMut::map_anon(BYTES).map_err(|error| error.to_string())?;
    #[cfg(target_os = "linux")]
    if memory.advise(Advice::HugePage).is_err() {
        println!("no huge pages");
    }
    memory.fill(1);
    let size = BYTES / TURNS;
    let read = |turn: usize| read(&memory[turn * size..][..size], threads);
    let read = best(read, size as f64 / 1e9);
    println!("{threads} threads; a plain read takes {read:.1} GB/s");
    for &isa in &options.isas {
        let Some(kernels) = Kernels::for_isa(isa) else {
            println!("{isa}: not on this processor");
            continue;
        };
        let peak = peak(kernels, threads);
        println!("{isa}: dot products in registers alone take {peak:.3} Tera-ops/s");
        println!(
            "{isa:<12} {:>13} {:>9} {:>20} {:>18}",
            "decode GB/s", "of read", "prefill Tera-ops/s", "pack GB/s, 1 thr."
        );
        for &ty in &options.types {
            let figures = measure(kernels, ty, &options, &mut memory);
            println!(
                "{ty:<12} {:>13.1} {:>8.0}% {:>20.3} {:>18.1}",
                figures.decode,
                100.0 * figures.decode / read,
                figures.prefill,
                figures.pack
            );
        }
    }
    Ok(())
}

struct Figures {
    decode: f64,
    prefill: f64,
    pack: f64,
}

fn measure(kernels: &Kernels, ty: GgmlType, options: &Options, memory: &mut [u8]) -> Figures {
    let Options {
        threads,
        tokens,
        batch,
        cols,
        ..
    } = *options;
    let panel = panel_bytes(ty, cols);
    let rows = rows(ty, cols);
    let mut packed = vec![0; panel];
    let pack = best(
        |_| pack_panel(ty, cols, &rows, &mut packed),
        panel as f64 / 1e9,
    );
    for out in memory.chunks_exact_mut(panel) {
        out.copy_from_slice(&packed);
    }
    let part = BYTES / TURNS / panel * panel;
    let few_tokens = activations(kernels, ty, cols, batch);
    let decode = |turn| {
        matmul(
            kernels,
            (ty, cols),
            &memory[turn * part..][..part],
            &few_tokens,
            threads,
        );
    };
    let decode = best(decode, part as f64 / 1e9);
    // A few panels a thread, so that a run is short: prefill does not depend on memory.
    let few = ((1 << 24) / (cols * tokens)).clamp(4, 64) * threads;
    let many = activations(kernels, ty, cols, tokens);
    let prefill = |_| matmul(kernels, (ty, cols), &memory[..few * panel], &many, threads);
    let ops = 2.0 * (few * PANEL_ROWS * cols * tokens) as f64;
    let prefill = best(prefill, ops / 1e12);
    Figures {
        decode,
        prefill,
        pack,
    }
}

/// The best rate of many runs, which are short, so that some of them have the processor for themselves.
fn best(mut run: impl FnMut(usize), amount: f64) -> f64 {
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

/// Tera-operations a second of dot products that wait for nothing.
fn peak(kernels: &Kernels, threads: usize) -> f64 {
    const ROUNDS: usize = 100_000;
    let ops = threads as u64 * kernels.dot_peak(ROUNDS);
    let run = |_| {
        on_threads(threads, |_| {
            kernels.dot_peak(ROUNDS);
        });
    };
    best(run, ops as f64 / 1e12)
}

/// 16 rows of weights.
fn rows(ty: GgmlType, cols: usize) -> Vec<u8> {
    let weights: Vec<f32> = (0..PANEL_ROWS * cols)
        .map(|i| (i as f32 * 0.7).sin() * 0.1)
        .collect();
    let mut rows = vec![0; panel_bytes(ty, cols)];
    quantize(ty, &weights, None, &mut rows).expect("weights of ordinary size");
    rows
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
