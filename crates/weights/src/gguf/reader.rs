//! The reader: a whole file checked in one pass over its header.

use alloc::vec::Vec;
use core::str;

use strata_quant::GgmlType;

use super::cursor::Cursor;
use super::error::{GgufError, GgufSection, ShapeError};
use super::metadata::{Metadata, Pair, find_by_name, index_by_name};
use super::name::Name;
use super::tensor::{Dims, Tensor, byte_len};
use super::value::{Array, Value, ValueType};
use super::{
    ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC, MAX_KEY_LEN, MAX_KEYS, MAX_TENSOR_NAME_LEN,
    MAX_TENSORS, alignment_is_valid,
};

/// The fewest bytes of a metadata pair: key length, one letter, type, one byte.
const MIN_PAIR_LEN: u64 = 8 + 1 + 4 + 1;
/// The fewest bytes of a tensor's description: name length, one letter, rank, one dimension, type, offset.
const MIN_INFO_LEN: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// A GGUF file whose every claim has been checked. Borrows the bytes; holds only its directory.
#[derive(Clone, Debug)]
pub struct Gguf<'a> {
    version: u32,
    alignment: u64,
    data_offset: u64,
    metadata: Metadata<'a>,
    tensors: Vec<Tensor<'a>>,
    /// Positions in `tensors`, sorted by name.
    by_name: Vec<u32>,
}

impl<'a> Gguf<'a> {
    /// Parses and checks a file. Time is linear in the header's length (and n log n in its entries);
    /// memory is about 100 bytes for each metadata pair and each tensor, whose numbers are limited.
    pub fn parse(bytes: &'a [u8]) -> Result<Gguf<'a>, GgufError> {
        let mut cursor = Cursor::new(bytes);
        let version = read_version(&mut cursor)?;
        let (tensor_count, key_count) = read_counts(&mut cursor)?;

        let mut pairs = Vec::with_capacity(key_count);
        for index in 0..key_count {
            pairs.push(read_pair(&mut cursor, index as u64)?);
        }
        let metadata = Metadata::new(pairs)?;
        let alignment = alignment_of(&metadata)?;

        let mut infos = Vec::with_capacity(tensor_count);
        for index in 0..tensor_count {
            infos.push(read_info(&mut cursor, index as u64)?);
        }
        let by_name = index_by_name(&infos, |info| info.name).map_err(|position| {
            let Info {
                at: offset, name, ..
            } = infos[position];
            GgufError::DuplicateTensor {
                offset,
                tensor: Name::new(name),
            }
        })?;

        // The header ended within the bytes and the alignment is small: this cannot overflow. A file
        // without tensors may end before its padding does.
        let data_offset = cursor.offset().next_multiple_of(alignment);
        let section = usize::try_from(data_offset)
            .ok()
            .and_then(|start| bytes.get(start..));
        let section = section.unwrap_or_default();
        let tensors = infos
            .iter()
            .map(|info| info.tensor(section, alignment))
            .collect::<Result<_, _>>()?;
        check_overlap(&infos)?;
        Ok(Gguf {
            version,
            alignment,
            data_offset,
            metadata,
            tensors,
            by_name,
        })
    }

    /// The format's version: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What tensors' offsets are multiples of.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Where the data section begins in the file.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata<'a> {
        &self.metadata
    }

    /// The tensors in file order.
    pub fn tensors(&self) -> &[Tensor<'a>] {
        &self.tensors
    }

    /// The tensor of a name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor<'a>> {
        find_by_name(&self.tensors, &self.by_name, name, |tensor| tensor.name)
    }

    /// Takes the directory apart.
    pub(super) fn into_parts(self) -> (Metadata<'a>, Vec<Tensor<'a>>) {
        (self.metadata, self.tensors)
    }
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u32, GgufError> {
    let found: [u8; 4] = cursor
        .array()
        .map_err(|short| short.in_place(GgufSection::Header))?;
    if found.iter().eq(MAGIC.iter().rev()) {
        return Err(GgufError::BigEndian { offset: 0 });
    }
    if found != MAGIC {
        return Err(GgufError::Magic { found });
    }
    let offset = cursor.offset();
    let version = cursor
        .u32()
        .map_err(|short| short.in_place(GgufSection::Header))?;
    match (version, version.swap_bytes()) {
        (2 | 3, _) => Ok(version),
        (1, _) => Err(GgufError::Version1 { offset }),
        (_, 1..=3) => Err(GgufError::BigEndian { offset }),
        _ => Err(GgufError::UnknownVersion { offset, version }),
    }
}

