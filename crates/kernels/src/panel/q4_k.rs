//! Q4_K: value = d · scale · q − dmin · min, 8 groups of 32 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::bits::{edit, swap_nibbles};
use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x256;
use crate::lanes::{Dot, Lanes, NARROW_LIMIT};
#[cfg(not(feature = "compact"))]
use crate::tile_unit::{TilePanel, WeightTile};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q4_K;

/// 16 rows' blocks. Four lines of `qs` are a group: column i below, i + 16 above.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    d: [u8; 32],
    dmin: [u8; 32],
    scales: [Line; 3],
    qs: [[Line; 4]; 8],
}

impl PanelType for Q4_K {
    const TYPE: GgmlType = GgmlType::Q4_K;
    const FIELDS: &'static [Field] = &[field(2, 2), field(2, 2), field(12, 4), field(128, 4)];
    type Panel = Panel;
    type Act = Q8x256;

    #[inline(always)]
    fn arrange(block: &mut [u8]) {
        edit(block, 16, swap_nibbles);
    }

    #[inline(always)]
    fn restore(block: &mut [u8]) {
        edit(block, 16, swap_nibbles);
    }

    #[inline(always)]
    fn block<L: Dot, const T: usize>(
        l: L,
        ahead: usize,
        part: usize,
        w: &Panel,
        x: &[&Q8x256; T],
        acc: &mut [L::F; T],
    ) {
        const { assert!(15 * 32 <= NARROW_LIMIT) };
        let low = l.splat_bytes(15);
        let scales = Scales::load(l, ahead, part, (&w.d, &w.dmin), &w.scales);
        for s in 0..8 {
            let mut sums = [l.zero(); T];
            for k in 0..4 {
                let line = stream(l, ahead, &w.qs[s][k], part);
                let (below, above) = (l.and(line, low), l.and(l.shr(line, 4), low));
                for t in 0..T {
                    sums[t] = l.dot(sums[t], below, x[t].quad(8 * s + k));
                    sums[t] = l.dot(sums[t], above, x[t].quad(8 * s + k + 4));
                }
            }
            scales.add(l, s, &sums, x, acc);
        }
    }
}

#[cfg(not(feature = "compact"))]
impl TilePanel for Q4_K {
    const MINIMA: bool = true;

    #[inline(always)]
    fn unpack<L: Dot>(l: L, part: usize, w: &Panel, group: usize, out: &mut [WeightTile]) {
        let low = l.splat_bytes(15);
        for k in 0..4 {
            let line = l.load(&w.qs[group][k], part);
            out[0].set(l, part, k, l.and(line, low));
            out[0].set(l, part, k + 4, l.and(l.shr(line, 4), low));
        }
        Scales::load(l, 0, part, (&w.d, &w.dmin), &w.scales).unpack(l, part, group, &mut out[0]);
    }
}

/// The scales and the minima of a block of Q4_K or Q5_K.
pub(super) struct Scales<L: Lanes> {
    d: L::F,
    dmin: L::F,
    /// Of groups 0–3 and 4–7, a byte each.
    scales: [L::I; 2],
    mins: [L::I; 2],
}

impl<L: Dot> Scales<L> {
    #[inline(always)]
    pub(super) fn load(
        l: L,
        ahead: usize,
        part: usize,
        (d, dmin): (&[u8; 32], &[u8; 32]),
        lines: &[Line; 3],
    ) -> Self {
        let (six, four, two) = (l.splat_bytes(63), l.splat_bytes(15), l.splat_bytes(48));
        let scales = stream(l, ahead, &lines[0], part);
        let mins = stream(l, ahead, &lines[1], part);
        let both = stream(l, ahead, &lines[2], part);
        Self {
            d: l.load_f16(d, part),
            dmin: l.load_f16(dmin, part),
            scales: [
                l.and(scales, six),
                l.or(l.and(both, four), l.and(l.shr(scales, 2), two)),
            ],
            mins: [
                l.and(mins, six),
                l.or(l.and(l.shr(both, 4), four), l.and(l.shr(mins, 2), two)),
            ],
        }
    }

    /// The scale and the minimum of group `s`.
    #[inline(always)]
    fn group(&self, l: L, s: usize) -> (L::F, L::F) {
        (
            l.mul_f(self.d, l.to_f(l.byte_u8(self.scales[s / 4], s % 4))),
            l.mul_f(self.dmin, l.to_f(l.byte_u8(self.mins[s / 4], s % 4))),
        )
    }

    /// Writes those of group `s` beside its weights.
    #[cfg(not(feature = "compact"))]
    #[inline(always)]
    pub(super) fn unpack(&self, l: L, part: usize, s: usize, out: &mut WeightTile) {
        let (scale, min) = self.group(l, s);
        l.store_f(scale, &mut out.scale, part);
        l.store_f(min, &mut out.min, part);
    }

    /// Adds group `s`, whose products sum to `sums`.
    #[inline(always)]
    pub(super) fn add<const T: usize>(
        &self,
        l: L,
        s: usize,
        sums: &[L::Sum; T],
        x: &[&Q8x256; T],
        acc: &mut [L::F; T],
    ) {
        let (scale, min) = self.group(l, s);
        for t in 0..T {
            let scale = l.mul_f(scale, l.splat_f(x[t].d(s)));
            acc[t] = l.fma(scale, l.to_f(l.finish(sums[t])), acc[t]);
            acc[t] = l.fnma(min, l.splat_f(x[t].scaled_sum(s)), acc[t]);
        }
    }
}
