//! safetensors: a JSON header that names tensors, then their bytes.
//!
//! The format is described in the README of the safetensors repository: eight bytes of length, a JSON map from names to
//! `dtype`, `shape` and `data_offsets`, and data that the offsets cover without gaps or overlaps.

mod error;
mod header;

use alloc::string::ToString;
use alloc::vec::Vec;

pub use error::SafetensorsError;

use crate::checkpoint_tensor::{CheckpointTensor, MAX_DIMS, Payload};
use crate::dtype::Dtype;
use crate::gguf::Name;
use header::Header;

/// The most bytes of a header, as in the reference implementation.
pub const MAX_HEADER: usize = 100_000_000;
/// The most tensors in a file. Bounds the directory's memory.
pub const MAX_TENSORS: usize = 1 << 17;

/// Reads a file's directory: its tensors in the order of their data.
pub fn parse(file: &[u8]) -> Result<Vec<CheckpointTensor<'_>>, SafetensorsError> {
    let (length, rest) = file
        .split_first_chunk::<8>()
        .ok_or(SafetensorsError::TooShort { len: file.len() })?;
    let claimed = u64::from_le_bytes(*length);
    let split = usize::try_from(claimed).ok();
    let (header, data) =
        split
            .and_then(|len| rest.split_at_checked(len))
            .ok_or(SafetensorsError::HeaderLength {
                claimed,
                len: file.len(),
            })?;
    if header.len() > MAX_HEADER {
        return Err(SafetensorsError::HeaderTooLong { len: header.len() });
    }
    let Header(mut entries) =
        serde_json::from_slice(header).map_err(|error| SafetensorsError::Json {
            reason: error.to_string().into(),
        })?;
    if entries.len() > MAX_TENSORS {
        return Err(SafetensorsError::TooManyTensors);
    }
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    if let Some([(name, _), _]) = entries.array_windows().find(|[a, b]| a.0 == b.0) {
        return Err(SafetensorsError::DuplicateTensor {
            tensor: Name::new(name),
        });
    }
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut tensors = Vec::with_capacity(entries.len());
    let mut at = 0;
    for (name, entry) in entries {
        let tensor = || Name::new(&name);
        let [start, end] = entry.data_offsets;
        let dtype = Dtype::from_safetensors(&entry.dtype.0).ok_or_else(|| {
            SafetensorsError::UnknownType {
                tensor: tensor(),
                dtype: Name::new(&entry.dtype.0),
            }
        })?;
        if entry.shape.len() > MAX_DIMS {
            return Err(SafetensorsError::DimCount { tensor: tensor() });
        }
        let expected = (entry.shape.iter())
            .try_fold(dtype.size() as u64, |product, &dim| {
                product.checked_mul(dim)
            })
            .ok_or_else(|| SafetensorsError::Overflow { tensor: tensor() })?;
        if end.checked_sub(start) != Some(expected) {
            return Err(SafetensorsError::Length {
                tensor: tensor(),
                start,
                end,
                expected,
            });
        }
        if start != at {
            return Err(SafetensorsError::Gap {
                tensor: tensor(),
                start,
                expected: at,
            });
        }
        let bytes = data_range(data, start, end).ok_or(SafetensorsError::DataLength {
            tensors: end,
            found: data.len() as u64,
        })?;
        at = end;
        tensors.push(CheckpointTensor {
            name,
            dtype,
            shape: entry.shape.0,
            strides: None,
            payload: Payload::Plain(bytes),
        });
    }
    if at != data.len() as u64 {
        return Err(SafetensorsError::DataLength {
            tensors: at,
            found: data.len() as u64,
        });
    }
    Ok(tensors)
}

fn data_range(data: &[u8], start: u64, end: u64) -> Option<&[u8]> {
    data.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}
