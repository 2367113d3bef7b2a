//! Attention over stored keys and values: rows of one head, in f32, f16 or 8 bits.
//!
//! Every stored number is first an f32 (an 8-bit value times its f16 scale is exact), so the arithmetic is that of f32
//! rows: q · k in 16 lanes like every sum, and the values weighted in the order of the rows.

use strata_quant::F16;

use crate::lanes::{Dot, Lanes, MAX_PARTS, Op};
use crate::vector::padded;

/// How keys and values are stored.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum KvType {
    /// f32.
    F32,
    /// Half floats, rounded to the nearest.
    F16,
    /// Blocks of 32: an f16 scale and 8 bits each, as GGUF's Q8_0. Heads are whole blocks.
    Q8_0,
}

impl KvType {
    /// Bytes of a row of `head_dim` values.
    ///
    /// # Panics
    /// If `head_dim` is not whole blocks.
    pub const fn row_bytes(self, head_dim: usize) -> usize {
        match self {
            KvType::F32 => head_dim * 4,
            KvType::F16 => head_dim * 2,
            KvType::Q8_0 => {
                assert!(
                    head_dim.is_multiple_of(32),
                    "8-bit heads are whole blocks of 32"
                );
                head_dim / 32 * 34
            }
        }
    }
}

/// A stored format.
trait Stored {
    /// The c-th 16 numbers of a row; zeros past its end.
    fn load<L: Lanes>(l: L, row: &[u8], c: usize, part: usize) -> L::F;
}

struct StoredF32;
struct StoredF16;
struct StoredQ8;

/// The c-th N bytes, if the row has them all.
#[inline(always)]
fn chunk<const N: usize>(row: &[u8], c: usize) -> Option<&[u8; N]> {
    row[c * N..].first_chunk()
}

/// The bytes from the c-th N on, filled up with zeros.
#[inline(always)]
fn last_chunk<const N: usize>(row: &[u8], c: usize) -> [u8; N] {
    let (mut out, rest) = ([0; N], &row[c * N..]);
    out[..rest.len()].copy_from_slice(rest);
    out
}

impl Stored for StoredF32 {
    #[inline(always)]
    fn load<L: Lanes>(l: L, row: &[u8], c: usize, part: usize) -> L::F {
        l.of_bits(match chunk(row, c) {
            Some(line) => l.load(line, part),
            None => l.load(&last_chunk(row, c), part),
        })
    }
}

impl Stored for StoredF16 {
    #[inline(always)]
    fn load<L: Lanes>(l: L, row: &[u8], c: usize, part: usize) -> L::F {
        match chunk(row, c) {
            Some(halves) => l.load_f16(halves, part),
            None => l.load_f16(&last_chunk(row, c), part),
        }
    }
}

impl Stored for StoredQ8 {
    #[inline(always)]
    fn load<L: Lanes>(l: L, row: &[u8], c: usize, part: usize) -> L::F {
        let block: &[u8; 34] = &row.as_chunks().0[c / 2];
        let (d, q) = (&block[..2], &block[2..].as_chunks().0[c % 2]);
        // Software conversion: one a block, and the compiler keeps it for both halves.
        let d = l.splat_f(F16([d[0], d[1]]).to_f32());
        l.mul_f(d, l.to_f(l.load_i8(q, part)))
    }
}

/// The c-th 16 floats of a head; zeros past its end.
#[inline(always)]
fn load_head<L: Lanes>(l: L, head: &[f32], c: usize, part: usize) -> L::F {
    match head[c * 16..].first_chunk() {
        Some(chunk) => l.load_f(chunk, part),
        None => l.load_f(&padded(&head[c * 16..], 0.0), part),
    }
}

/// Stores one row.
pub(crate) struct Store<'a> {
    pub(crate) kind: KvType,
    pub(crate) x: &'a [f32],
    pub(crate) out: &'a mut [u8],
}

