//! Attention over stored keys and values: rows of one head, in f32, f16 or 8 bits.
//!
//! Every stored number is first an f32 (an 8-bit value times its f16 scale is exact), so the arithmetic is that of f32
//! rows: q · k in 16 lanes like every sum, and the values weighted in the order of the rows.

pub(crate) mod scores;
mod stored;
pub(crate) mod values;

pub(crate) use stored::Store;

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

/// The rows of one head, in one page.
#[derive(Copy, Clone)]
pub(crate) struct Rows<'a> {
    pub(crate) kind: KvType,
    pub(crate) bytes: &'a [u8],
    pub(crate) head_dim: usize,
    pub(crate) n: usize,
}

impl<'a> Rows<'a> {
    /// Row `j`.
    #[inline(always)]
    fn row(self, j: usize) -> &'a [u8] {
        let size = self.kind.row_bytes(self.head_dim);
        &self.bytes[j * size..][..size]
    }
}
