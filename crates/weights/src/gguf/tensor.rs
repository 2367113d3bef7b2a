//! Tensors: name, type, dimensions and data.

use core::fmt;
use core::ops::Deref;

use strata_quant::GgmlType;

use super::error::ShapeError;

/// The most dimensions of a tensor.
const MAX_DIMS: usize = 4;

/// One to four dimensions, none of them zero, innermost (the row's length) first, as in the file.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct Dims {
    len: u8,
    dims: [u64; MAX_DIMS],
}

impl Dims {
    /// Checks that there are one to four dimensions and that none is zero.
    pub fn new(dims: &[u64]) -> Result<Dims, ShapeError> {
        let count = dims.len() as u64;
        let mut padded = [1; MAX_DIMS];
        match padded.get_mut(..dims.len()) {
            Some(head) if count > 0 => head.copy_from_slice(dims),
            _ => return Err(ShapeError::DimCount { count }),
        }
        match padded.iter().position(|&dim| dim == 0) {
            Some(axis) => Err(ShapeError::ZeroDim { axis: axis as u8 }),
            None => Ok(Dims {
                len: count as u8,
                dims: padded,
            }),
        }
    }

    /// The four dimensions, the absent ones being 1.
    pub fn padded(&self) -> [u64; MAX_DIMS] {
        self.dims
    }

    /// The number of elements, if it fits in 64 bits. It does for every tensor of a parsed file.
    pub fn elements(&self) -> Option<u64> {
        self.dims
            .iter()
            .try_fold(1u64, |product, &dim| product.checked_mul(dim))
    }
}

impl Deref for Dims {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.dims[..usize::from(self.len)]
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// The bytes that a tensor takes: rows of whole blocks, with nothing between them.
pub fn byte_len(ty: GgmlType, dims: &Dims) -> Result<u64, ShapeError> {
    let [cols, rows @ ..] = dims.padded();
    if cols % ty.block_len() as u64 != 0 {
        return Err(ShapeError::PartialBlock { ty, cols });
    }
    dims.elements().ok_or(ShapeError::Overflow)?;
    let row = ty.row_bytes(cols).ok_or(ShapeError::Overflow)?;
    rows.iter()
        .try_fold(row, |len, &dim| len.checked_mul(dim))
        .ok_or(ShapeError::Overflow)
}

/// A tensor of a parsed file. Its data is borrowed and is exactly as long as type and dimensions say.
#[derive(Clone)]
pub struct Tensor<'a> {
    /// The name, unique in the file.
    pub name: &'a str,
    /// The block format.
    pub ty: GgmlType,
    /// The dimensions, innermost first.
    pub dims: Dims,
    /// Where the data begins, counted from the start of the data section.
    pub offset: u64,
    /// The blocks.
    pub data: &'a [u8],
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("name", &self.name)
            .field("ty", &self.ty.name())
            .field("dims", &self.dims)
            .field("offset", &self.offset)
            .field("data.len", &self.data.len())
            .finish()
    }
}