impl Op for Store<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        match self.kind {
            KvType::F32 => {
                for (out, x) in self.out.as_chunks_mut::<4>().0.iter_mut().zip(self.x) {
                    *out = x.to_le_bytes();
                }
            }
            KvType::F16 => {
                let (chunks, rest) = self.x.as_chunks();
                let (out, out_rest) = self.out.as_chunks_mut::<32>();
                for (x, out) in chunks.iter().zip(out) {
                    for part in 0..L::PARTS {
                        l.store_f16(l.load_f(x, part), out, part);
                    }
                }
                for (x, out) in rest.iter().zip(out_rest.as_chunks_mut().0) {
                    *out = F16::from_f32(*x).0;
                }
            }
            KvType::Q8_0 => {
                let blocks = self.out.as_chunks_mut::<34>().0;
                for (x, out) in self.x.as_chunks::<32>().0.iter().zip(blocks) {
                    store_q8(x, out);
                }
            }
        }
    }
}

/// Stores 32 values in 8 bits. The scale is rounded to f16 before the values are divided by it. A block with a number
/// that is not finite gets scale NaN.
#[inline(always)]
fn store_q8(x: &[f32; 32], out: &mut [u8; 34]) {
    let amax = x
        .iter()
        .fold(0, |max: u32, x| max.max(x.to_bits() & 0x7fff_ffff));
    let amax = f32::from_bits(amax);
    let (scale, q) = out.split_at_mut(2);
    if !amax.is_finite() {
        scale.copy_from_slice(&F16::from_bits(0x7e00).0);
        q.fill(0);
        return;
    }
    let d = F16::from_f32((amax / 127.0).min(F16::MAX));
    let inverse = if d.to_bits() == 0 {
        0.0
    } else {
        1.0 / d.to_f32()
    };
    scale.copy_from_slice(&d.0);
    for (q, x) in q.iter_mut().zip(x) {
        // Next to 1.5 · 2^23 the step of f32 is 1, so the addition rounds, ties to even.
        const ROUND: f32 = 12_582_912.0;
        let rounded = (x * inverse).clamp(-127.0, 127.0) + ROUND;
        *q = rounded.to_bits() as u8;
    }
}

/// The rows of one head, in one page.
#[derive(Copy, Clone)]
pub(crate) struct Rows<'a> {
    pub(crate) kind: KvType,
    pub(crate) bytes: &'a [u8],
    pub(crate) head_dim: usize,
    pub(crate) n: usize,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn row(self, j: usize) -> &'a [u8] {
        let size = self.kind.row_bytes(self.head_dim);
        &self.bytes[j * size..][..size]
    }
}

/// out[h][j] = scale · (q[h] · k[j]).
pub(crate) struct Scores<'a> {
    pub(crate) q: &'a [f32],
    pub(crate) k: Rows<'a>,
    pub(crate) scale: f32,
    pub(crate) out: &'a mut [f32],
}

impl Op for Scores<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        match self.k.kind {
            KvType::F32 => self.heads::<L, StoredF32>(l),
            KvType::F16 => self.heads::<L, StoredF16>(l),
            KvType::Q8_0 => self.heads::<L, StoredQ8>(l),
        }
    }
}

impl Scores<'_> {
    #[inline(always)]
    fn heads<L: Lanes, S: Stored>(mut self, l: L) {
        let heads = self.q.len() / self.k.head_dim;
        let mut h = 0;
        while h < heads {
            h += match heads - h {
                1 => self.tile::<L, S, 1>(l, h),
                2 | 3 => self.tile::<L, S, 2>(l, h),
                _ => self.tile::<L, S, 4>(l, h),
            };
        }
    }

    /// H heads from `first` on: each key is read once for all of them. Returns H.
    #[inline(always)]
    fn tile<L: Lanes, S: Stored, const H: usize>(&mut self, l: L, first: usize) -> usize {
        let (dim, n) = (self.k.head_dim, self.k.n);
        let q: [&[f32]; H] = core::array::from_fn(|h| &self.q[(first + h) * dim..][..dim]);
        for j in 0..n {
            let row = self.k.row(j);
            let mut lanes = [[l.splat_f(0.0); MAX_PARTS]; H];
            for c in 0..dim.div_ceil(16) {
                for part in 0..L::PARTS {
                    let k = S::load(l, row, c, part);
                    for h in 0..H {
                        lanes[h][part] = l.fma(load_head(l, q[h], c, part), k, lanes[h][part]);
                    }
                }
            }
            for h in 0..H {
                self.out[(first + h) * n + j] = self.scale * l.sum(&lanes[h]);
            }
        }
        H
    }
}

