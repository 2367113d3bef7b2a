//! Packed weights: panels of 16 rows, interleaved, so that one line holds the same columns of all of them.
//!
//! A panel block takes the place of the same GGUF block of 16 rows and is exactly as large. A [`Field`] of the row's
//! block becomes lines in which row r's k-th group of bytes is the r-th of group k: with groups of 4, each 64-byte line
//! has 4 bytes of each row, which is what a dot-product instruction takes. Some types first rearrange the bits within a
//! row's block, so that four neighbouring columns lie in the same bits of four neighbouring bytes.

mod bits;
pub(crate) mod float;
mod generic;
mod iq4_nl;
mod iq4_xs;
pub(crate) mod layout;
pub(crate) mod matmul;
mod mxfp4;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;

use bytemuck::Pod;
use strata_quant::GgmlType;

use crate::lanes::Dot;

pub(crate) use iq4_nl::IQ4_NL;
pub(crate) use iq4_xs::IQ4_XS;
pub(crate) use mxfp4::MXFP4;
pub(crate) use q2_k::Q2_K;
pub(crate) use q3_k::Q3_K;
pub(crate) use q4_0::Q4_0;
pub(crate) use q4_1::Q4_1;
pub(crate) use q4_k::Q4_K;
pub(crate) use q5_0::Q5_0;
pub(crate) use q5_1::Q5_1;
pub(crate) use q5_k::Q5_K;
pub(crate) use q6_k::Q6_K;
pub(crate) use q8_0::Q8_0;

/// Rows in a panel.
pub const PANEL_ROWS: usize = 16;

/// A line: 4 bytes of each row.
pub(crate) type Line = [u8; 64];

/// A stretch of a row's block, cut into groups of 1, 2 or 4 bytes.
#[derive(Copy, Clone)]
pub(crate) struct Field {
    pub(crate) bytes: usize,
    pub(crate) group: usize,
}

/// A field of `bytes` bytes in groups of `group`.
const fn field(bytes: usize, group: usize) -> Field {
    Field { bytes, group }
}

/// A weight type with a panel kernel.
pub(crate) trait PanelType {
    /// The GGUF type.
    const TYPE: GgmlType;
    /// The fields of a row's block, in order.
    const FIELDS: &'static [Field];
    /// 16 rows' blocks.
    type Panel: Pod;
    /// The activations of a block's columns.
    type Act: Pod;

    /// Rearranges the bits of one row's block for the panel.
    fn arrange(_block: &mut [u8]) {}
    /// Undoes [`Self::arrange`].
    fn restore(_block: &mut [u8]) {}

    /// Adds the products of a block with the activations of T tokens, for the rows of one part. Must be
    /// `#[inline(always)]`.
    /// Lines are asked for `ahead` bytes before they are loaded.
    fn block<L: Dot, const T: usize>(
        l: L,
        ahead: usize,
        part: usize,
        w: &Self::Panel,
        x: &[&Self::Act; T],
        acc: &mut [L::F; T],
    );
}

/// Loads a line of weights that are read in order, and asks for the one that lies `ahead` bytes further.
#[inline(always)]
fn stream<L: Dot>(l: L, ahead: usize, line: &Line, part: usize) -> L::I {
    if part == 0 {
        l.prefetch(line, ahead);
    }
    l.load(line, part)
}