/// The numbers of tensors and of metadata pairs, no more than can be in the bytes that follow.
fn read_counts(cursor: &mut Cursor<'_>) -> Result<(usize, usize), GgufError> {
    let offset = cursor.offset();
    let mut read = || {
        cursor
            .u64()
            .map_err(|short| short.in_place(GgufSection::Header))
    };
    let (tensors, keys) = (read()?, read()?);
    let limit = MAX_KEYS.min(cursor.remaining() / MIN_PAIR_LEN);
    if keys > limit {
        return Err(GgufError::KeyCount {
            offset: offset + 8,
            count: keys,
            limit,
        });
    }
    let limit = MAX_TENSORS.min((cursor.remaining() - keys * MIN_PAIR_LEN) / MIN_INFO_LEN);
    if tensors > limit {
        return Err(GgufError::TensorCount {
            offset,
            count: tensors,
            limit,
        });
    }
    Ok((tensors as usize, keys as usize))
}

fn read_pair<'a>(cursor: &mut Cursor<'a>, index: u64) -> Result<Pair<'a>, GgufError> {
    let place = || GgufSection::Key(index);
    let offset = cursor.offset();
    let len = cursor.u64().map_err(|short| short.in_place(place()))?;
    if !(1..=MAX_KEY_LEN).contains(&len) {
        return Err(GgufError::KeyLength { offset, len });
    }
    let key = read_text(cursor, len, place)?;
    let at = cursor.offset();
    let id = cursor
        .u32()
        .map_err(|short| short.in_place(GgufSection::Value(Name::new(key))))?;
    let value = match ValueType::from_id(id) {
        Some(ValueType::Array) => Value::Array(read_array(cursor, key)?),
        Some(ty) => read_scalar(cursor, key, ty)?,
        None => {
            return Err(GgufError::UnknownValueType {
                offset: at,
                key: Name::new(key),
                id,
            });
        }
    };
    Ok(Pair { offset, key, value })
}

fn read_text<'a>(
    cursor: &mut Cursor<'a>,
    len: u64,
    place: impl Fn() -> GgufSection,
) -> Result<&'a str, GgufError> {
    let start = cursor.offset();
    let bytes = cursor.take(len).map_err(|short| short.in_place(place()))?;
    str::from_utf8(bytes).map_err(|error| GgufError::NotUtf8 {
        offset: start + error.valid_up_to() as u64,
        place: place(),
    })
}

/// Any value but an array.
fn read_scalar<'a>(
    cursor: &mut Cursor<'a>,
    key: &str,
    ty: ValueType,
) -> Result<Value<'a>, GgufError> {
    let place = || GgufSection::Value(Name::new(key));
    let offset = cursor.offset();
    match ty.fixed_len() {
        Some(len) => {
            let bytes = cursor.take(len).map_err(|short| short.in_place(place()))?;
            // Enough bytes are there, so only a bool can fail to decode.
            Value::decode(ty, &mut Cursor::new(bytes)).ok_or_else(|| GgufError::BadBool {
                offset,
                key: Name::new(key),
                found: bytes.first().copied().unwrap_or_default(),
            })
        }
        None => {
            let len = cursor.u64().map_err(|short| short.in_place(place()))?;
            read_text(cursor, len, place).map(Value::Str)
        }
    }
}

/// Walks an array once, so that it can be decoded lazily later without failing.
fn read_array<'a>(cursor: &mut Cursor<'a>, key: &str) -> Result<Array<'a>, GgufError> {
    let place = || GgufSection::Value(Name::new(key));
    let offset = cursor.offset();
    let id = cursor.u32().map_err(|short| short.in_place(place()))?;
    let element = match ValueType::from_id(id) {
        Some(ValueType::Array) => {
            return Err(GgufError::NestedArray {
                offset,
                key: Name::new(key),
            });
        }
        Some(element) => element,
        None => {
            return Err(GgufError::UnknownValueType {
                offset,
                key: Name::new(key),
                id,
            });
        }
    };
    let offset = cursor.offset();
    let len = cursor.u64().map_err(|short| short.in_place(place()))?;
    // A string takes at least the eight bytes of its length.
    let needed = len.checked_mul(element.fixed_len().unwrap_or(8));
    let remaining = cursor.remaining();
    let (Some(count), Some(needed)) = (
        usize::try_from(len).ok(),
        needed.filter(|&needed| needed <= remaining),
    ) else {
        return Err(GgufError::ArrayLength {
            offset,
            key: Name::new(key),
            len,
            remaining,
        });
    };
    let mut walker = cursor.clone();
    let bytes_len = match element {
        ValueType::Str | ValueType::Bool => {
            for _ in 0..count {
                read_scalar(&mut walker, key, element)?;
            }
            walker.offset() - cursor.offset()
        }
        _ => needed,
    };
    let bytes = cursor
        .take(bytes_len)
        .map_err(|short| short.in_place(place()))?;
    Ok(Array::new(element, count, bytes))
}

