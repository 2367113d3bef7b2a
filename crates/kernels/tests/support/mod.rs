//! What the tests share: random numbers and blocks, and which instruction sets to compare.
#![allow(dead_code)]

use strata_kernels::{ActFormat, Isa, Kernels, PANEL_ROWS, pack_panel, packed_bytes, panel_bytes};
use strata_quant::GgmlType;

/// A small generator; the same numbers on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    /// −1 to 1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub(crate) fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

pub(crate) fn scalar() -> &'static Kernels {
    Kernels::for_isa(Isa::Scalar).expect("plain Rust runs everywhere")
}

/// Every instruction set but the reference that this machine has.
pub(crate) fn others() -> Vec<&'static Kernels> {
    let all: Vec<_> = Isa::ALL
        .iter()
        .filter(|&&isa| isa != Isa::Scalar)
        .filter_map(|&isa| Kernels::for_isa(isa))
        .collect();
    if all.is_empty() {
        eprintln!("skipped: this processor has no instruction set to compare with scalar");
    }
    all
}

/// Where the float scales lie in a block, in bytes, as f16.
pub(crate) fn scale_places(ty: GgmlType) -> &'static [usize] {
    match ty {
        GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::Q8_0 | GgmlType::IQ4_NL | GgmlType::IQ4_XS => {
            &[0]
        }
        GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => &[0, 2],
        GgmlType::Q2_K => &[80, 82],
        GgmlType::Q3_K => &[108],
        GgmlType::Q6_K => &[208],
        GgmlType::IQ1_S | GgmlType::IQ2_XXS | GgmlType::IQ2_XS | GgmlType::IQ2_S => &[0],
        GgmlType::IQ3_XXS | GgmlType::IQ3_S => &[0],
        GgmlType::TQ1_0 => &[52],
        GgmlType::TQ2_0 => &[64],
        _ => &[],
    }
}

/// Random rows with scales of ordinary size.
pub(crate) fn sane_rows(random: &mut Random, ty: GgmlType, rows: usize, cols: usize) -> Vec<u8> {
    let blocks = rows * cols / ty.block_len();
    let mut out = random.bytes(blocks * ty.block_bytes());
    for block in out.chunks_exact_mut(ty.block_bytes()) {
        for &at in scale_places(ty) {
            // Exponents of 2^-8 to 2^-5 and any sign.
            let half = (random.next() as u16 & 0x83ff) | (7 + random.below(4) as u16) << 10;
            block[at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        let value = random.unit();
        match ty {
            // The upper nibbles of the last four words are the scale; this is the top of its exponent.
            GgmlType::IQ1_M => block[55] = block[55] & 15 | 0x10,
            GgmlType::F64 => block.copy_from_slice(&f64::from(value).to_le_bytes()),
            GgmlType::MXFP4 => block[0] = 118 + random.below(8) as u8,
            GgmlType::NVFP4 => block[..4].iter_mut().for_each(|d| *d = 0x20 + (*d & 15)),
            GgmlType::F32 => block.copy_from_slice(&value.to_le_bytes()),
            GgmlType::F16 => block.copy_from_slice(&strata_quant::F16::from_f32(value).0),
            GgmlType::BF16 => block.copy_from_slice(&strata_quant::BF16::from_f32(value).0),
            _ => {}
        }
    }
    out
}

/// A matrix as `Panels` takes it.
pub(crate) fn pack(ty: GgmlType, rows: usize, cols: usize, bytes: &[u8]) -> Vec<u8> {
    if !strata_kernels::is_packed(ty) {
        return bytes.to_vec();
    }
    let mut out = vec![0xee; packed_bytes(ty, rows, cols)];
    let row = cols / ty.block_len() * ty.block_bytes();
    for (panel, rows) in out
        .chunks_exact_mut(panel_bytes(ty, cols))
        .zip(bytes.chunks(PANEL_ROWS * row))
    {
        pack_panel(ty, cols, rows, panel);
    }
    out
}

/// Rows of activations as `ActRows` takes them.
pub(crate) fn quantize(kernels: &Kernels, format: ActFormat, cols: usize, x: &[f32]) -> Vec<u8> {
    let size = format.row_bytes(cols);
    let mut out = vec![0; x.len() / cols * size];
    for (x, out) in x.chunks_exact(cols).zip(out.chunks_exact_mut(size)) {
        kernels.quantize_act(format, x, out);
    }
    out
}

/// The same bits, or both NaN.
pub(crate) fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

#[track_caller]
pub(crate) fn assert_same(got: &[f32], expected: &[f32], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        assert!(
            same(got, expected),
            "{what}: element {i} is {got:e}, expected {expected:e}"
        );
    }
}
