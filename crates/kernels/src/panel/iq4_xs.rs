//! IQ4_XS: value = d · (scale − 32) · curve(q), 8 groups of 32 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;
use strata_quant::iq::IQ4_VALUES;

#[cfg(not(feature = "compact"))]
use super::iq4_nl::unpack_codes;
use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x256;
use crate::lanes::Dot;
#[cfg(not(feature = "compact"))]
use crate::tile_unit::{TilePanel, WeightTile};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct IQ4_XS;

/// 16 rows' blocks.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    d: [u8; 32],
    scales_h: [u8; 32],
    scales_l: Line,
    qs: [[Line; 4]; 8],
}

impl PanelType for IQ4_XS {
    const TYPE: GgmlType = GgmlType::IQ4_XS;
    const FIELDS: &'static [Field] = &[field(2, 2), field(2, 2), field(4, 4), field(128, 4)];
    type Panel = Panel;
    type Act = Q8x256;

    #[inline(always)]
    fn block<L: Dot, const T: usize>(
        l: L,
        ahead: usize,
        part: usize,
        w: &Panel,
        x: &[&Q8x256; T],
        acc: &mut [L::F; T],
    ) {
        let low = l.splat_bytes(15);
        let scales_h = l.shl(l.load_u16(&w.scales_h, part), 4);
        let scales_l = stream(l, ahead, &w.scales_l, part);
        let d = l.load_f16(&w.d, part);
        for s in 0..8 {
            let mut sums = [l.splat(0); T];
            for t in 0..T {
                sums[t] = l.start_signed(x[t].minus_sum(s));
            }
            for k in 0..4 {
                let line = stream(l, ahead, &w.qs[s][k], part);
                let below = l.signed_lut(&IQ4_VALUES, l.and(line, low));
                let above = l.signed_lut(&IQ4_VALUES, l.and(l.shr(line, 4), low));
                for t in 0..T {
                    sums[t] = l.dot_signed(sums[t], below, x[t].quad(8 * s + k));
                    sums[t] = l.dot_signed(sums[t], above, x[t].quad(8 * s + k + 4));
                }
            }
            let scale = scale_of(l, d, (scales_l, scales_h), s);
            for t in 0..T {
                let scale = l.mul_f(scale, l.splat_f(x[t].d(s)));
                acc[t] = l.fma(scale, l.to_f(sums[t]), acc[t]);
            }
        }
    }
}

/// The scale of group `s`, given the lower and the upper bits of all of them.
#[inline(always)]
fn scale_of<L: Dot>(l: L, d: L::F, (lower, upper): (L::I, L::I), s: usize) -> L::F {
    let scale = l.or(
        l.and(l.shr(lower, 4 * s as u32), l.splat(15)),
        l.and(l.shr(upper, 2 * s as u32), l.splat(48)),
    );
    l.mul_f(d, l.to_f(l.sub(scale, l.splat(32))))
}

#[cfg(not(feature = "compact"))]
impl TilePanel for IQ4_XS {
    #[inline(always)]
    fn unpack<L: Dot>(l: L, part: usize, w: &Panel, group: usize, out: &mut [WeightTile]) {
        unpack_codes(l, part, &IQ4_VALUES, &w.qs[group], &mut out[0]);
        let upper = l.shl(l.load_u16(&w.scales_h, part), 4);
        let scales = (l.load(&w.scales_l, part), upper);
        let scale = scale_of(l, l.load_f16(&w.d, part), scales, group);
        l.store_f(scale, &mut out[0].scale, part);
    }
}
