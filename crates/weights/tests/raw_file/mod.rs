//! A file written field by field with no check at all, to write what must be refused.
#![allow(dead_code, reason = "each test binary uses a part")]

/// The bytes so far.
#[derive(Clone)]
pub(crate) struct Raw(pub(crate) Vec<u8>);

impl Raw {
    /// Magic, version 3 and counts.
    pub(crate) fn new(tensors: u64, keys: u64) -> Raw {
        Raw(b"GGUF".to_vec()).u32(3).u64(tensors).u64(keys)
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Raw {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u32(self, value: u32) -> Raw {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u64(self, value: u64) -> Raw {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn text(self, text: &[u8]) -> Raw {
        self.u64(text.len() as u64).bytes(text)
    }

    /// A metadata pair whose value is these bytes.
    pub(crate) fn pair(self, key: &str, ty: u32, value: &[u8]) -> Raw {
        self.text(key.as_bytes()).u32(ty).bytes(value)
    }

    /// A pair that is an array of this many, followed by these bytes.
    pub(crate) fn array(self, key: &str, element: u32, len: u64, elements: &[u8]) -> Raw {
        self.pair(key, 9, &element.to_le_bytes())
            .u64(len)
            .bytes(elements)
    }

    /// A tensor's description.
    pub(crate) fn tensor(self, name: &str, dims: &[u64], ty: u32, offset: u64) -> Raw {
        let raw = self.text(name.as_bytes()).u32(dims.len() as u32);
        dims.iter()
            .fold(raw, |raw, &dim| raw.u64(dim))
            .u32(ty)
            .u64(offset)
    }

    /// Zeros up to the alignment, then this many more.
    pub(crate) fn data(mut self, alignment: usize, len: usize) -> Vec<u8> {
        self.0
            .resize(self.0.len().next_multiple_of(alignment) + len, 0);
        self.0
    }
}
