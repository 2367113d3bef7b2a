//! Q5_1: value = d · q + m, 32 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::bits::{gather_fifth_bits, map_word, scatter_fifth_bits};
use super::q4_1::add_with_minimum;
use super::q5_0::dot_five_bits;
use super::{Field, Line, PanelType, field};
use crate::act::Q8x32;
use crate::lanes::Dot;

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q5_1;

/// 16 rows' blocks. Bit g of byte c of `qh` belongs to column 4g + c.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    d: [u8; 32],
    m: [u8; 32],
    qh: Line,
    qs: [Line; 4],
}

impl PanelType for Q5_1 {
    const TYPE: GgmlType = GgmlType::Q5_1;
    const FIELDS: &'static [Field] = &[field(2, 2), field(2, 2), field(4, 4), field(16, 4)];
    type Panel = Panel;
    type Act = Q8x32;

    #[inline(always)]
    fn arrange(block: &mut [u8]) {
        map_word(block, 4, gather_fifth_bits);
    }

    #[inline(always)]
    fn restore(block: &mut [u8]) {
        map_word(block, 4, scatter_fifth_bits);
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
        dot_five_bits(l, ahead, part, (&w.qh, &w.qs), x, &mut sums);
        add_with_minimum(l, part, (&w.d, &w.m), x, &sums, acc);
    }
}
