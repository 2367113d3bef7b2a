//! MXFP4: value = 2^(e − 128) · doubled E2M1 value, 32 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;
use strata_quant::fp4::E2M1_DOUBLED;

use super::iq4_nl::dot_codes;
#[cfg(not(feature = "compact"))]
use super::iq4_nl::unpack_codes;
use super::{Field, Line, PanelType, field};
use crate::act::Q8x32;
use crate::lanes::{Dot, Lanes};
#[cfg(not(feature = "compact"))]
use crate::tile_unit::{TilePanel, WeightTile};

/// Marks the type.
pub(crate) struct MXFP4;

/// 16 rows' blocks.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    e: [u8; 16],
    qs: [Line; 4],
}

impl PanelType for MXFP4 {
    const TYPE: GgmlType = GgmlType::MXFP4;
    const FIELDS: &'static [Field] = &[field(1, 1), field(16, 4)];
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
        let sums = dot_codes(l, ahead, part, &E2M1_DOUBLED, &w.qs, x);
        let d = half_scale(l, l.load_u8(&w.e, part));
        for t in 0..T {
            acc[t] = l.fma(l.mul_f(d, l.splat_f(x[t].d())), l.to_f(sums[t]), acc[t]);
        }
    }
}

/// 2^(e − 128). The exponents 0 and 1 give subnormal numbers, of one bit each, that lie on the line (e + 1) · 2^21;
/// above them the bits of a normal number are greater than that line.
#[inline(always)]
fn half_scale<L: Lanes>(l: L, e: L::I) -> L::F {
    let one = l.splat(1);
    l.of_bits(l.max_i(l.shl(l.sub(e, one), 23), l.shl(l.add(e, one), 21)))
}

#[cfg(not(feature = "compact"))]
impl TilePanel for MXFP4 {
    #[inline(always)]
    fn unpack<L: Dot>(l: L, part: usize, w: &Panel, _: usize, out: &mut [WeightTile]) {
        unpack_codes(l, part, &E2M1_DOUBLED, &w.qs, &mut out[0]);
        let scale = half_scale(l, l.load_u8(&w.e, part));
        l.store_f(scale, &mut out[0].scale, part);
    }
}
