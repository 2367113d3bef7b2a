//! The header's JSON, read without building a tree of it.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::MAX_TENSORS;
use crate::checkpoint_tensor::MAX_DIMS;

/// The tensors' names and descriptions, in the header's order, up to one more than allowed.
pub(super) struct Header<'a>(pub(super) Vec<(Cow<'a, str>, Entry<'a>)>);

#[derive(serde::Deserialize)]
pub(super) struct Entry<'a> {
    #[serde(borrow)]
    pub(super) dtype: Text<'a>,
    pub(super) shape: Shape,
    pub(super) data_offsets: [u64; 2],
}

/// Dimensions, up to one more than allowed.
pub(super) struct Shape(pub(super) Vec<u64>);

impl Deref for Shape {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.0
    }
}

/// Text that is borrowed where it has no escapes.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Str;
        impl<'de> Visitor<'de> for Str {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(String::from(text))))
            }
        }
        deserializer.deserialize_str(Str)
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Dims;
        impl<'de> Visitor<'de> for Dims {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut dims: A) -> Result<Shape, A::Error> {
                let mut shape = Vec::new();
                while let Some(dim) = dims.next_element()? {
                    if shape.len() <= MAX_DIMS {
                        shape.push(dim);
                    }
                }
                Ok(Shape(shape))
            }
        }
        deserializer.deserialize_seq(Dims)
    }
}

impl<'de> Deserialize<'de> for Header<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Header<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(Text(name)) = map.next_key()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        let entry = map.next_value()?;
                        if entries.len() <= MAX_TENSORS {
                            entries.push((name, entry));
                        }
                    }
                }
                Ok(Header(entries))
            }
        }
        deserializer.deserialize_map(Map)
    }
}
