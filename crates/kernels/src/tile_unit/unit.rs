//! What a tile unit is asked, and what it is given.

use bytemuck::Pod;
use strata_quant::GgmlType;

use crate::act::{Q8x32, Q8x256};
use crate::lanes::Dot;
use crate::panel::{Line, PanelType};

/// Tokens of a tile; a tile's rows are those of a panel.
pub(crate) const TOKENS: usize = 16;

/// Columns of a tile.
pub(crate) const COLUMNS: usize = 32;

/// Two tiles of tokens, two of weights, and the four squares of sums that they give.
pub(crate) trait TileUnit {
    /// Loads tile `i` of tokens: 32 bytes of each of 16, `stride` bytes apart.
    ///
    /// # Panics
    /// If `x` has fewer.
    fn load_x(&mut self, i: usize, x: &[u8], stride: usize);
    /// Loads tile `i` of weights: lines of 4 columns.
    fn load_w(&mut self, i: usize, w: &[Line; 8]);
    /// Square `q` becomes the sums of products of tokens `q / 2` and weights `q % 2`.
    fn multiply(&mut self, q: usize);
    /// Reads square `q`.
    fn store(&mut self, q: usize, out: &mut Square);
}

/// Sums of 16 tokens × 16 rows, as i32.
#[derive(Copy, Clone)]
#[repr(C, align(64))]
pub(crate) struct Square(pub(crate) [Line; TOKENS]);

/// 32 columns of a panel, unpacked to signed bytes, with what their sums are multiplied with.
#[derive(Copy, Clone)]
#[repr(C, align(64))]
pub(crate) struct WeightTile {
    pub(crate) q: [Line; 8],
    pub(crate) scale: [f32; 16],
    /// The minimum, or, where a block is two products, this one's factor.
    pub(crate) min: [f32; 16],
}

impl WeightTile {
    pub(crate) const EMPTY: Self = Self {
        q: [[0; 64]; 8],
        scale: [0.0; 16],
        min: [0.0; 16],
    };

    /// Sets columns 4k to 4k + 3.
    #[inline(always)]
    pub(crate) fn set<L: Dot>(&mut self, l: L, part: usize, k: usize, weights: L::I) {
        store_line(l, part, weights, &mut self.q[k]);
    }

    /// Sets the integers that the sums are multiplied with.
    #[inline(always)]
    pub(crate) fn set_factor<L: Dot>(&mut self, l: L, part: usize, factor: L::I) {
        l.store_f(l.to_f(factor), &mut self.min, part);
    }
}

/// Writes a part of a line, which begins a cache line.
#[inline(always)]
pub(crate) fn store_line<L: Dot>(l: L, part: usize, a: L::I, line: &mut Line) {
    l.store_f(l.of_bits(a), bytemuck::cast_mut(line), part);
}

/// A weight type that a tile unit multiplies.
pub(crate) trait TilePanel: PanelType<Act: TileAct> {
    /// Products in a block of 32 columns: 2 where scales belong to 16.
    const TILES: usize = 1;
    /// Whether minima are taken off.
    const MINIMA: bool = false;

    /// Unpacks columns 32 · `group` and on of a block into [`Self::TILES`] tiles. Must be `#[inline(always)]`.
    fn unpack<L: Dot>(l: L, part: usize, w: &Self::Panel, group: usize, out: &mut [WeightTile]);
}

/// The activations of a block: 32 bytes for each group come first, one group after the other.
pub(crate) trait TileAct: Pod {
    /// The scale of a group.
    fn scale(&self, group: usize) -> f32;
    /// The scaled sum of a group.
    fn group_sum(&self, group: usize) -> f32;
}

impl TileAct for Q8x32 {
    #[inline(always)]
    fn scale(&self, _: usize) -> f32 {
        self.d()
    }
    #[inline(always)]
    fn group_sum(&self, _: usize) -> f32 {
        self.scaled_sum()
    }
}

impl TileAct for Q8x256 {
    #[inline(always)]
    fn scale(&self, group: usize) -> f32 {
        self.d(group)
    }
    #[inline(always)]
    fn group_sum(&self, group: usize) -> f32 {
        self.scaled_sum(group)
    }
}

/// Evaluates `$body` with `$k` standing for the panel type of `$ty`, or `$other` where no tile unit multiplies it.
macro_rules! with_tile_panel {
    ($ty:expr, $k:ident => $body:expr, _ => $other:expr) => {
        with_tile_panel!(@ $ty, $k, $body, $other; Q4_0 Q8_0 Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4)
    };
    (@ $ty:expr, $k:ident, $body:expr, $other:expr; $($name:ident)*) => {
        match $ty {
            $(strata_quant::GgmlType::$name => {
                type $k = $crate::panel::$name;
                $body
            })*
            _ => $other,
        }
    };
}
pub(crate) use with_tile_panel;

/// Types that a tile unit multiplies.
pub(crate) const TYPES: [GgmlType; 8] = [
    GgmlType::Q4_0,
    GgmlType::Q8_0,
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
    GgmlType::IQ4_NL,
    GgmlType::IQ4_XS,
    GgmlType::MXFP4,
];
