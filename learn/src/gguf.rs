//! A GGUF file, read by hand: the header, the metadata, the directory of tensors.
//!
//! The format is described in ggml's `docs/gguf.md`. The product reads it in `crates/weights`.

// ANCHOR: uses
use std::collections::BTreeMap;
// ANCHOR_END: uses

use crate::bytes::{Bytes, ReadError};

// ANCHOR: value
/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Any of the integer types.
    Integer(i128),
    /// f32 or f64.
    Float(f64),
    /// One byte, 0 or 1.
    Bool(bool),
    /// UTF-8.
    Text(&'a str),
    /// Values of one type.
    List(Vec<Value<'a>>),
}

impl<'a> Value<'a> {
    fn read(bytes: &mut Bytes<'a>, ty: u32) -> Result<Value<'a>, ReadError> {
        Ok(match ty {
            0 => Value::Integer(bytes.u8()?.into()),
            1 => Value::Integer((bytes.u8()? as i8).into()),
            2 => Value::Integer(bytes.u16()?.into()),
            3 => Value::Integer((bytes.u16()? as i16).into()),
            4 => Value::Integer(bytes.u32()?.into()),
            5 => Value::Integer((bytes.u32()? as i32).into()),
            6 => Value::Float(f32::from_bits(bytes.u32()?).into()),
            7 => Value::Bool(bytes.u8()? != 0),
            8 => Value::Text(bytes.text()?),
            9 => {
                let ty = bytes.u32()?;
                if ty == 9 {
                    return Err(bytes.error("a list of lists"));
                }
                let len = bytes.u64()?;
                // No capacity from `len`: a file may claim any number, but must bring the bytes.
                let mut list = Vec::new();
                for _ in 0..len {
                    list.push(Value::read(bytes, ty)?);
                }
                Value::List(list)
            }
            10 => Value::Integer(bytes.u64()?.into()),
            11 => Value::Integer((bytes.u64()? as i64).into()),
            12 => Value::Float(f64::from_bits(bytes.u64()?)),
            _ => return Err(bytes.error(format!("there is no value type {ty}"))),
        })
    }
}
// ANCHOR_END: value

// ANCHOR: stored_tensor
/// A tensor as it lies in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTensor<'a> {
    /// How many numbers there are along each direction; neighbours in memory first.
    pub dims: Vec<u64>,
    /// How the numbers are written: 0 is f32, 12 is Q4_K.
    pub kind: u32,
    /// The numbers.
    pub data: &'a [u8],
}

/// Numbers in a block, and bytes of a block, of the kinds that this program reads.
pub fn block_size(kind: u32) -> Option<(u64, u64)> {
    match kind {
        0 => Some((1, 4)),      // F32
        1 => Some((1, 2)),      // F16
        2 => Some((32, 18)),    // Q4_0
        8 => Some((32, 34)),    // Q8_0
        12 => Some((256, 144)), // Q4_K
        14 => Some((256, 210)), // Q6_K
        _ => None,
    }
}

/// How many bytes a tensor takes; `None` if its rows are not whole blocks or the product overflows.
pub fn tensor_bytes(kind: u32, dims: &[u64]) -> Option<u64> {
    let (len, bytes) = block_size(kind)?;
    let (row, others) = dims.split_first()?;
    if row % len != 0 {
        return None;
    }
    others
        .iter()
        .try_fold(row / len, |blocks, dim| blocks.checked_mul(*dim))?
        .checked_mul(bytes)
}
// ANCHOR_END: stored_tensor

// ANCHOR: model_file
/// A parsed file. It borrows everything from the file's bytes.
#[derive(Clone, Debug)]
pub struct ModelFile<'a> {
    /// What the file says about its model.
    pub metadata: BTreeMap<&'a str, Value<'a>>,
    /// The tensors by name.
    pub tensors: BTreeMap<&'a str, StoredTensor<'a>>,
}

impl<'a> ModelFile<'a> {
    /// Reads the header, the metadata and the directory, and finds each tensor's bytes.
    pub fn parse(file: &'a [u8]) -> Result<ModelFile<'a>, ReadError> {
        let mut bytes = Bytes::new(file);
        if bytes.take(4)? != b"GGUF" {
            return Err(ReadError {
                at: 0,
                what: "no GGUF file".into(),
            });
        }
        let version = bytes.u32()?;
        if version != 2 && version != 3 {
            return Err(bytes.error(format!("version {version} of GGUF")));
        }
        let (n_tensors, n_values) = (bytes.u64()?, bytes.u64()?);

        let mut metadata = BTreeMap::new();
        for _ in 0..n_values {
            let key = bytes.text()?;
            let ty = bytes.u32()?;
            metadata.insert(key, Value::read(&mut bytes, ty)?);
        }

        let mut directory = Vec::new();
        for _ in 0..n_tensors {
            let name = bytes.text()?;
            let n_dims = bytes.u32()?;
            if n_dims == 0 || n_dims > 4 {
                return Err(bytes.error(format!("{name} has {n_dims} dimensions")));
            }
            let dims = (0..n_dims)
                .map(|_| bytes.u64())
                .collect::<Result<Vec<_>, _>>()?;
            directory.push((name, dims, bytes.u32()?, bytes.u64()?));
        }

        // Offsets count from the end of the directory, rounded up to the alignment.
        let alignment = match metadata.get("general.alignment") {
            Some(&Value::Integer(n @ 1..=65536)) => n as u64,
            Some(_) => return Err(bytes.error("an alignment that is none")),
            None => 32,
        };
        let start = (bytes.at() as u64).next_multiple_of(alignment);
        let mut tensors = BTreeMap::new();
        for (name, dims, kind, offset) in directory {
            let len = tensor_bytes(kind, &dims)
                .ok_or_else(|| bytes.error(format!("{name}: kind {kind}, dimensions {dims:?}")))?;
            let begin = start.checked_add(offset);
            let data = begin
                .and_then(|begin| Some(begin..begin.checked_add(len)?))
                .and_then(|range| file.get(range.start as usize..range.end as usize))
                .ok_or_else(|| bytes.error(format!("{name} reaches beyond the file")))?;
            tensors.insert(name, StoredTensor { dims, kind, data });
        }
        Ok(ModelFile { metadata, tensors })
    }

    /// A number of the metadata.
    pub fn number(&self, key: &str) -> Option<f64> {
        match *self.metadata.get(key)? {
            Value::Integer(n) => Some(n as f64),
            Value::Float(x) => Some(x),
            _ => None,
        }
    }
}
// ANCHOR_END: model_file
