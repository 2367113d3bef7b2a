//! Q5_0: value = d · (q − 16), 32 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::bits::{gather_fifth_bits, map_word, scatter_fifth_bits};
use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x32;
use crate::lanes::{Dot, NARROW_LIMIT};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q5_0;

/// 16 rows' blocks. Bit g of byte c of `qh` belongs to column 4g + c.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    d: [u8; 32],
    qh: Line,
    qs: [Line; 4],
}

impl PanelType for Q5_0 {
    const TYPE: GgmlType = GgmlType::Q5_0;
    const FIELDS: &'static [Field] = &[field(2, 2), field(4, 4), field(16, 4)];
    type Panel = Panel;
    type Act = Q8x32;

    #[inline(always)]
    fn arrange(block: &mut [u8]) {
        map_word(block, 2, gather_fifth_bits);
    }

    #[inline(always)]
    fn restore(block: &mut [u8]) {
        map_word(block, 2, scatter_fifth_bits);
    }

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
            sums[t] = l.start(x[t].minus_sum(), 4);
        }
        dot_five_bits(l, ahead, part, (&w.qh, &w.qs), x, &mut sums);
        let d = l.load_f16(&w.d, part);
        for t in 0..T {
            let scale = l.mul_f(d, l.splat_f(x[t].d()));
            acc[t] = l.fma(scale, l.to_f(l.finish(sums[t])), acc[t]);
        }
    }
}

/// Adds the products of 32 columns of nibbles with a fifth bit.
#[inline(always)]
pub(super) fn dot_five_bits<L: Dot, const T: usize>(
    l: L,
    ahead: usize,
    part: usize,
    (qh, qs): (&Line, &[Line; 4]),
    x: &[&Q8x32; T],
    sums: &mut [L::Sum; T],
) {
    const { assert!(31 * 16 <= NARROW_LIMIT) };
    let (low, fifth) = (l.splat_bytes(15), l.splat_bytes(16));
    let qh = stream(l, ahead, qh, part);
    for k in 0..4 {
        let line = stream(l, ahead, &qs[k], part);
        let below = l.or(l.and(line, low), l.and(l.shl(qh, 4 - k as u32), fifth));
        let above = l.or(
            l.and(l.shr(line, 4), low),
            l.and(l.shr(qh, k as u32), fifth),
        );
        for t in 0..T {
            sums[t] = l.dot(sums[t], below, x[t].quad(k));
            sums[t] = l.dot(sums[t], above, x[t].quad(k + 4));
            if k == 1 {
                sums[t] = l.carry(sums[t]);
            }
        }
    }
}
