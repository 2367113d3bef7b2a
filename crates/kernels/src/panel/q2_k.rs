//! Q2_K: value = d · scale · q − dmin · min, 16 groups of 16 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::bits::{edit, gather_crumbs, interleave, scatter_crumbs, separate};
use super::q6_k::pair_of;
use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x256;
use crate::lanes::{Dot, NARROW_LIMIT};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q2_K;

/// 16 rows' blocks.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    quarters: [Quarter; 4],
    d: [u8; 32],
    dmin: [u8; 32],
}

/// 64 columns of 16 rows. A line of `qs` is a group, in which bits 2g and 2g + 1 of byte c belong to column 4g + c.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
struct Quarter {
    scales: Line,
    qs: [Line; 4],
}

impl PanelType for Q2_K {
    const TYPE: GgmlType = GgmlType::Q2_K;
    const FIELDS: &'static [Field] = &[field(80, 4), field(2, 2), field(2, 2)];
    type Panel = Panel;
    type Act = Q8x256;

    #[inline(always)]
    fn arrange(block: &mut [u8]) {
        edit(block, 16, gather_crumbs);
        edit::<80>(block, 0, |bytes| interleave::<4, 16>(bytes, 4));
    }

    #[inline(always)]
    fn restore(block: &mut [u8]) {
        edit::<80>(block, 0, |bytes| separate::<4, 16>(bytes, 4));
        edit(block, 16, scatter_crumbs);
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
        const { assert!(3 * 16 <= NARROW_LIMIT && 3 * 16 * 127 <= i16::MAX as usize) };
        let (two, four) = (l.splat_bytes(3), l.splat_bytes(15));
        let (d, dmin) = (l.load_f16(&w.d, part), l.load_f16(&w.dmin, part));
        for quarter in 0..4 {
            let both = stream(l, ahead, &w.quarters[quarter].scales, part);
            let scales = l.and(both, four);
            let mins = l.and(l.shr(both, 4), four);
            let mut tot = [l.splat(0); T];
            for byte in 0..4 {
                let s = 4 * quarter + byte;
                let scale = l.byte_u8(scales, byte);
                let qs = stream(l, ahead, &w.quarters[quarter].qs[byte], part);
                let mut sums = [l.zero(); T];
                for g in 0..4 {
                    let weights = l.and(l.shr(qs, 2 * g as u32), two);
                    for t in 0..T {
                        sums[t] = l.dot(sums[t], weights, x[t].quad(4 * s + g));
                    }
                }
                for t in 0..T {
                    tot[t] = l.fold_small(tot[t], sums[t], scale);
                }
                if byte % 2 == 1 {
                    let mins = pair_of(l, mins, byte / 2);
                    for t in 0..T {
                        let dx = l.splat_f(x[t].d(s / 2));
                        let min = l.dot_pairs(l.splat(0), mins, x[t].half_sums(s / 2));
                        acc[t] = l.fma(l.mul_f(d, dx), l.to_f(tot[t]), acc[t]);
                        acc[t] = l.fnma(l.mul_f(dmin, dx), l.to_f(min), acc[t]);
                        tot[t] = l.splat(0);
                    }
                }
            }
        }
    }
}
