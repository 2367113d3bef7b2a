//! The writer: metadata and tensor descriptions in, a header and a plan of the file out.
//!
//! It holds no tensor data, so a caller can stream gigabytes: write [`Layout::header`], then each
//! tensor's bytes and zeros up to its [`Extent::padded_len`].

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use strata_quant::GgmlType;

use super::error::ShapeError;
use super::name::Name;
use super::tensor::{Dims, byte_len};
use super::value::{Value, ValueType};
use super::{
    ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC, MAX_KEY_LEN, MAX_KEYS, MAX_TENSOR_NAME_LEN,
    MAX_TENSORS, alignment_is_valid,
};

/// The version written.
const VERSION: u32 = 3;

/// Why a file cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum WriteError {
    #[error("a metadata key is {len} bytes long; 1 to {MAX_KEY_LEN} are allowed")]
    KeyLength { len: u64 },
    #[error("the metadata key {key} was set twice")]
    DuplicateKey { key: Name },
    #[error("there are more than {MAX_KEYS} metadata pairs")]
    TooManyKeys,
    #[error("general.alignment must be a u32, a power of two and 8 to 1048576")]
    Alignment,
    #[error("a tensor's name is {len} bytes long; 1 to {MAX_TENSOR_NAME_LEN} are allowed")]
    TensorNameLength { len: u64 },
    #[error("the tensor {tensor} was declared twice")]
    DuplicateTensor { tensor: Name },
    #[error("there are more than {MAX_TENSORS} tensors")]
    TooManyTensors,
    #[error("the tensor {tensor} has {source}")]
    Shape { tensor: Name, source: ShapeError },
    #[error("the file would be longer than 64 bits can say")]
    TooLong,
}

/// What can be a metadata value, or an element of an array of them.
pub trait Element: Encode {}

mod sealed {
    use super::{ValueType, Vec};

    pub trait Encode {
        const TYPE: ValueType;
        fn encode(&self, out: &mut Vec<u8>);
    }
}
use sealed::Encode;

macro_rules! numbers {
    ($($number:ident $ty:ident;)*) => {$(
        impl Encode for $number {
            const TYPE: ValueType = ValueType::$ty;
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
        impl Element for $number {}
    )*};
}
numbers! { u8 U8; i8 I8; u16 U16; i16 I16; u32 U32; i32 I32; f32 F32; u64 U64; i64 I64; f64 F64; }

impl Encode for bool {
    const TYPE: ValueType = ValueType::Bool;
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}
impl Element for bool {}

impl Encode for str {
    const TYPE: ValueType = ValueType::Str;
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.len() as u64).to_le_bytes());
        out.extend_from_slice(self.as_bytes());
    }
}
impl Element for str {}

impl Encode for String {
    const TYPE: ValueType = ValueType::Str;
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().encode(out);
    }
}
impl Element for String {}

impl<T: Encode + ?Sized> Encode for &T {
    const TYPE: ValueType = T::TYPE;
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}
impl<T: Element + ?Sized> Element for &T {}

