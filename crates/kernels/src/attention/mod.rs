//! Attention over stored keys and values: rows of one head, in f32, f16 or 8 bits.
//!
//! Every stored number is first an f32 (an 8-bit value times its f16 scale is exact), so the arithmetic is that of f32
//! rows: q · k in 16 lanes like every sum, and the values weighted in the order of the rows.

mod partial;
pub(crate) mod scores;
mod stored;
pub(crate) mod values;
pub(crate) mod whole;

pub use partial::Partial;
pub use whole::{WHOLE_KEYS, WHOLE_ROWS, WholeScores, WholeSums};

pub(crate) use stored::Store;

use crate::lanes::Lanes;

/// Bytes that come from memory together.
const LINE: usize = 64;

/// How keys and values are stored.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum KvType {
    /// f32.
    F32,
    /// Half floats, rounded to the nearest.
    F16,
    /// Blocks of 32: an f16 scale and 8 bits each, as GGUF's Q8_0. Heads are whole blocks.
    Q8_0,
}

impl KvType {
    /// Bytes of a row of `head_dim` values.
    ///
    /// # Panics
    /// If `head_dim` is not whole blocks.
    pub const fn row_bytes(self, head_dim: usize) -> usize {
        match self {
            KvType::F32 => head_dim * 4,
            KvType::F16 => head_dim * 2,
            KvType::Q8_0 => {
                assert!(
                    head_dim.is_multiple_of(32),
                    "8-bit heads are whole blocks of 32"
                );
                head_dim / 32 * 34
            }
        }
    }
}

/// Stored rows of one head that lie next to each other.
#[derive(Copy, Clone)]
pub struct KvRows<'a> {
    pub(crate) kind: KvType,
    pub(crate) bytes: &'a [u8],
    pub(crate) head_dim: usize,
    pub(crate) n: usize,
    /// Rows that are read after these, if that is known.
    next: &'a [u8],
}

impl<'a> KvRows<'a> {
    /// Rows of `head_dim` values.
    ///
    /// # Panics
    /// If `bytes` is not whole rows.
    pub fn new(kind: KvType, head_dim: usize, bytes: &'a [u8]) -> Self {
        let size = kind.row_bytes(head_dim);
        assert!(
            size > 0 && bytes.len().is_multiple_of(size),
            "the stored rows are whole"
        );
        Self {
            kind,
            bytes,
            head_dim,
            n: bytes.len() / size,
            next: &[],
        }
    }

    /// Asks for the rows that are read next while these are computed with: they lie elsewhere, and no processor guesses
    /// where.
    pub const fn before(self, next: &'a [u8]) -> Self {
        Self { next, ..self }
    }

    /// Asks for those of the next rows that stand where `count` rows from `j` on do in these.
    #[inline(always)]
    fn ask<L: Lanes>(self, l: L, j: usize, count: usize) {
        let size = self.kind.row_bytes(self.head_dim);
        if let Some(rows) = self.next.get(j * size..(j + count) * size) {
            for line in rows.chunks(LINE) {
                l.prefetch(&line[0], 0);
            }
        }
    }

    /// How many heads `floats` are, at one vector a head.
    pub(crate) fn heads(&self, floats: usize) -> usize {
        assert!(
            floats.is_multiple_of(self.head_dim),
            "the heads' vectors are whole"
        );
        floats / self.head_dim
    }

    /// Checks that `heads` rows of `n` weights or scores, `stride` apart, lie within `len` floats.
    pub(crate) fn check_weights(&self, heads: usize, len: usize, stride: usize) {
        assert!(
            stride >= self.n && (heads == 0 || (heads - 1) * stride + self.n <= len),
            "a place for each row of each head"
        );
    }

    /// Row `j`.
    #[inline(always)]
    fn row(self, j: usize) -> &'a [u8] {
        let size = self.kind.row_bytes(self.head_dim);
        &self.bytes[j * size..][..size]
    }
}
