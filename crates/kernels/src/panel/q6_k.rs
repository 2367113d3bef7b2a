//! Q6_K: value = d · scale · (q − 32), 16 groups of 16 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::bits::{edit, gather_crumbs, scatter_crumbs, set_word, word};
use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x256;
use crate::lanes::{Dot, Lanes, NARROW_LIMIT};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q6_K;

/// 16 rows' blocks. Two lines of `ql` are a group: column i below, i + 8 above. A line of `qh` is a group: bits 2g and
/// 2g + 1 of byte c belong to column 4g + c.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    ql: [[Line; 2]; 16],
    qh: [Line; 16],
    scales: [Line; 4],
    d: [u8; 32],
}

impl PanelType for Q6_K {
    const TYPE: GgmlType = GgmlType::Q6_K;
    const FIELDS: &'static [Field] = &[field(128, 4), field(64, 4), field(16, 4), field(2, 2)];
    type Panel = Panel;
    type Act = Q8x256;

    #[inline(always)]
    fn arrange(block: &mut [u8]) {
        edit(block, 0, gather_groups);
        edit(block, 128, gather_crumbs);
    }

    #[inline(always)]
    fn restore(block: &mut [u8]) {
        edit(block, 0, scatter_groups);
        edit(block, 128, scatter_crumbs);
    }

    #[inline(always)]
    fn block<L: Dot, const T: usize>(
        l: L,
        part: usize,
        w: &Panel,
        x: &[&Q8x256; T],
        acc: &mut [L::F; T],
    ) {
        const { assert!(63 * 8 <= NARROW_LIMIT) };
        let (low, high) = (l.splat_bytes(15), l.splat_bytes(48));
        let mut tot = [l.splat(0); T];
        let mut offset = [l.splat(0); T];
        for quarter in 0..4 {
            let scales = stream::<L, T>(l, &w.scales[quarter], part);
            add_offsets(l, scales, quarter, x, &mut offset);
            for byte in 0..4 {
                let s = 4 * quarter + byte;
                let scale = l.byte_i8(scales, byte);
                let qh = stream::<L, T>(l, &w.qh[s], part);
                let mut sums = [l.start(0); T];
                for k in 0..2 {
                    let line = stream::<L, T>(l, &w.ql[s][k], part);
                    let below = l.or(l.and(line, low), l.and(l.shift(qh, 4 - 2 * k as i32), high));
                    let above = l.or(
                        l.and(l.shr(line, 4), low),
                        l.and(l.shift(qh, -2 * k as i32), high),
                    );
                    for t in 0..T {
                        sums[t] = l.dot(sums[t], below, x[t].quad(4 * s + k));
                        sums[t] = l.dot(sums[t], above, x[t].quad(4 * s + k + 2));
                        if k == 1 || L::NARROW {
                            tot[t] = l.fold(tot[t], sums[t], scale);
                            sums[t] = l.start(0);
                        }
                    }
                }
            }
        }
        let d = l.load_f16(&w.d, part);
        for t in 0..T {
            let tot = l.sub(tot[t], l.shl(offset[t], 5));
            acc[t] = l.fma(l.mul_f(d, l.splat_f(x[t].d())), l.to_f(tot), acc[t]);
        }
    }
}

/// Adds the products of four signed scales with the sums of their groups' activations: what an offset of 1 in all
/// weights is worth.
#[inline(always)]
pub(super) fn add_offsets<L: Lanes, const T: usize>(
    l: L,
    scales: L::I,
    quarter: usize,
    x: &[&Q8x256; T],
    offset: &mut [L::I; T],
) {
    let (even, odd) = (l.even_i8(scales), l.odd_i8(scales));
    for t in 0..T {
        offset[t] = l.dot_pairs(offset[t], even, x[t].sums16(2 * quarter));
        offset[t] = l.dot_pairs(offset[t], odd, x[t].sums16(2 * quarter + 1));
    }
}

/// For each half of 128 columns, 64 bytes with column i below and i + 64 above become 8 groups of 8 bytes, each of 16
/// neighbouring columns: i below and i + 8 above.
#[inline(always)]
fn gather_groups(ql: &mut [u8; 128]) {
    for half in ql.as_chunks_mut::<64>().0 {
        let words: [u32; 16] = core::array::from_fn(|k| word(half, k));
        for group in 0..8 {
            let (plane, first) = (group / 4 * 4, group % 4 * 4);
            for k in 0..2 {
                let below = words[first + k] >> plane & 0x0f0f_0f0f;
                let above = words[first + k + 2] >> plane & 0x0f0f_0f0f;
                set_word(half, 2 * group + k, below | above << 4);
            }
        }
    }
}

/// Undoes [`gather_groups`].
#[inline(always)]
fn scatter_groups(ql: &mut [u8; 128]) {
    for half in ql.as_chunks_mut::<64>().0 {
        let words: [u32; 16] = core::array::from_fn(|k| word(half, k));
        for k in 0..16 {
            let (group, at) = (k / 4, k % 4);
            let nibbles = |group: usize| words[2 * group + at % 2] >> (at / 2 * 4) & 0x0f0f_0f0f;
            set_word(half, k, nibbles(group) | nibbles(group + 4) << 4);
        }
    }
}
