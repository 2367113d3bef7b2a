//! Matrix products on one thread, by weight type and instruction set: decode in bytes of weights a second, prefill in
//! operations a second, beside the peak of the instructions alone.
//!
//! `cargo bench -p strata-kernels --bench matmul [FILTER…]`

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use std::fmt;
use strata_host::HugePages;
use strata_kernels::{
    ActRows, Choice, Isa, Kernels, PANEL_ROWS, Panels, TileMut, Tiles, act_format, is_packed,
    pack_panel, panel_bytes,
};
use strata_platform::{Memory, Region};
use strata_quant::{GgmlType, quantize};

const COLS: usize = 2048;
/// More than caches keep, so that decode reads memory.
const DECODE_BYTES: usize = 64 << 20;
/// Few enough rows that a run is short: prefill does not depend on memory.
const PREFILL_ROWS: usize = 256;
const PREFILL_TOKENS: usize = 64;
/// Types that are multiplied on tiles.
const TILE_TYPES: [GgmlType; 7] = [
    GgmlType::Q4_0,
    GgmlType::Q8_0,
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
    GgmlType::IQ4_XS,
    GgmlType::MXFP4,
];
const PEAK_ROUNDS: usize = 10_000;

fn main() {
    divan::main();
}

/// The instruction sets of this machine. Plain Rust is no contender.
fn isas() -> impl Iterator<Item = Isa> {
    let all = Isa::ALL.iter().copied();
    all.filter(|&isa| isa != Isa::Scalar && Kernels::for_isa(isa).is_some())
}

#[derive(Copy, Clone)]
struct Case {
    isa: Isa,
    ty: GgmlType,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.isa, self.ty)
    }
}

fn cases() -> Vec<Case> {
    let types = GgmlType::ALL.iter().copied().filter(|&ty| is_packed(ty));
    types
        .flat_map(|ty| isas().map(move |isa| Case { isa, ty }))
        .collect()
}

/// `rows` rows of weights in panels, in such pages as models have.
fn weights(ty: GgmlType, rows: usize) -> Box<dyn Region> {
    let values: Vec<f32> = (0..PANEL_ROWS * COLS)
        .map(|i| (i as f32 * 0.7).sin() * 0.1)
        .collect();
    let mut blocks = vec![0; panel_bytes(ty, COLS)];
    quantize(ty, &values, None, &mut blocks).expect("weights of ordinary size");
    let mut panel = vec![0; blocks.len()];
    pack_panel(ty, COLS, &blocks, &mut panel);
    let bytes = rows / PANEL_ROWS * panel.len();
    let mut region = HugePages::default().region(bytes).expect("there is memory");
    for place in region.chunks_exact_mut(panel.len()) {
        place.copy_from_slice(&panel);
    }
    region
}

fn activations(kernels: &Kernels, ty: GgmlType, tokens: usize) -> Vec<u8> {
    let format = act_format(ty);
    let x: Vec<f32> = (0..COLS)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0)
        .collect();
    let mut row = vec![0; format.row_bytes(COLS)];
    kernels.quantize_act(format, &x, &mut row);
    row.repeat(tokens)
}

struct Matmul {
    kernels: &'static Kernels,
    ty: GgmlType,
    rows: usize,
    tokens: usize,
    weights: Box<dyn Region>,
    acts: Vec<u8>,
    out: Vec<f32>,
}

impl Matmul {
    fn new(case: Case, rows: usize, tokens: usize) -> Self {
        let kernels = Kernels::for_isa(case.isa).expect("only those of this machine are listed");
        Self {
            kernels,
            ty: case.ty,
            rows,
            tokens,
            weights: weights(case.ty, rows),
            acts: activations(kernels, case.ty, tokens),
            out: vec![0.0; rows * tokens],
        }
    }

    fn run(&mut self) {
        let w = Panels::new(self.ty, self.rows, COLS, black_box(&self.weights));
        let x = ActRows::new(act_format(self.ty), COLS, &self.acts);
        let out = TileMut::from_slice(&mut self.out, self.tokens, self.rows);
        self.kernels.matmul(w, x, out);
        black_box(&self.out);
    }
}

/// One token: bytes of weights a second.
#[divan::bench(args = cases(), sample_count = 20, sample_size = 1)]
fn decode(bencher: Bencher<'_, '_>, case: Case) {
    let rows = DECODE_BYTES / panel_bytes(case.ty, COLS) * PANEL_ROWS;
    let mut matmul = Matmul::new(case, rows, 1);
    bencher
        .counter(BytesCount::new(matmul.weights.len()))
        .bench_local(|| matmul.run());
}

/// Many tokens: a multiplication and an addition are two operations.
#[divan::bench(args = cases(), sample_count = 20, sample_size = 1)]
fn prefill(bencher: Bencher<'_, '_>, case: Case) {
    let mut matmul = Matmul::new(case, PREFILL_ROWS, PREFILL_TOKENS);
    bencher
        .counter(ItemsCount::new(2 * PREFILL_ROWS * COLS * PREFILL_TOKENS))
        .bench_local(|| matmul.run());
}

#[derive(Copy, Clone)]
struct TileCase {
    tiles: Tiles,
    ty: GgmlType,
    tokens: usize,
}

impl fmt::Display for TileCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:3} {}", self.ty, self.tokens, self.tiles.name())
    }
}

/// Nothing but vectors where this machine has no tile unit.
fn tile_cases() -> Vec<TileCase> {
    let kernels = Kernels::for_isa(Isa::Avx512Vnni);
    let can = |tiles: &Tiles| kernels.is_some_and(|kernels| kernels.use_tiles(*tiles) == *tiles);
    let units = [Tiles::Off, Tiles::Amx].into_iter().filter(can);
    units
        .flat_map(|tiles| {
            TILE_TYPES.into_iter().flat_map(move |ty| {
                [16, 32, 64, 256, 512].map(|tokens| TileCase { tiles, ty, tokens })
            })
        })
        .collect()
}

/// Many tokens by vectors and on the tile unit.
#[divan::bench(args = tile_cases(), sample_count = 20, sample_size = 1)]
fn tiles(bencher: Bencher<'_, '_>, case: TileCase) {
    let isa = Isa::Avx512Vnni;
    let (ty, tokens) = (case.ty, case.tokens);
    let mut matmul = Matmul::new(Case { isa, ty }, PREFILL_ROWS, tokens);
    matmul.kernels.use_tiles(case.tiles);
    let tiles_from = 16;
    let choice = matmul.kernels.policy().get(ty);
    matmul.kernels.policy().set(
        ty,
        Choice {
            tiles_from,
            ..choice
        },
    );
    bencher
        .counter(ItemsCount::new(2 * PREFILL_ROWS * COLS * tokens))
        .bench_local(|| matmul.run());
    matmul.kernels.use_tiles(Tiles::Off);
}

/// The dot products alone: what prefill cannot exceed.
#[divan::bench(args = isas(), sample_count = 20, sample_size = 1)]
fn peak(bencher: Bencher<'_, '_>, isa: Isa) {
    let kernels = Kernels::for_isa(isa).expect("only those of this machine are listed");
    let operations = kernels.dot_peak(PEAK_ROUNDS);
    bencher
        .counter(ItemsCount::new(operations))
        .bench_local(|| kernels.dot_peak(black_box(PEAK_ROUNDS)));
}
