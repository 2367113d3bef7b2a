//! Q6_K: value = d · scale · (q − 32), 16 groups of 16 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::bits::{edit, gather_crumbs, interleave, scatter_crumbs, separate, set_word, word};
use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x256;
use crate::lanes::{Dot, Lanes, NARROW_LIMIT};
#[cfg(not(feature = "compact"))]
use crate::tile_unit::{TilePanel, WeightTile};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q6_K;

/// 16 rows' blocks.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    quarters: [Quarter; 4],
    d: [u8; 32],
}

/// 64 columns of 16 rows.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
struct Quarter {
    scales: Line,
    groups: [Group; 4],
}

/// 16 columns of 16 rows. In `ql` column i is below, i + 8 above; in `qh` bits 2g and 2g + 1 of byte c belong to column
/// 4g + c.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
struct Group {
    ql: [Line; 2],
    qh: Line,
}

impl PanelType for Q6_K {
    const TYPE: GgmlType = GgmlType::Q6_K;
    const FIELDS: &'static [Field] = &[field(208, 4), field(2, 2)];
    type Panel = Panel;
    type Act = Q8x256;

    #[inline(always)]
    fn arrange(block: &mut [u8]) {
        edit(block, 0, gather_groups);
        edit(block, 128, gather_crumbs);
        edit::<192>(block, 0, |bytes| interleave::<8, 4>(bytes, 16));
        edit::<208>(block, 0, |bytes| bytes.rotate_right(16));
        edit::<208>(block, 0, |bytes| interleave::<4, 48>(bytes, 4));
    }

    #[inline(always)]
    fn restore(block: &mut [u8]) {
        edit::<208>(block, 0, |bytes| separate::<4, 48>(bytes, 4));
        edit::<208>(block, 0, |bytes| bytes.rotate_left(16));
        edit::<192>(block, 0, |bytes| separate::<8, 4>(bytes, 16));
        edit(block, 0, scatter_groups);
        edit(block, 128, scatter_crumbs);
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
        const { assert!(63 * 8 <= NARROW_LIMIT) };
        let (low, high) = (l.splat_bytes(15), l.splat_bytes(48));
        let d = l.load_f16(&w.d, part);
        for quarter in 0..4 {
            let w = &w.quarters[quarter];
            let scales = stream(l, ahead, &w.scales, part);
            let mut tot = [l.splat(0); T];
            for byte in 0..4 {
                let s = 4 * quarter + byte;
                let scale = l.byte_i8(scales, byte);
                let qh = stream(l, ahead, &w.groups[byte].qh, part);
                let mut sums = [l.zero(); T];
                for k in 0..2 {
                    let line = stream(l, ahead, &w.groups[byte].ql[k], part);
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
                            sums[t] = l.zero();
                        }
                    }
                }
                if byte % 2 == 1 {
                    add_pair::<L, T, 5>(
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

#[cfg(not(feature = "compact"))]
impl TilePanel for Q6_K {
    /// A scale belongs to 16 columns: each half of a group is a tile of its own, whose other half is 0.
    const TILES: usize = 2;

    #[inline(always)]
    fn unpack<L: Dot>(l: L, part: usize, w: &Panel, group: usize, out: &mut [WeightTile]) {
        let (low, high, offset) = (l.splat_bytes(15), l.splat_bytes(48), l.splat_bytes(32));
        let quarter = &w.quarters[group / 2];
        let scales = l.load(&quarter.scales, part);
        for half in 0..2 {
            let byte = group % 2 * 2 + half;
            let lines = &quarter.groups[byte];
            let qh = l.load(&lines.qh, part);
            for k in 0..2 {
                let line = l.load(&lines.ql[k], part);
                let below = l.and(l.shift(qh, 4 - 2 * k as i32), high);
                let above = l.and(l.shift(qh, -2 * k as i32), high);
                let (below, above) = (
                    l.or(l.and(line, low), below),
                    l.or(l.and(l.shr(line, 4), low), above),
                );
                let at = 4 * half + k;
                out[half].set(l, part, at, l.sub8(below, offset));
                out[half].set(l, part, at + 2, l.sub8(above, offset));
            }
            for k in 0..4 {
                out[half].set(l, part, 4 * (1 - half) + k, l.splat(0));
            }
            out[half].set_factor(l, part, l.byte_i8(scales, byte));
            l.store_f(l.load_f16(&w.d, part), &mut out[half].scale, part);
        }
    }
}

/// The two signed scales of the first (0) or second (1) half of each lane, as 16-bit numbers.
#[inline(always)]
pub(super) fn pair_of<L: Lanes>(l: L, scales: L::I, half: usize) -> L::I {
    let both = l.shr(scales, 16 * half as u32);
    let apart = l.or(
        l.and(both, l.splat(0xff)),
        l.shl(l.and(both, l.splat(0xff00)), 8),
    );
    l.even_i8(apart)
}

/// Adds two groups of 16 columns, whose weighted products sum to `tot`, less 2^SHIFT from every weight; empties `tot`.
#[inline(always)]
pub(super) fn add_pair<L: Dot, const T: usize, const SHIFT: u32>(
    l: L,
    pair: usize,
    d: L::F,
    scales: L::I,
    x: &[&Q8x256; T],
    tot: &mut [L::I; T],
    acc: &mut [L::F; T],
) {
    let offsets = l.mul_pairs(scales, -1 << SHIFT);
    for t in 0..T {
        let sum = l.dot_pairs(tot[t], offsets, x[t].half_sums(pair));
        acc[t] = l.fma(l.mul_f(d, l.splat_f(x[t].d(pair))), l.to_f(sum), acc[t]);
        tot[t] = l.splat(0);
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
