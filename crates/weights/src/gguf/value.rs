//! Metadata values: thirteen types, arrays decoded lazily.

use core::fmt;
use core::iter::FusedIterator;
use core::str;

use super::cursor::Cursor;

/// The type of a metadata value; the discriminants are the ids in the file.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    Str = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    /// Every type, in the order of their ids.
    pub const ALL: [ValueType; 13] = {
        use ValueType::*;
        [
            U8, I8, U16, I16, U32, I32, F32, Bool, Str, Array, U64, I64, F64,
        ]
    };

    /// The type with this id in a file.
    pub fn from_id(id: u32) -> Option<ValueType> {
        Self::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// The id in a file.
    pub fn id(self) -> u32 {
        self as u32
    }

    /// The spelling in messages and JSON.
    pub fn name(self) -> &'static str {
        match self {
            ValueType::U8 => "u8",
            ValueType::I8 => "i8",
            ValueType::U16 => "u16",
            ValueType::I16 => "i16",
            ValueType::U32 => "u32",
            ValueType::I32 => "i32",
            ValueType::F32 => "f32",
            ValueType::Bool => "bool",
            ValueType::Str => "string",
            ValueType::Array => "array",
            ValueType::U64 => "u64",
            ValueType::I64 => "i64",
            ValueType::F64 => "f64",
        }
    }

    /// The bytes that every value of the type takes; `None` for strings and arrays.
    pub fn fixed_len(self) -> Option<u64> {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => Some(1),
            ValueType::U16 | ValueType::I16 => Some(2),
            ValueType::U32 | ValueType::I32 | ValueType::F32 => Some(4),
            ValueType::U64 | ValueType::I64 | ValueType::F64 => Some(8),
            ValueType::Str | ValueType::Array => None,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One metadata value. Strings and arrays borrow from the file.
#[derive(Copy, Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Str(&'a str),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl<'a> Value<'a> {
    /// The value's type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::Str(_) => ValueType::Str,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }

    /// The value as a wide integer, if it is an integer of any width.
    pub fn as_integer(&self) -> Option<i128> {
        match *self {
            Value::U8(x) => Some(x.into()),
            Value::I8(x) => Some(x.into()),
            Value::U16(x) => Some(x.into()),
            Value::I16(x) => Some(x.into()),
            Value::U32(x) => Some(x.into()),
            Value::I32(x) => Some(x.into()),
            Value::U64(x) => Some(x.into()),
            Value::I64(x) => Some(x.into()),
            _ => None,
        }
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&'a str> {
        match *self {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }

    /// The array, if it is one.
    pub fn as_array(&self) -> Option<Array<'a>> {
        match *self {
            Value::Array(a) => Some(a),
            _ => None,
        }
    }

    /// Decodes one scalar from bytes that were checked before; `None` if they were not.
    pub(super) fn decode(ty: ValueType, cursor: &mut Cursor<'a>) -> Option<Value<'a>> {
        Some(match ty {
            ValueType::U8 => Value::U8(u8::from_le_bytes(cursor.array().ok()?)),
            ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.array().ok()?)),
            ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.array().ok()?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.array().ok()?)),
            ValueType::U32 => Value::U32(u32::from_le_bytes(cursor.array().ok()?)),
            ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.array().ok()?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.array().ok()?)),
            ValueType::U64 => Value::U64(u64::from_le_bytes(cursor.array().ok()?)),
            ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.array().ok()?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.array().ok()?)),
            ValueType::Bool => match cursor.array().ok()? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                _ => return None,
            },
            ValueType::Str => {
                let len = cursor.u64().ok()?;
                Value::Str(str::from_utf8(cursor.take(len).ok()?).ok()?)
            }
            ValueType::Array => return None,
        })
    }
}

