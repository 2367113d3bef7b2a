//! Q4_0: value = d · (q − 8), 32 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x32;
use crate::lanes::{Dot, NARROW_LIMIT};
#[cfg(not(feature = "compact"))]
use crate::tile_unit::{TilePanel, WeightTile};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q4_0;

/// 16 rows' blocks.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    d: [u8; 32],
    qs: [Line; 4],
}

impl PanelType for Q4_0 {
    const TYPE: GgmlType = GgmlType::Q4_0;
    const FIELDS: &'static [Field] = &[field(2, 2), field(16, 4)];
    type Panel = Panel;
    type Act = Q8x32;

    #[inline(always)]
    fn block<L: Dot, const T: usize>(
        l: L,
        ahead: usize,
        part: usize,
        w: &Panel,
        x: &[&Q8x32; T],
        acc: &mut [L::F; T],
    ) {
        let mut sums = [l.zero(); T];
        for t in 0..T {
            sums[t] = l.start(x[t].minus_sum(), 3);
        }
        dot_nibbles(l, ahead, part, &w.qs, x, &mut sums);
        let d = l.load_f16(&w.d, part);
        for t in 0..T {
            let scale = l.mul_f(d, l.splat_f(x[t].d()));
            acc[t] = l.fma(scale, l.to_f(l.finish(sums[t])), acc[t]);
        }
    }
}

#[cfg(not(feature = "compact"))]
impl TilePanel for Q4_0 {
    #[inline(always)]
    fn unpack<L: Dot>(l: L, part: usize, w: &Panel, _: usize, out: &mut [WeightTile]) {
        let (low, eight) = (l.splat_bytes(15), l.splat_bytes(8));
        for k in 0..4 {
            let line = l.load(&w.qs[k], part);
            out[0].set(l, part, k, l.sub8(l.and(line, low), eight));
            out[0].set(l, part, k + 4, l.sub8(l.and(l.shr(line, 4), low), eight));
        }
        l.store_f(l.load_f16(&w.d, part), &mut out[0].scale, part);
    }
}

/// Adds the products of 32 columns of nibbles.
#[inline(always)]
pub(super) fn dot_nibbles<L: Dot, const T: usize>(
    l: L,
    ahead: usize,
    part: usize,
    qs: &[Line; 4],
    x: &[&Q8x32; T],
    sums: &mut [L::Sum; T],
) {
    const { assert!(15 * 32 <= NARROW_LIMIT) };
    let low = l.splat_bytes(15);
    for k in 0..4 {
        let line = stream(l, ahead, &qs[k], part);
        let (below, above) = (l.and(line, low), l.and(l.shr(line, 4), low));
        for t in 0..T {
            sums[t] = l.dot(sums[t], below, x[t].quad(k));
            sums[t] = l.dot(sums[t], above, x[t].quad(k + 4));
        }
    }
}