/// Collects metadata and tensor descriptions, in order, under the rules that the reader checks.
///
/// Set `general.alignment` (a `u32`) like any other key to change the alignment from 32.
#[derive(Clone, Debug)]
pub struct Builder {
    alignment: u64,
    pairs: Vec<u8>,
    keys: BTreeSet<String>,
    tensors: Vec<Declared>,
    names: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Declared {
    name: String,
    ty: GgmlType,
    dims: Dims,
    len: u64,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// A file with nothing in it.
    pub fn new() -> Builder {
        Builder {
            alignment: DEFAULT_ALIGNMENT,
            pairs: Vec::new(),
            keys: BTreeSet::new(),
            tensors: Vec::new(),
            names: BTreeSet::new(),
        }
    }

    /// Sets a key to a number, a bool or a string.
    pub fn set(&mut self, key: &str, value: impl Element) -> Result<&mut Builder, WriteError> {
        if key == ALIGNMENT_KEY {
            let mut bytes = Vec::new();
            value.encode(&mut bytes);
            return self.set_alignment(type_of(&value), &bytes);
        }
        self.begin(key, type_of(&value))?;
        value.encode(&mut self.pairs);
        Ok(self)
    }

    /// Sets a key to an array of numbers, bools or strings.
    pub fn set_array<E: Element>(
        &mut self,
        key: &str,
        elements: impl IntoIterator<Item = E>,
    ) -> Result<&mut Builder, WriteError> {
        self.begin(key, ValueType::Array)?;
        E::TYPE.id().encode(&mut self.pairs);
        let len_at = self.pairs.len();
        0u64.encode(&mut self.pairs);
        let mut len = 0u64;
        for element in elements {
            element.encode(&mut self.pairs);
            len += 1;
        }
        self.pairs[len_at..len_at + 8].copy_from_slice(&len.to_le_bytes());
        Ok(self)
    }

    /// Sets a key to a value read from another file.
    pub fn set_value(&mut self, key: &str, value: Value<'_>) -> Result<&mut Builder, WriteError> {
        match value {
            Value::U8(x) => self.set(key, x),
            Value::I8(x) => self.set(key, x),
            Value::U16(x) => self.set(key, x),
            Value::I16(x) => self.set(key, x),
            Value::U32(x) => self.set(key, x),
            Value::I32(x) => self.set(key, x),
            Value::F32(x) => self.set(key, x),
            Value::Bool(x) => self.set(key, x),
            Value::Str(x) => self.set(key, x),
            Value::U64(x) => self.set(key, x),
            Value::I64(x) => self.set(key, x),
            Value::F64(x) => self.set(key, x),
            Value::Array(array) => {
                self.begin(key, ValueType::Array)?;
                array.element_type().id().encode(&mut self.pairs);
                (array.len() as u64).encode(&mut self.pairs);
                self.pairs.extend_from_slice(array.raw());
                Ok(self)
            }
        }
    }

    /// Declares a tensor; the file's data follows the order of declaration. Dimensions are innermost first.
    pub fn tensor(
        &mut self,
        name: &str,
        ty: GgmlType,
        dims: &[u64],
    ) -> Result<&mut Builder, WriteError> {
        let len = name.len() as u64;
        if !(1..=MAX_TENSOR_NAME_LEN).contains(&len) {
            return Err(WriteError::TensorNameLength { len });
        }
        if self.tensors.len() as u64 >= MAX_TENSORS {
            return Err(WriteError::TooManyTensors);
        }
        let shape = |source| WriteError::Shape {
            tensor: Name::new(name),
            source,
        };
        let dims = Dims::new(dims).map_err(shape)?;
        let len = byte_len(ty, &dims).map_err(shape)?;
        if !self.names.insert(name.into()) {
            return Err(WriteError::DuplicateTensor {
                tensor: Name::new(name),
            });
        }
        self.tensors.push(Declared {
            name: name.into(),
            ty,
            dims,
            len,
        });
        Ok(self)
    }

    /// Lays the file out.
    pub fn finish(&self) -> Result<Layout, WriteError> {
        let mut header = Vec::with_capacity(self.pairs.len() + 128 * self.tensors.len() + 64);
        header.extend_from_slice(&MAGIC);
        VERSION.encode(&mut header);
        (self.tensors.len() as u64).encode(&mut header);
        (self.keys.len() as u64).encode(&mut header);
        header.extend_from_slice(&self.pairs);

        let mut tensors = Vec::with_capacity(self.tensors.len());
        let mut offset = 0u64;
        for tensor in &self.tensors {
            tensor.name.encode(&mut header);
            (tensor.dims.len() as u32).encode(&mut header);
            tensor.dims.iter().for_each(|dim| dim.encode(&mut header));
            tensor.ty.id().encode(&mut header);
            offset.encode(&mut header);
            let end = offset.checked_add(tensor.len);
            let end = end.and_then(|end| end.checked_next_multiple_of(self.alignment));
            let end = end.ok_or(WriteError::TooLong)?;
            tensors.push(Extent {
                offset,
                len: tensor.len,
                padded_len: end - offset,
            });
            offset = end;
        }
        let padded = header.len().next_multiple_of(self.alignment as usize);
        header.resize(padded, 0);
        let total_len = offset
            .checked_add(padded as u64)
            .ok_or(WriteError::TooLong)?;
        Ok(Layout {
            header,
            tensors,
            alignment: self.alignment,
            total_len,
        })
    }

    fn set_alignment(&mut self, ty: ValueType, bytes: &[u8]) -> Result<&mut Builder, WriteError> {
        let alignment = match (ty, bytes.as_array()) {
            (ValueType::U32, Some(&bytes)) => u32::from_le_bytes(bytes).into(),
            _ => return Err(WriteError::Alignment),
        };
        if !alignment_is_valid(alignment) {
            return Err(WriteError::Alignment);
        }
        self.begin(ALIGNMENT_KEY, ty)?;
        self.pairs.extend_from_slice(bytes);
        self.alignment = alignment;
        Ok(self)
    }

    /// Checks a key and writes it with its type; the value comes next.
    fn begin(&mut self, key: &str, ty: ValueType) -> Result<(), WriteError> {
        let len = key.len() as u64;
        if !(1..=MAX_KEY_LEN).contains(&len) {
            return Err(WriteError::KeyLength { len });
        }
        if key == ALIGNMENT_KEY && ty != ValueType::U32 {
            return Err(WriteError::Alignment);
        }
        if self.keys.len() as u64 >= MAX_KEYS {
            return Err(WriteError::TooManyKeys);
        }
        if !self.keys.insert(key.into()) {
            return Err(WriteError::DuplicateKey {
                key: Name::new(key),
            });
        }
        key.encode(&mut self.pairs);
        ty.id().encode(&mut self.pairs);
        Ok(())
    }
}

fn type_of<E: Element>(_: &E) -> ValueType {
    E::TYPE
}

/// Where a tensor's data goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins, counted from the end of the header.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
    /// Its bytes and the zeros that follow them.
    pub padded_len: u64,
}

/// A file without its tensors' data.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The file's beginning, padded: the first tensor's data comes next.
    pub header: Vec<u8>,
    /// The tensors in the order of declaration.
    pub tensors: Vec<Extent>,
    /// What offsets are multiples of.
    pub alignment: u64,
    /// The length of the whole file, the last tensor's padding included.
    pub total_len: u64,
}
