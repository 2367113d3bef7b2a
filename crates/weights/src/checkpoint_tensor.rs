//! A tensor of a checkpoint: named elements in some order in a file, read row by row as floats.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use strata_quant::{GgmlType, dequantize};

use crate::dtype::Dtype;
use crate::gguf::Name;
use crate::torch::inflate;

/// The most dimensions of a tensor that is read.
pub(crate) const MAX_DIMS: usize = 8;

/// Why a tensor's elements cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum ReadError {
    #[error("the tensor {tensor} is of type {dtype}, which no weight has")]
    NotFloats { tensor: Name, dtype: Dtype },
    #[error("the tensor {tensor} of {dims} dimensions is a view that is not contiguous")]
    Scattered { tensor: Name, dims: usize },
    #[error("the compressed data of the tensor {tensor} is damaged")]
    Inflate { tensor: Name },
    #[error("the blocks of the tensor {tensor} cannot be read")]
    Blocks { tensor: Name },
    #[error("the tensor {tensor} has no elements")]
    Empty { tensor: Name },
}

/// Where the elements are.
#[derive(Clone, Debug)]
pub(crate) enum Payload<'a> {
    Plain(&'a [u8]),
    /// Whole blocks of a type of GGUF, which are read as f32.
    Blocks(GgmlType, &'a [u8]),
    /// Compressed; `len` bytes when they are not, of which the tensor's begin at `offset`.
    Deflated {
        bytes: &'a [u8],
        len: usize,
        crc: u32,
        offset: usize,
    },
}

/// A tensor of a parsed checkpoint. Its extent lies inside the file's bytes.
#[derive(Clone, Debug)]
pub struct CheckpointTensor<'a> {
    /// The name, unique in the file.
    pub name: Cow<'a, str>,
    /// The elements' type.
    pub dtype: Dtype,
    /// The dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Elements from one index to the next, where they are not side by side.
    pub(crate) strides: Option<Vec<u64>>,
    pub(crate) payload: Payload<'a>,
}

impl<'a> CheckpointTensor<'a> {
    /// The bytes in the file, where they are side by side and not compressed.
    pub fn plain(&self) -> Option<&'a [u8]> {
        match (&self.strides, &self.payload) {
            (None, Payload::Plain(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The type and the bytes of quantized elements.
    pub fn blocks(&self) -> Option<(GgmlType, &'a [u8])> {
        match self.payload {
            Payload::Blocks(ty, bytes) => Some((ty, bytes)),
            _ => None,
        }
    }

    /// The elements as rows of the last dimension. Compressed data is unpacked here, and blocks are.
    pub fn rows(&self) -> Result<Rows<'a>, ReadError> {
        let tensor = || Name::new(&self.name);
        if !self.dtype.is_float() {
            return Err(ReadError::NotFloats {
                tensor: tensor(),
                dtype: self.dtype,
            });
        }
        let bytes = match self.payload {
            Payload::Plain(bytes) => Cow::Borrowed(bytes),
            Payload::Blocks(ty, bytes) => {
                let len = bytes.len() / ty.block_bytes() * ty.block_len();
                let mut values = alloc::vec![0.0; len];
                let done = dequantize(ty, bytes, &mut values);
                done.map_err(|_| ReadError::Blocks { tensor: tensor() })?;
                Cow::Owned(
                    values
                        .iter()
                        .flat_map(|value| value.to_le_bytes())
                        .collect(),
                )
            }
            Payload::Deflated {
                bytes,
                len,
                crc,
                offset,
            } => {
                let mut all = inflate(bytes, len, crc)
                    .ok_or_else(|| ReadError::Inflate { tensor: tensor() })?;
                all.drain(..offset.min(len));
                Cow::Owned(all)
            }
        };
        // Parsing has checked that the products fit and that the last element lies in the bytes.
        let columns = self.shape.last().map_or(1, |&n| n as usize);
        let rows: u64 = self.shape.iter().rev().skip(1).product();
        let rows = rows as usize;
        if rows == 0 || columns == 0 {
            return Err(ReadError::Empty { tensor: tensor() });
        }
        let (row_stride, column_stride) = match (self.strides.as_deref(), self.shape.len()) {
            (None, _) => (columns, 1),
            (Some(&[stride]), _) => (0, stride as usize),
            (Some(&[row, column]), _) => (row as usize, column as usize),
            (_, dims) => {
                return Err(ReadError::Scattered {
                    tensor: tensor(),
                    dims,
                });
            }
        };
        Ok(Rows {
            dtype: self.dtype,
            bytes,
            rows,
            columns,
            item_rows: rows,
            item_stride: 0,
            row_stride,
            column_stride,
            offset: 0,
        })
    }

    /// The bytes of a tensor that holds no floats.
    pub fn raw(&self) -> Option<&'a [u8]> {
        self.plain().filter(|_| self.dtype == Dtype::U8)
    }
}

/// A tensor's elements as rows.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    dtype: Dtype,
    bytes: Cow<'a, [u8]>,
    rows: usize,
    columns: usize,
    /// Rows that are one stride apart; from the last of them to the next it is another.
    item_rows: usize,
    /// Strides and the first element's place are in elements.
    item_stride: usize,
    row_stride: usize,
    column_stride: usize,
    offset: usize,
}

