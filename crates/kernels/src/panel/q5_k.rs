//! Q5_K: value = d · scale · q − dmin · min, 8 groups of 32 columns.

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::bits::{edit, interleave, separate, swap_nibbles, transpose_bits};
use super::q4_k::Scales;
use super::{Field, Line, PanelType, field, stream};
use crate::act::Q8x256;
use crate::lanes::{Dot, NARROW_LIMIT};
#[cfg(not(feature = "compact"))]
use crate::tile_unit::{TilePanel, WeightTile};

/// Marks the type.
#[allow(non_camel_case_types)]
pub(crate) struct Q5_K;

/// 16 rows' blocks.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel {
    d: [u8; 32],
    dmin: [u8; 32],
    scales: [Line; 3],
    groups: [Group; 8],
}

/// 32 columns of 16 rows. In `qs` column i is below, i + 16 above; in `qh` bit g of byte c belongs to column 4g + c.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(C)]
struct Group {
    qh: Line,
    qs: [Line; 4],
}

impl PanelType for Q5_K {
    const TYPE: GgmlType = GgmlType::Q5_K;
    const FIELDS: &'static [Field] = &[field(2, 2), field(2, 2), field(12, 4), field(160, 4)];
    type Panel = Panel;
    type Act = Q8x256;

    #[inline(always)]
    fn arrange(block: &mut [u8]) {
        edit(block, 16, transpose_bits);
        edit(block, 48, swap_nibbles);
        edit::<160>(block, 16, |bytes| interleave::<4, 16>(bytes, 8));
    }

    #[inline(always)]
    fn restore(block: &mut [u8]) {
        edit::<160>(block, 16, |bytes| separate::<4, 16>(bytes, 8));
        edit(block, 16, transpose_bits);
        edit(block, 48, swap_nibbles);
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
        const { assert!(31 * 16 <= NARROW_LIMIT) };
        let (low, fifth) = (l.splat_bytes(15), l.splat_bytes(16));
        let scales = Scales::load(l, ahead, part, (&w.d, &w.dmin), &w.scales);
        for s in 0..8 {
            let qh = stream(l, ahead, &w.groups[s].qh, part);
            let mut sums = [l.zero(); T];
            for k in 0..4 {
                let line = stream(l, ahead, &w.groups[s].qs[k], part);
                let below = l.or(l.and(line, low), l.and(l.shl(qh, 4 - k as u32), fifth));
                let above = l.or(
                    l.and(l.shr(line, 4), low),
                    l.and(l.shr(qh, k as u32), fifth),
                );
                for t in 0..T {
                    sums[t] = l.dot(sums[t], below, x[t].quad(8 * s + k));
                    sums[t] = l.dot(sums[t], above, x[t].quad(8 * s + k + 4));
                    if L::NARROW && k == 1 {
                        sums[t] = l.carry(sums[t]);
                    }
                }
            }
            scales.add(l, s, &sums, x, acc);
        }
    }
}

#[cfg(not(feature = "compact"))]
impl TilePanel for Q5_K {
    const MINIMA: bool = true;

    #[inline(always)]
    fn unpack<L: Dot>(l: L, part: usize, w: &Panel, group: usize, out: &mut [WeightTile]) {
        let (low, fifth) = (l.splat_bytes(15), l.splat_bytes(16));
        let lines = &w.groups[group];
        let qh = l.load(&lines.qh, part);
        for k in 0..4 {
            let line = l.load(&lines.qs[k], part);
            let below = l.and(l.shl(qh, 4 - k as u32), fifth);
            let above = l.and(l.shr(qh, k as u32), fifth);
            out[0].set(l, part, k, l.or(l.and(line, low), below));
            out[0].set(l, part, k + 4, l.or(l.and(l.shr(line, 4), low), above));
        }
        Scales::load(l, 0, part, (&w.d, &w.dmin), &w.scales).unpack(l, part, group, &mut out[0]);
    }
}