fn alignment_of(metadata: &Metadata<'_>) -> Result<u64, GgufError> {
    let Some(pair) = metadata.pair(ALIGNMENT_KEY) else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    let Value::U32(alignment) = pair.value else {
        return Err(GgufError::WrongType {
            key: Name::new(ALIGNMENT_KEY),
            expected: ValueType::U32,
            found: pair.value.value_type(),
        });
    };
    let found = u64::from(alignment);
    if !alignment_is_valid(found) {
        return Err(GgufError::Alignment {
            offset: pair.offset,
            found,
        });
    }
    Ok(found)
}

/// A tensor's description.
struct Info<'a> {
    /// Where the description begins.
    at: u64,
    name: &'a str,
    ty: GgmlType,
    dims: Dims,
    /// Of the data in its section.
    start: u64,
    len: u64,
}

fn read_info<'a>(cursor: &mut Cursor<'a>, index: u64) -> Result<Info<'a>, GgufError> {
    let at = cursor.offset();
    let len = cursor
        .u64()
        .map_err(|short| short.in_place(GgufSection::TensorName(index)))?;
    if !(1..=MAX_TENSOR_NAME_LEN).contains(&len) {
        return Err(GgufError::TensorNameLength { offset: at, len });
    }
    let name = read_text(cursor, len, || GgufSection::TensorName(index))?;
    let place = || GgufSection::Tensor(Name::new(name));
    let shape = |source| GgufError::Shape {
        offset: at,
        tensor: Name::new(name),
        source,
    };

    let rank = cursor.u32().map_err(|short| short.in_place(place()))?;
    let mut dims = [0; 4];
    let dims = match usize::try_from(rank)
        .ok()
        .and_then(|rank| dims.get_mut(..rank))
    {
        Some(dims) => dims,
        None => return Err(shape(ShapeError::DimCount { count: rank.into() })),
    };
    for dim in &mut *dims {
        *dim = cursor.u64().map_err(|short| short.in_place(place()))?;
    }
    let dims = Dims::new(dims).map_err(shape)?;

    let offset = cursor.offset();
    let id = cursor.u32().map_err(|short| short.in_place(place()))?;
    let ty = GgmlType::from_id(id).ok_or_else(|| GgufError::UnknownTensorType {
        offset,
        tensor: Name::new(name),
        id,
    })?;
    let start = cursor.u64().map_err(|short| short.in_place(place()))?;
    let len = byte_len(ty, &dims).map_err(shape)?;
    Ok(Info {
        at,
        name,
        ty,
        dims,
        start,
        len,
    })
}

impl<'a> Info<'a> {
    /// The tensor with its data, which must lie aligned in the data section.
    fn tensor(&self, section: &'a [u8], alignment: u64) -> Result<Tensor<'a>, GgufError> {
        let Info {
            at: offset,
            name,
            ty,
            dims,
            start,
            len,
        } = *self;
        if start % alignment != 0 {
            return Err(GgufError::Unaligned {
                offset,
                tensor: Name::new(name),
                start,
                alignment,
            });
        }
        let range = start
            .checked_add(len)
            .and_then(|end| Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?));
        match range.and_then(|range| section.get(range)) {
            Some(data) => Ok(Tensor {
                name,
                ty,
                dims,
                offset: start,
                data,
            }),
            None => Err(GgufError::OutsideFile {
                offset,
                tensor: Name::new(name),
                start,
                len,
                section: section.len() as u64,
            }),
        }
    }
}

/// No byte belongs to two tensors. The extents have been found to lie in the file: their ends are exact.
fn check_overlap(infos: &[Info<'_>]) -> Result<(), GgufError> {
    let mut order: Vec<&Info<'_>> = infos.iter().collect();
    order.sort_unstable_by_key(|info| (info.start, info.at));
    for pair in order.windows(2) {
        let [before, after] = pair else { continue };
        if before.start.saturating_add(before.len) > after.start {
            return Err(GgufError::Overlap {
                offset: after.at,
                tensor: Name::new(after.name),
                other: Name::new(before.name),
            });
        }
    }
    Ok(())
}
