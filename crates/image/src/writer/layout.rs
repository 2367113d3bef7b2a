//! A file as it will be: pieces at their places, zeros between them. Models are borrowed, never copied.

use std::borrow::Cow;
use std::io::{self, Write};

/// Pieces of a file.
#[derive(Clone, Debug, Default)]
pub struct Layout<'a> {
    pieces: Vec<(u64, Cow<'a, [u8]>)>,
    len: u64,
}

impl<'a> Layout<'a> {
    /// So many zeros, or more if something is put behind them.
    pub fn new(len: u64) -> Self {
        Self {
            pieces: Vec::new(),
            len,
        }
    }

    /// How many bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts bytes at a place where there are none yet.
    pub fn put(&mut self, at: u64, bytes: impl Into<Cow<'a, [u8]>>) {
        let bytes = bytes.into();
        self.len = self.len.max(at + bytes.len() as u64);
        if !bytes.is_empty() {
            self.pieces.push((at, bytes));
        }
    }

    /// Puts all of another file at a place where there is nothing yet.
    pub fn embed(&mut self, at: u64, other: Layout<'a>) {
        self.len = self.len.max(at + other.len);
        let moved = other.pieces.into_iter();
        self.pieces
            .extend(moved.map(|(place, bytes)| (at + place, bytes)));
    }

    /// Makes it end at a multiple of `unit`.
    pub fn pad(&mut self, unit: u64) {
        self.len = self.len.next_multiple_of(unit);
    }

    /// Writes it from its beginning to its end.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut pieces: Vec<_> = self.pieces.iter().collect();
        pieces.sort_by_key(|(at, _)| *at);
        let mut written = 0;
        for (at, bytes) in pieces {
            zeros(out, *at - written)?;
            out.write_all(bytes)?;
            written = *at + bytes.len() as u64;
        }
        zeros(out, self.len - written)
    }

    /// All of its bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // A vector takes everything.
        let _ = self.write_to(&mut out);
        out
    }

    /// The first bytes of each piece, to tell files apart by.
    pub(crate) fn fingerprint(&self) -> [u8; 16] {
        let mut sum = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58du128;
        let mut add = |bytes: &[u8]| {
            for &byte in bytes {
                sum ^= u128::from(byte);
                sum = sum.wrapping_mul(0x0100_0000_0000_0000_0000_013b);
            }
        };
        add(&self.len.to_le_bytes());
        for (at, bytes) in &self.pieces {
            add(&at.to_le_bytes());
            add(&bytes.len().to_le_bytes());
            add(&bytes[..bytes.len().min(4 << 20)]);
        }
        sum.to_le_bytes()
    }
}

fn zeros(out: &mut impl Write, mut count: u64) -> io::Result<()> {
    let block = [0; 1 << 14];
    while count > 0 {
        let part = count.min(block.len() as u64);
        out.write_all(&block[..part as usize])?;
        count -= part;
    }
    Ok(())
}