/// An array in the metadata: checked when the file was parsed, decoded as it is walked.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Array<'a> {
    element: ValueType,
    len: usize,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    pub(super) fn new(element: ValueType, len: usize, bytes: &'a [u8]) -> Array<'a> {
        Array {
            element,
            len,
            bytes,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The type of every element; never [`ValueType::Array`].
    pub fn element_type(&self) -> ValueType {
        self.element
    }

    /// The elements as they lie in the file.
    pub fn raw(&self) -> &'a [u8] {
        self.bytes
    }

    /// Walks the elements.
    pub fn iter(&self) -> Values<'a> {
        Values {
            element: self.element,
            left: self.len,
            cursor: Cursor::new(self.bytes),
        }
    }

    /// Walks an array of strings.
    pub fn strs(&self) -> Option<Strs<'a>> {
        (self.element == ValueType::Str).then(|| Strs(self.iter()))
    }

    /// Walks an array of `u8`.
    pub fn u8s(&self) -> Option<impl ExactSizeIterator<Item = u8> + use<'a>> {
        self.numbers(ValueType::U8, u8::from_le_bytes)
    }

    /// Walks an array of `i8`.
    pub fn i8s(&self) -> Option<impl ExactSizeIterator<Item = i8> + use<'a>> {
        self.numbers(ValueType::I8, i8::from_le_bytes)
    }

    /// Walks an array of `u16`.
    pub fn u16s(&self) -> Option<impl ExactSizeIterator<Item = u16> + use<'a>> {
        self.numbers(ValueType::U16, u16::from_le_bytes)
    }

    /// Walks an array of `i16`.
    pub fn i16s(&self) -> Option<impl ExactSizeIterator<Item = i16> + use<'a>> {
        self.numbers(ValueType::I16, i16::from_le_bytes)
    }

    /// Walks an array of `u32`.
    pub fn u32s(&self) -> Option<impl ExactSizeIterator<Item = u32> + use<'a>> {
        self.numbers(ValueType::U32, u32::from_le_bytes)
    }

    /// Walks an array of `i32`.
    pub fn i32s(&self) -> Option<impl ExactSizeIterator<Item = i32> + use<'a>> {
        self.numbers(ValueType::I32, i32::from_le_bytes)
    }

    /// Walks an array of `u64`.
    pub fn u64s(&self) -> Option<impl ExactSizeIterator<Item = u64> + use<'a>> {
        self.numbers(ValueType::U64, u64::from_le_bytes)
    }

    /// Walks an array of `i64`.
    pub fn i64s(&self) -> Option<impl ExactSizeIterator<Item = i64> + use<'a>> {
        self.numbers(ValueType::I64, i64::from_le_bytes)
    }

    /// Walks an array of `f32`.
    pub fn f32s(&self) -> Option<impl ExactSizeIterator<Item = f32> + use<'a>> {
        self.numbers(ValueType::F32, f32::from_le_bytes)
    }

    /// Walks an array of `f64`.
    pub fn f64s(&self) -> Option<impl ExactSizeIterator<Item = f64> + use<'a>> {
        self.numbers(ValueType::F64, f64::from_le_bytes)
    }

    /// Walks an array of `bool`.
    pub fn bools(&self) -> Option<impl ExactSizeIterator<Item = bool> + use<'a>> {
        self.numbers(ValueType::Bool, |[byte]| byte != 0)
    }

    /// Walks an array of integers of any width.
    pub fn integers(&self) -> Option<impl Iterator<Item = i128> + use<'a>> {
        let is_integer = !matches!(
            self.element,
            ValueType::F32 | ValueType::F64 | ValueType::Bool | ValueType::Str | ValueType::Array
        );
        is_integer.then(|| self.iter().filter_map(|value| value.as_integer()))
    }

    fn numbers<T, const N: usize>(
        &self,
        element: ValueType,
        decode: fn([u8; N]) -> T,
    ) -> Option<impl ExactSizeIterator<Item = T> + use<'a, T, N>> {
        let chunks = self.bytes.as_chunks::<N>().0;
        (self.element == element).then(|| chunks.iter().map(move |chunk| decode(*chunk)))
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} x {})", self.len, self.element)
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = Values<'a>;

    fn into_iter(self) -> Values<'a> {
        self.iter()
    }
}

/// The elements of an [`Array`].
#[derive(Clone)]
pub struct Values<'a> {
    element: ValueType,
    left: usize,
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        Value::decode(self.element, &mut self.cursor)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Values<'_> {}
impl FusedIterator for Values<'_> {}

/// The elements of an [`Array`] of strings.
#[derive(Clone)]
pub struct Strs<'a>(Values<'a>);

impl<'a> Iterator for Strs<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.0.next()?.as_str()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Strs<'_> {}
impl FusedIterator for Strs<'_> {}
