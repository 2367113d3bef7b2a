//! Q2_K: value = d · scale · q − dmin · min, 16 groups of 16 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::bits::{edit, gather_crumbs, scatter_crumbs};
use super::q6_k::add_offsets;
use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x256;
use crate::lanes::{Dot, NARROW_LIMIT};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q2_K;

/// 16 rows' blocks. A line of `qs` is a group: bits 2g and 2g + 1 of byte c belong to column 4g + c.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    scales: [Line; 4],
    qs: [Line; 16],
    d: [u8; 32],
    dmin: [u8; 32],
}

impl PanelType for Q2_K {
    const TYPE: GgmlType = GgmlType::Q2_K;
    const FIELDS: &'static [Field] = &[field(16, 4), field(64, 4), field(2, 2), field(2, 2)];
    type Panel = Panel;
    type Act = Q8x256;

    #[inline(always)]
    fn arrange(block: &mut [u8]) {
        edit(block, 16, gather_crumbs);
    }

    #[inline(always)]
    fn restore(block: &mut [u8]) {
        edit(block, 16, scatter_crumbs);
    }

    #[inline(always)]
    fn block<L: Dot, const T: usize>(
        l: L,
        part: usize,
        w: &Panel,
        x: &[&Q8x256; T],
        acc: &mut [L::F; T],
    ) {
        const { assert!(3 * 16 <= NARROW_LIMIT && 3 * 16 * 127 <= i16::MAX as usize) };
        let (two, four) = (l.splat_bytes(3), l.splat_bytes(15));
        let mut tot = [l.splat(0); T];
        let mut mins = [l.splat(0); T];
        for quarter in 0..4 {
            let both = stream::<L, T>(l, &w.scales[quarter], part);
            let scales = l.and(both, four);
            add_offsets(l, l.and(l.shr(both, 4), four), quarter, x, &mut mins);
            for byte in 0..4 {
                let s = 4 * quarter + byte;
                let scale = l.byte_u8(scales, byte);
                let qs = stream::<L, T>(l, &w.qs[s], part);
                let mut sums = [l.start(0); T];
                for g in 0..4 {
                    let weights = l.and(l.shr(qs, 2 * g as u32), two);
                    for t in 0..T {
                        sums[t] = l.dot(sums[t], weights, x[t].quad(4 * s + g));
                    }
                }
                for t in 0..T {
                    tot[t] = l.fold_small(tot[t], sums[t], scale);
                }
            }
        }
        let (d, dmin) = (l.load_f16(&w.d, part), l.load_f16(&w.dmin, part));
        for t in 0..T {
            let dx = l.splat_f(x[t].d());
            acc[t] = l.fma(l.mul_f(d, dx), l.to_f(tot[t]), acc[t]);
            acc[t] = l.fnma(l.mul_f(dmin, dx), l.to_f(mins[t]), acc[t]);
        }
    }
}
