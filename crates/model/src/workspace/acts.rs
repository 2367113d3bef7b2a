//! Encoded inputs of matrices.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use strata_kernels::{ActFormat, ActRows};

/// Encoded rows, one buffer for each format, so that matrices of different types can share an input; and room
/// to pack panels of matrices that are not in memory.
#[derive(Default)]
pub(crate) struct Acts {
    rows: EncodedRows,
    /// Hidden rows of a feed-forward network, which are encoded while its input is read.
    hidden: EncodedRows,
    scratch: Vec<u8>,
}

/// The parts of [`Acts`].
pub(crate) struct ActParts<'a> {
    pub(crate) rows: &'a EncodedRows,
    pub(crate) hidden: &'a mut EncodedRows,
    pub(crate) scratch: &'a mut [u8],
}

/// Encoded rows.
#[derive(Default)]
pub(crate) struct EncodedRows {
    buffers: [Vec<u8>; FORMATS],
}

/// The formats of encoded rows.
pub(super) const FORMATS: usize = 3;

impl Acts {
    pub(super) fn new(rows: [usize; FORMATS], hidden: [usize; FORMATS], scratch: usize) -> Self {
        Self {
            rows: EncodedRows::new(rows),
            hidden: EncodedRows::new(hidden),
            scratch: vec![0; scratch],
        }
    }

    pub(crate) fn rows_mut(&mut self, format: ActFormat, width: usize, rows: usize) -> &mut [u8] {
        self.rows.rows_mut(format, width, rows)
    }

    pub(crate) fn parts(&mut self) -> ActParts<'_> {
        ActParts {
            rows: &self.rows,
            hidden: &mut self.hidden,
            scratch: &mut self.scratch,
        }
    }
}

impl EncodedRows {
    pub(super) fn new(bytes: [usize; FORMATS]) -> Self {
        Self {
            buffers: bytes.map(|bytes| vec![0; bytes]),
        }
    }

    pub(crate) fn rows_mut(&mut self, format: ActFormat, width: usize, rows: usize) -> &mut [u8] {
        &mut self.buffers[format as usize][..rows * format.row_bytes(width)]
    }

    pub(crate) fn rows(&self, format: ActFormat, width: usize, rows: usize) -> ActRows<'_> {
        self.range(format, width, 0..rows)
    }

    /// Some of the rows.
    pub(crate) fn range(&self, format: ActFormat, width: usize, rows: Range<usize>) -> ActRows<'_> {
        let row = format.row_bytes(width);
        let bytes = &self.buffers[format as usize][rows.start * row..rows.end * row];
        ActRows::new(format, width, bytes)
    }
}

#[cfg(test)]
impl EncodedRows {
    /// Bytes that it has taken.
    pub(super) fn measured(&self) -> usize {
        self.buffers.iter().map(Vec::len).sum()
    }
}

#[cfg(test)]
impl Acts {
    /// Bytes that it has taken.
    pub(super) fn measured(&self) -> usize {
        self.rows.measured() + self.hidden.measured() + self.scratch.len()
    }
}