impl Rows<'_> {
    /// How many rows there are; all dimensions but the last together.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// How long a row is.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Rows and columns exchanged.
    pub fn transposed(self) -> Self {
        let rows = self.rows;
        self.items_transposed(rows)
    }

    /// Rows and columns of every item of `item_rows` rows exchanged. Nothing is left of rows that do not fill items.
    pub fn items_transposed(self, item_rows: usize) -> Self {
        let items = self.rows.checked_div(item_rows).unwrap_or(0);
        let fits = self.item_stride == 0 && items * item_rows == self.rows;
        Self {
            rows: if fits { items * self.columns } else { 0 },
            columns: item_rows,
            item_rows: self.columns,
            item_stride: item_rows * self.row_stride,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// So many columns of each row: the first of them, and every so many after it. Nothing is left where there are fewer.
    pub fn some_columns(self, first: usize, step: usize, count: usize) -> Self {
        let last = count.saturating_sub(1).saturating_mul(step);
        let fits = count > 0 && last.saturating_add(first) < self.columns;
        Self {
            rows: if fits { self.rows } else { 0 },
            columns: count,
            offset: self.offset + first * self.column_stride,
            column_stride: step * self.column_stride,
            ..self
        }
    }

    /// The place of a row's first element.
    fn start(&self, row: usize) -> usize {
        let (item, row) = (row / self.item_rows, row % self.item_rows);
        self.offset + item * self.item_stride + row * self.row_stride
    }

    /// The bytes of a row, where they are side by side.
    pub fn bytes(&self, row: usize) -> Option<&[u8]> {
        if row >= self.rows || (self.column_stride != 1 && self.columns != 1) {
            return None;
        }
        let size = self.dtype.size();
        let start = self.start(row).checked_mul(size)?;
        let len = self.columns.checked_mul(size)?;
        self.bytes.get(start..start.checked_add(len)?)
    }

    /// The floats of a row; `None` if there is no such row or `out` is of another length.
    pub fn read(&self, row: usize, out: &mut [f32]) -> Option<()> {
        if out.len() != self.columns {
            return None;
        }
        if let Some(bytes) = self.bytes(row) {
            return self.dtype.floats(bytes, out);
        }
        if row >= self.rows {
            return None;
        }
        let size = self.dtype.size();
        for (column, value) in out.iter_mut().enumerate() {
            let element = self.start(row) + column * self.column_stride;
            let bytes = self.bytes.get(element * size..)?.get(..size)?;
            self.dtype.floats(bytes, core::slice::from_mut(value))?;
        }
        Some(())
    }
}
