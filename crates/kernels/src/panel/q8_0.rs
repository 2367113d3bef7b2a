//! Q8_0: value = d · q, 32 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x32;
use crate::lanes::Dot;
#[cfg(not(feature = "compact"))]
use crate::tile_unit::{TilePanel, WeightTile};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q8_0;

/// 16 rows' blocks.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    d: [u8; 32],
    qs: [Line; 8],
}

impl PanelType for Q8_0 {
    const TYPE: GgmlType = GgmlType::Q8_0;
    const FIELDS: &'static [Field] = &[field(2, 2), field(32, 4)];
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
        let mut sums = [l.splat(0); T];
        for t in 0..T {
            sums[t] = l.start_signed(x[t].minus_sum());
        }
        for k in 0..8 {
            let line = l.signed(stream(l, ahead, &w.qs[k], part));
            for t in 0..T {
                sums[t] = l.dot_signed(sums[t], line, x[t].quad(k));
            }
        }
        let d = l.load_f16(&w.d, part);
        for t in 0..T {
            acc[t] = l.fma(l.mul_f(d, l.splat_f(x[t].d())), l.to_f(sums[t]), acc[t]);
        }
    }
}

#[cfg(not(feature = "compact"))]
impl TilePanel for Q8_0 {
    #[inline(always)]
    fn unpack<L: Dot>(l: L, part: usize, w: &Panel, _: usize, out: &mut [WeightTile]) {
        for k in 0..8 {
            out[0].set(l, part, k, l.load(&w.qs[k], part));
        }
        l.store_f(l.load_f16(&w.d, part), &mut out[0].scale, part);
    }
}
