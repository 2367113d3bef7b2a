//! Activations: the right-hand sides of matmuls, as f32 or quantized to 8 bits in blocks.
//!
//! A block's scale is its greatest magnitude / 127; values are rounded to the nearest, ties to even. A block with a
//! number in it that is not finite has scale NaN and zeros, so that all it touches becomes NaN and nobody mistakes it
//! for a result. A block too small to scale is zero.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use crate::lanes::{Dot, Lanes, MAX_PARTS, Op};
use crate::tile::TileMut;

/// How a row of activations is stored.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum ActFormat {
    /// f32, for float weights.
    F32,
    /// 8 bits, a scale for each 32 values.
    Q8x32,
    /// The same, for weights in blocks of 256.
    Q8x256,
}

/// The activations that weights of type `ty` are multiplied with.
pub const fn act_format(ty: GgmlType) -> ActFormat {
    use GgmlType as G;
    match ty {
        G::Q4_0 | G::Q4_1 | G::Q5_0 | G::Q5_1 | G::Q8_0 | G::IQ4_NL | G::MXFP4 => ActFormat::Q8x32,
        G::Q2_K | G::Q3_K | G::Q4_K | G::Q5_K | G::Q6_K | G::IQ4_XS => ActFormat::Q8x256,
        _ => ActFormat::F32,
    }
}

impl ActFormat {
    /// Values in a block; rows are whole blocks.
    pub const fn block_len(self) -> usize {
        match self {
            ActFormat::F32 => 1,
            ActFormat::Q8x32 => 32,
            ActFormat::Q8x256 => 256,
        }
    }

    const fn block_bytes(self) -> usize {
        match self {
            ActFormat::F32 => 4,
            ActFormat::Q8x32 => size_of::<Q8x32>(),
            ActFormat::Q8x256 => size_of::<Q8x256>(),
        }
    }

    /// Bytes of a row of `cols` values: a multiple of 64, so that rows in one buffer start on cache lines.
    pub const fn row_bytes(self, cols: usize) -> usize {
        assert!(
            cols.is_multiple_of(self.block_len()),
            "a row of activations is whole blocks"
        );
        (cols / self.block_len() * self.block_bytes()).next_multiple_of(64)
    }
}

/// 32 activations.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q8x32 {
    /// Value = d · q; four columns together, as the dot products take them.
    q: [[u8; 4]; 8],
    d: [u8; 4],
    /// −Σq.
    minus_sum: [u8; 4],
    /// d · Σq.
    scaled_sum: [u8; 4],
}

/// 256 activations: 8 groups of 32, each with a scale of its own.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Q8x256 {
    q: [[u8; 4]; 64],
    d: [[u8; 4]; 8],
    /// d · Σq.
    scaled_sums: [[u8; 4]; 8],
    /// The sums of a group's two halves, a pair of i16.
    half_sums: [[u8; 4]; 8],
}

impl Q8x32 {
    /// Columns 4k to 4k+3.
    #[inline(always)]
    pub(crate) fn quad(&self, k: usize) -> i32 {
        i32::from_ne_bytes(self.q[k])
    }
    #[inline(always)]
    pub(crate) fn d(&self) -> f32 {
        f32::from_ne_bytes(self.d)
    }
    /// −Σq.
    #[inline(always)]
    pub(crate) fn minus_sum(&self) -> i32 {
        i32::from_ne_bytes(self.minus_sum)
    }
    /// d · Σq.
    #[inline(always)]
    pub(crate) fn scaled_sum(&self) -> f32 {
        f32::from_ne_bytes(self.scaled_sum)
    }
}

