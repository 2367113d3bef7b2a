//! The formats of stored rows, in units of 32 numbers.

use bytemuck::{Pod, Zeroable};
use strata_quant::F16;

use super::KvType;
use crate::lanes::{Dot, Lanes, Op};

/// 32 stored numbers.
pub(super) trait Unit: Pod {
    /// The first (0) or second (1) 16 of them.
    fn load<L: Lanes>(&self, l: L, half: usize, part: usize) -> L::F;
}

/// 32 f32.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct UnitF32([[u8; 64]; 2]);

/// 32 half floats.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct UnitF16([[u8; 32]; 2]);

/// 32 values in 8 bits, and their scale.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(super) struct UnitQ8 {
    d: [u8; 2],
    q: [[u8; 16]; 2],
}

impl Unit for UnitF32 {
    #[inline(always)]
    fn load<L: Lanes>(&self, l: L, half: usize, part: usize) -> L::F {
        l.of_bits(l.load(&self.0[half], part))
    }
}

impl Unit for UnitF16 {
    #[inline(always)]
    fn load<L: Lanes>(&self, l: L, half: usize, part: usize) -> L::F {
        l.load_f16(&self.0[half], part)
    }
}

impl Unit for UnitQ8 {
    #[inline(always)]
    fn load<L: Lanes>(&self, l: L, half: usize, part: usize) -> L::F {
        let q = l.to_f(l.load_i8(&self.q[half], part));
        l.mul_f(l.splat_f16(self.d), q)
    }
}

/// Whole units of a row.
#[inline(always)]
pub(super) fn units<U: Unit>(row: &[u8]) -> &[U] {
    let whole = row.len() / size_of::<U>() * size_of::<U>();
    bytemuck::cast_slice(&row[..whole])
}

/// What is left of a row after its whole units, filled up with zeros.
#[inline(always)]
pub(super) fn last_unit<U: Unit>(row: &[u8]) -> U {
    let rest = &row[row.len() / size_of::<U>() * size_of::<U>()..];
    let mut unit = U::zeroed();
    bytemuck::bytes_of_mut(&mut unit)[..rest.len()].copy_from_slice(rest);
    unit
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
