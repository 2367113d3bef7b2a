//! Q4_1: value = d · q + m, 32 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::q4_0::dot_nibbles;
use super::{Field, Line, PanelType, field};
use crate::act::Q8x32;
use crate::lanes::Dot;

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q4_1;

/// 16 rows' blocks.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    d: [u8; 32],
    m: [u8; 32],
    qs: [Line; 4],
}

impl PanelType for Q4_1 {
    const TYPE: GgmlType = GgmlType::Q4_1;
    const FIELDS: &'static [Field] = &[field(2, 2), field(2, 2), field(16, 4)];
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
        dot_nibbles(l, ahead, part, &w.qs, x, &mut sums);
        add_with_minimum(l, part, (&w.d, &w.m), x, &sums, acc);
    }
}

/// Ends a block of value = d · q + m.
#[inline(always)]
pub(super) fn add_with_minimum<L: Dot, const T: usize>(
    l: L,
    part: usize,
    (d, m): (&[u8; 32], &[u8; 32]),
    x: &[&Q8x32; T],
    sums: &[L::Sum; T],
    acc: &mut [L::F; T],
) {
    let (d, m) = (l.load_f16(d, part), l.load_f16(m, part));
    for t in 0..T {
        let scale = l.mul_f(d, l.splat_f(x[t].d()));
        acc[t] = l.fma(scale, l.to_f(l.finish(sums[t])), acc[t]);
        acc[t] = l.fma(m, l.splat_f(x[t].scaled_sum()), acc[t]);
    }
}