impl Q8x256 {
    /// Columns 4k to 4k+3.
    #[inline(always)]
    pub(crate) fn quad(&self, k: usize) -> i32 {
        i32::from_ne_bytes(self.q[k])
    }
    /// The scale of group `g`.
    #[inline(always)]
    pub(crate) fn d(&self, g: usize) -> f32 {
        f32::from_ne_bytes(self.d[g])
    }
    /// d · Σq of group `g`.
    #[inline(always)]
    pub(crate) fn scaled_sum(&self, g: usize) -> f32 {
        f32::from_ne_bytes(self.scaled_sums[g])
    }
    /// The sums of the two halves of group `g`, a pair of i16.
    #[inline(always)]
    pub(crate) fn half_sums(&self, g: usize) -> i32 {
        i32::from_ne_bytes(self.half_sums[g])
    }
    /// −Σq of group `g`.
    #[inline(always)]
    pub(crate) fn minus_sum(&self, g: usize) -> i32 {
        let pair = self.half_sums(g);
        -((pair << 16 >> 16) + (pair >> 16))
    }
}

/// Rows of activations in one format.
#[derive(Copy, Clone)]
pub struct ActRows<'a> {
    format: ActFormat,
    cols: usize,
    bytes: &'a [u8],
}

impl<'a> ActRows<'a> {
    /// Rows of `cols` values that [`crate::Kernels::quantize_act`] has filled.
    ///
    /// # Panics
    /// If `bytes` is not whole rows.
    pub fn new(format: ActFormat, cols: usize, bytes: &'a [u8]) -> Self {
        let row = format.row_bytes(cols);
        assert!(
            row > 0 && bytes.len().is_multiple_of(row),
            "activations are whole rows"
        );
        Self {
            format,
            cols,
            bytes,
        }
    }

    /// How they are stored.
    pub const fn format(&self) -> ActFormat {
        self.format
    }

    /// Values in a row.
    pub const fn cols(&self) -> usize {
        self.cols
    }

    /// Rows: one a token.
    pub const fn tokens(&self) -> usize {
        self.bytes.len() / self.format.row_bytes(self.cols)
    }

    /// The bytes from row `t` on, and those from one row to the next.
    #[cfg(not(feature = "compact"))]
    #[inline(always)]
    pub(crate) fn row_on(&self, t: usize) -> (&'a [u8], usize) {
        let row = self.format.row_bytes(self.cols);
        (&self.bytes[t * row..], row)
    }

    /// The blocks of row `t`.
    #[inline(always)]
    pub(crate) fn blocks<B: Pod>(&self, t: usize) -> &'a [B] {
        let row = self.format.row_bytes(self.cols);
        let used = self.cols / self.format.block_len() * size_of::<B>();
        bytemuck::cast_slice(&self.bytes[t * row..][..used])
    }
}

/// A place for rows of activations in one format, which workers fill a run of blocks at a time.
pub struct ActRowsMut<'a> {
    format: ActFormat,
    cols: usize,
    bytes: TileMut<'a, u8>,
}

impl<'a> ActRowsMut<'a> {
    /// Room for rows of `cols` values.
    ///
    /// # Panics
    /// If `bytes` is not whole rows.
    pub fn new(format: ActFormat, cols: usize, bytes: &'a mut [u8]) -> Self {
        let row = format.row_bytes(cols);
        assert!(
            row > 0 && bytes.len().is_multiple_of(row),
            "activations are whole rows"
        );
        let tokens = bytes.len() / row;
        Self {
            format,
            cols,
            bytes: TileMut::from_slice(bytes, tokens, row),
        }
    }

    /// How they are stored.
    pub const fn format(&self) -> ActFormat {
        self.format
    }

    /// Values in a row.
    pub const fn cols(&self) -> usize {
        self.cols
    }

    /// Rows: one a token.
    pub const fn tokens(&self) -> usize {
        self.bytes.tokens()
    }

    /// The bytes of `cols` values of every token from `start` on.
    ///
    /// # Panics
    /// If there are not so many, or they are not whole blocks.
    ///
    /// # Safety
    /// Until the view is gone, nothing else reads or writes those values.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn share_cols(&self, start: usize, cols: usize) -> TileMut<'_, u8> {
        let (len, size) = (self.format.block_len(), self.format.block_bytes());
        assert!(
            start.is_multiple_of(len) && cols.is_multiple_of(len) && start + cols <= self.cols,
            "a run of blocks"
        );
        // SAFETY: the caller's promise, in bytes.
        unsafe { self.bytes.share_rows(start / len * size, cols / len * size) }
    }
}

