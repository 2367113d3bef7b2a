//! Little-endian numbers and texts out of a slice of bytes.

// ANCHOR: read_error
/// What is wrong with a file, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The offset in the file.
    pub at: usize,
    /// What was expected there.
    pub what: String,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for ReadError {}
// ANCHOR_END: read_error

// ANCHOR: bytes
/// A place in a file, which moves on as numbers are read.
#[derive(Clone, Debug)]
pub struct Bytes<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    /// The start of a file.
    pub fn new(file: &'a [u8]) -> Self {
        Bytes { file, at: 0 }
    }

    /// The offset of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// An error at the next byte.
    pub fn error(&self, what: impl Into<String>) -> ReadError {
        ReadError {
            at: self.at,
            what: what.into(),
        }
    }

    /// The next bytes.
    pub fn take(&mut self, len: u64) -> Result<&'a [u8], ReadError> {
        let left = &self.file[self.at..];
        match usize::try_from(len) {
            Ok(len) if len <= left.len() => {
                self.at += len;
                Ok(&left[..len])
            }
            _ => Err(self.error(format!("{len} bytes expected, {} left", left.len()))),
        }
    }

    /// The next bytes, as many as a number has.
    fn number<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let bytes = self.take(N as u64)?;
        Ok(bytes.try_into().expect("take gives what was asked for"))
    }

    /// A byte.
    pub fn u8(&mut self) -> Result<u8, ReadError> {
        self.number().map(u8::from_le_bytes)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, ReadError> {
        self.number().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, ReadError> {
        self.number().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, ReadError> {
        self.number().map(u64::from_le_bytes)
    }

    /// A text: its length in eight bytes, then UTF-8.
    pub fn text(&mut self) -> Result<&'a str, ReadError> {
        let len = self.u64()?;
        let start = self.clone();
        std::str::from_utf8(self.take(len)?).map_err(|_| start.error("the text is not UTF-8"))
    }
}
// ANCHOR_END: bytes
