//! A position in the bytes of a file.

use super::error::{GgufError, GgufSection};

/// Reads forward over bytes and never past them.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Fewer bytes left than asked for.
#[derive(Debug)]
pub(super) struct Short {
    pub(super) offset: u64,
    pub(super) needed: u64,
    pub(super) remaining: u64,
}

impl Short {
    pub(super) fn in_place(self, place: GgufSection) -> GgufError {
        let Short {
            offset,
            needed,
            remaining,
        } = self;
        GgufError::Truncated {
            offset,
            needed,
            remaining,
            place,
        }
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub(super) fn offset(&self) -> u64 {
        self.at as u64
    }

    pub(super) fn remaining(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    pub(super) fn take(&mut self, len: u64) -> Result<&'a [u8], Short> {
        let end = usize::try_from(len)
            .ok()
            .and_then(|len| self.at.checked_add(len));
        let taken = end.and_then(|end| Some((end, self.bytes.get(self.at..end)?)));
        let Some((end, bytes)) = taken else {
            return Err(Short {
                offset: self.offset(),
                needed: len,
                remaining: self.remaining(),
            });
        };
        self.at = end;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64)?);
        Ok(out)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_le_bytes)
    }
}
