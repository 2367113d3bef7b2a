//! Q4_K: value = d · scale · q − dmin · min, 8 groups of 32 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::bits::{edit, swap_nibbles};
use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x256;
use crate::lanes::{Dot, Lanes, NARROW_LIMIT};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q4_K;

/// 16 rows' blocks. Four lines of `qs` are a group: column i below, i + 16 above.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    d: [u8; 32],
    dmin: [u8; 32],
    scales: [Line; 3],
    qs: [[Line; 4]; 8],
}

impl PanelType for Q4_K {
    const TYPE: GgmlType = GgmlType::Q4_K;
    const FIELDS: &'static [Field] = &[field(2, 2), field(2, 2), field(12, 4), field(128, 4)];
    type Panel = Panel;
    type Act = Q8x256;

    #[inline(always)]
    fn arrange(block: &mut [u8]) {
        edit(block, 16, swap_nibbles);
    }

    #[inline(always)]
    fn restore(block: &mut [u8]) {
        edit(block, 16, swap_nibbles);
    }

    #[inline(always)]
    fn block<L: Dot, const T: usize>(
        l: L,
        part: usize,
        w: &Panel,
        x: &[&Q8x256; T],
        acc: &mut [L::F; T],
    ) {
        const { assert!(15 * 32 <= NARROW_LIMIT) };
        let low = l.splat_bytes(15);
        let (scales, mins) = scales_mins::<L, T>(l, part, &w.scales);
        let mut tot = [l.splat(0); T];
        for s in 0..8 {
            let mut sums = [l.zero(); T];
            for k in 0..4 {
                let line = stream::<L, T>(l, &w.qs[s][k], part);
                let (below, above) = (l.and(line, low), l.and(l.shr(line, 4), low));
                for t in 0..T {
                    sums[t] = l.dot(sums[t], below, x[t].quad(8 * s + k));
                    sums[t] = l.dot(sums[t], above, x[t].quad(8 * s + k + 4));
                }
            }
            let scale = l.byte_u8(scales[s / 4], s % 4);
            for t in 0..T {
                tot[t] = l.fold(tot[t], sums[t], scale);
            }
        }
        add_with_minima(l, part, (&w.d, &w.dmin), &mins, x, &tot, acc);
    }
}

/// The scales and the minima of groups 0–3 and 4–7, a byte each.
#[inline(always)]
pub(super) fn scales_mins<L: Dot, const T: usize>(
    l: L,
    part: usize,
    lines: &[Line; 3],
) -> ([L::I; 2], [L::I; 2]) {
    let (six, four, two) = (l.splat_bytes(63), l.splat_bytes(15), l.splat_bytes(48));
    let scales = stream::<L, T>(l, &lines[0], part);
    let mins = stream::<L, T>(l, &lines[1], part);
    let both = stream::<L, T>(l, &lines[2], part);
    (
        [
            l.and(scales, six),
            l.or(l.and(both, four), l.and(l.shr(scales, 2), two)),
        ],
        [
            l.and(mins, six),
            l.or(l.and(l.shr(both, 4), four), l.and(l.shr(mins, 2), two)),
        ],
    )
}

/// The products of 8 minima with the sums of the groups' activations.
#[inline(always)]
fn dot_minima<L: Lanes>(l: L, mins: &[L::I; 2], x: &Q8x256) -> L::I {
    let mut sum = l.splat(0);
    for half in 0..2 {
        sum = l.dot_pairs(sum, l.even_i8(mins[half]), x.sums32(2 * half));
        sum = l.dot_pairs(sum, l.odd_i8(mins[half]), x.sums32(2 * half + 1));
    }
    sum
}

/// Ends a block of Q4_K or Q5_K.
#[inline(always)]
pub(super) fn add_with_minima<L: Lanes, const T: usize>(
    l: L,
    part: usize,
    (d, dmin): (&[u8; 32], &[u8; 32]),
    mins: &[L::I; 2],
    x: &[&Q8x256; T],
    tot: &[L::I; T],
    acc: &mut [L::F; T],
) {
    let (d, dmin) = (l.load_f16(d, part), l.load_f16(dmin, part));
    for t in 0..T {
        let dx = l.splat_f(x[t].d());
        acc[t] = l.fma(l.mul_f(d, dx), l.to_f(tot[t]), acc[t]);
        acc[t] = l.fnma(l.mul_f(dmin, dx), l.to_f(dot_minima(l, mins, x[t])), acc[t]);
    }
}