/// Stores one row.
pub(crate) struct Quantize<'a> {
    pub(crate) format: ActFormat,
    pub(crate) x: &'a [f32],
    pub(crate) out: &'a mut [u8],
}

impl Op for Quantize<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        match self.format {
            ActFormat::F32 => {
                for (out, x) in self.out.as_chunks_mut::<4>().0.iter_mut().zip(self.x) {
                    *out = x.to_ne_bytes();
                }
            }
            ActFormat::Q8x32 => {
                let size = size_of::<Q8x32>();
                for (out, x) in self
                    .out
                    .chunks_exact_mut(size)
                    .zip(self.x.as_chunks::<32>().0)
                {
                    let out: &mut Q8x32 = bytemuck::from_bytes_mut(out);
                    let (d, sums) = quantize_block::<L, 2>(
                        l,
                        x.as_chunks().0,
                        bytemuck::cast_slice_mut(&mut out.q),
                    );
                    out.d = d.to_ne_bytes();
                    let sum = i32::from(sums[0]) + i32::from(sums[1]);
                    out.minus_sum = (-sum).to_ne_bytes();
                    out.scaled_sum = (d * sum as f32).to_ne_bytes();
                }
            }
            ActFormat::Q8x256 => {
                let size = size_of::<Q8x256>();
                for (out, x) in self
                    .out
                    .chunks_exact_mut(size)
                    .zip(self.x.as_chunks::<256>().0)
                {
                    let out: &mut Q8x256 = bytemuck::from_bytes_mut(out);
                    let values = out.q.as_chunks_mut::<8>().0.iter_mut();
                    for (g, (q, x)) in values.zip(x.as_chunks::<32>().0).enumerate() {
                        let (d, sums) =
                            quantize_block::<L, 2>(l, x.as_chunks().0, bytemuck::cast_slice_mut(q));
                        let sum = i32::from(sums[0]) + i32::from(sums[1]);
                        out.d[g] = d.to_ne_bytes();
                        out.scaled_sums[g] = (d * sum as f32).to_ne_bytes();
                        out.half_sums[g] = bytemuck::cast(sums);
                    }
                }
            }
        }
    }
}

/// Stores 16 · N values; returns the scale and the sums of each 16.
#[inline(always)]
fn quantize_block<L: Lanes, const N: usize>(
    l: L,
    x: &[[f32; 16]],
    q: &mut [[i8; 16]],
) -> (f32, [i16; N]) {
    let mut sums = [0; N];
    let amax = magnitude(l, x);
    let id = 127.0 / amax;
    // NaN and infinity on one side; zero, and what is too small for its inverse to exist, on the other.
    if !amax.is_finite() || id == f32::INFINITY {
        q.fill([0; 16]);
        return (if amax.is_finite() { 0.0 } else { f32::NAN }, sums);
    }
    let id = l.splat_f(id);
    for ((x, q), sum) in x.iter().zip(q).zip(&mut sums) {
        for part in 0..L::PARTS {
            l.store_i8(l.round(l.mul_f(l.load_f(x, part), id)), q, part);
        }
        *sum = q.iter().map(|&q| i16::from(q)).sum();
    }
    (amax / 127.0, sums)
}

/// The greatest magnitude; NaN counts as greater than all numbers.
#[inline(always)]
fn magnitude<L: Lanes>(l: L, x: &[[f32; 16]]) -> f32 {
    let unsigned = l.splat(0x7fff_ffff);
    let mut max = [l.splat(0); MAX_PARTS];
    for x in x {
        for part in 0..L::PARTS {
            // As integers, magnitudes compare as the floats do, with NaN on top: no order of the lanes can change that.
            max[part] = l.max_i(max[part], l.and(l.bits(l.load_f(x, part)), unsigned));
        }
    }
    let mut lanes = [0.0; 16];
    for part in 0..L::PARTS {
        l.store_f(l.of_bits(max[part]), &mut lanes, part);
    }
    f32::from_bits(lanes.iter().fold(0, |max, x| max.max(x.to_bits())))
}