/// acc[h] += Σ p[h][j] · v[j], in the order of j.
pub(crate) struct Accumulate<'a> {
    pub(crate) p: &'a [f32],
    pub(crate) v: Rows<'a>,
    pub(crate) acc: &'a mut [f32],
}

impl Op for Accumulate<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        match self.v.kind {
            KvType::F32 => self.heads::<L, StoredF32>(l),
            KvType::F16 => self.heads::<L, StoredF16>(l),
            KvType::Q8_0 => self.heads::<L, StoredQ8>(l),
        }
    }
}

impl Accumulate<'_> {
    #[inline(always)]
    fn heads<L: Lanes, S: Stored>(mut self, l: L) {
        let heads = self.acc.len() / self.v.head_dim;
        let mut h = 0;
        while h < heads {
            h += match heads - h {
                1 => self.columns::<L, S, 1>(l, h),
                2 | 3 => self.columns::<L, S, 2>(l, h),
                _ => self.columns::<L, S, 4>(l, h),
            };
        }
    }

    /// H heads from `first` on, a few columns at a time, as many as the registers hold. Returns H.
    #[inline(always)]
    fn columns<L: Lanes, S: Stored, const H: usize>(&mut self, l: L, first: usize) -> usize {
        let chunks = self.v.head_dim.div_ceil(16);
        let mut c = 0;
        while c < chunks {
            c += match (chunks - c, L::PARTS) {
                (1, _) => self.tile::<L, S, H, 1>(l, first, c),
                (4.., 1) => self.tile::<L, S, H, 4>(l, first, c),
                _ => self.tile::<L, S, H, 2>(l, first, c),
            };
        }
        H
    }

    /// H heads from `first` on, C chunks of 16 columns from `column` on. Returns C.
    #[inline(always)]
    fn tile<L: Lanes, S: Stored, const H: usize, const C: usize>(
        &mut self,
        l: L,
        first: usize,
        column: usize,
    ) -> usize {
        let (dim, n) = (self.v.head_dim, self.v.n);
        let p: [&[f32]; H] = core::array::from_fn(|h| &self.p[(first + h) * n..][..n]);
        for part in 0..L::PARTS {
            let mut acc = [[l.splat_f(0.0); C]; H];
            for h in 0..H {
                for c in 0..C {
                    acc[h][c] =
                        load_head(l, &self.acc[(first + h) * dim..][..dim], column + c, part);
                }
            }
            for j in 0..n {
                let row = self.v.row(j);
                for c in 0..C {
                    let v = S::load(l, row, column + c, part);
                    for h in 0..H {
                        acc[h][c] = l.fma(l.splat_f(p[h][j]), v, acc[h][c]);
                    }
                }
            }
            for h in 0..H {
                for c in 0..C {
                    let head = &mut self.acc[(first + h) * dim..][..dim];
                    store_head(l, acc[h][c], head, column + c, part);
                }
            }
        }
        C
    }
}

/// Overwrites one part of the c-th 16 floats of a head, as far as there are any.
#[inline(always)]
fn store_head<L: Lanes>(l: L, a: L::F, head: &mut [f32], c: usize, part: usize) {
    match head[c * 16..].first_chunk_mut() {
        Some(chunk) => l.store_f(a, chunk, part),
        None => {
            let rest = &mut head[c * 16..];
            let mut chunk = padded(rest, 0.0);
            l.store_f(a, &mut chunk, part);
            rest.copy_from_slice(&chunk[..rest.len()]);
        }
    }
}
