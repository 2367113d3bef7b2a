//! IQ4_NL: value = d · curve(q), 32 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;
use strata_quant::iq::IQ4_VALUES;

use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x32;
use crate::lanes::Dot;
#[cfg(not(feature = "compact"))]
use crate::tile_unit::{TilePanel, WeightTile};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct IQ4_NL;

/// 16 rows' blocks.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    d: [u8; 32],
    qs: [Line; 4],
}

impl PanelType for IQ4_NL {
    const TYPE: GgmlType = GgmlType::IQ4_NL;
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
        let sums = dot_codes(l, ahead, part, &IQ4_VALUES, &w.qs, x);
        let d = l.load_f16(&w.d, part);
        for t in 0..T {
            acc[t] = l.fma(l.mul_f(d, l.splat_f(x[t].d())), l.to_f(sums[t]), acc[t]);
        }
    }
}

#[cfg(not(feature = "compact"))]
impl TilePanel for IQ4_NL {
    #[inline(always)]
    fn unpack<L: Dot>(l: L, part: usize, w: &Panel, _: usize, out: &mut [WeightTile]) {
        unpack_codes(l, part, &IQ4_VALUES, &w.qs, &mut out[0]);
        l.store_f(l.load_f16(&w.d, part), &mut out[0].scale, part);
    }
}

/// The values of 32 columns of codes.
#[cfg(not(feature = "compact"))]
#[inline(always)]
pub(super) fn unpack_codes<L: Dot>(
    l: L,
    part: usize,
    table: &[i8; 16],
    qs: &[Line; 4],
    out: &mut WeightTile,
) {
    let low = l.splat_bytes(15);
    for k in 0..4 {
        let line = l.load(&qs[k], part);
        out.set(l, part, k, l.lut(table, l.and(line, low)));
        out.set(l, part, k + 4, l.lut(table, l.and(l.shr(line, 4), low)));
    }
}

/// The products of 32 columns of codes for the values of a table.
#[inline(always)]
pub(super) fn dot_codes<L: Dot, const T: usize>(
    l: L,
    ahead: usize,
    part: usize,
    table: &[i8; 16],
    qs: &[Line; 4],
    x: &[&Q8x32; T],
) -> [L::I; T] {
    let low = l.splat_bytes(15);
    let mut sums = [l.splat(0); T];
    for t in 0..T {
        sums[t] = l.start_signed(x[t].minus_sum());
    }
    for k in 0..4 {
        let line = stream(l, ahead, &qs[k], part);
        let below = l.signed_lut(table, l.and(line, low));
        let above = l.signed_lut(table, l.and(l.shr(line, 4), low));
        for t in 0..T {
            sums[t] = l.dot_signed(sums[t], below, x[t].quad(k));
            sums[t] = l.dot_signed(sums[t], above, x[t].quad(k + 4));
        }
    }
    sums
}
