//! Q3_K: value = d · (scale − 32) · (q − 4), 16 groups of 16 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::bits::{edit, gather_crumbs, interleave, scatter_crumbs, separate, transpose_bits};
use super::q6_k::{add_pair, pair_of};
use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x256;
use crate::lanes::{Dot, NARROW_LIMIT};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q3_K;

/// 16 rows' blocks.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    pairs: [Pair; 8],
    scales: [Line; 3],
    d: [u8; 32],
}

/// Two groups of 16 columns of 16 rows. In `hmask` bit g of byte c belongs to column 4g + c of both; a line of `qs` is a
/// group, in which bits 2g and 2g + 1 of byte c belong to column 4g + c.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
struct Pair {
    hmask: Line,
    qs: [Line; 2],
}

impl PanelType for Q3_K {
    const TYPE: GgmlType = GgmlType::Q3_K;
    const FIELDS: &'static [Field] = &[field(96, 4), field(12, 4), field(2, 2)];
    type Panel = Panel;
    type Act = Q8x256;

    #[inline(always)]
    fn arrange(block: &mut [u8]) {
        edit(block, 0, transpose_bits);
        edit(block, 32, gather_crumbs);
        edit::<96>(block, 0, |bytes| interleave::<4, 8>(bytes, 8));
    }

    #[inline(always)]
    fn restore(block: &mut [u8]) {
        edit::<96>(block, 0, |bytes| separate::<4, 8>(bytes, 8));
        edit(block, 0, transpose_bits);
        edit(block, 32, scatter_crumbs);
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
        const { assert!(7 * 16 <= NARROW_LIMIT && 7 * 16 * 127 <= i16::MAX as usize) };
        let (low, third) = (l.splat_bytes(3), l.splat_bytes(4));
        let d = l.load_f16(&w.d, part);
        for quarter in 0..4 {
            let scales = group_scales(l, ahead, part, &w.scales, quarter);
            let mut tot = [l.splat(0); T];
            for byte in 0..4 {
                let s = 4 * quarter + byte;
                let scale = l.byte_i8(scales, byte);
                let qs = stream(l, ahead, &w.pairs[s / 2].qs[s % 2], part);
                let hmask = stream(l, ahead, &w.pairs[s / 2].hmask, part);
                let mut sums = [l.zero(); T];
                for g in 0..4 {
                    // The third bit is bit g of the first group, bit g + 4 of the second.
                    let upper = l.shift(hmask, 2 - (4 * (s % 2) + g) as i32);
                    let weights = l.or(l.and(l.shr(qs, 2 * g as u32), low), l.and(upper, third));
                    for t in 0..T {
                        sums[t] = l.dot(sums[t], weights, x[t].quad(4 * s + g));
                    }
                }
                for t in 0..T {
                    tot[t] = l.fold_small(tot[t], sums[t], scale);
                }
                if byte % 2 == 1 {
                    add_pair::<L, T, 2>(
                        l,
                        s / 2,
                        d,
                        pair_of(l, scales, byte / 2),
                        x,
                        &mut tot,
                        acc,
                    );
                }
            }
        }
    }
}

/// Four signed scales, a byte each.
#[inline(always)]
fn group_scales<L: Dot>(
    l: L,
    ahead: usize,
    part: usize,
    packed: &[Line; 3],
    quarter: usize,
) -> L::I {
    let (four, two) = (l.splat_bytes(15), l.splat_bytes(48));
    let low = stream(l, ahead, &packed[quarter % 2], part);
    let high = stream(l, ahead, &packed[2], part);
    let low = l.and(l.shr(low, 4 * (quarter as u32 / 2)), four);
    let high = l.and(l.shift(high, 4 - 2 * quarter as i32), two);
    l.sub8(l.or(low, high), l.splat_bytes(32))
}
