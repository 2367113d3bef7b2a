//! The body of a request, as it comes.

use super::{HttpError, Length, MAX_BODY};
use alloc::vec::Vec;

/// A chunk's first line, with whatever extensions it has.
const MAX_CHUNK_LINE: usize = 256;

/// A body that is being read.
#[derive(Debug)]
pub(super) struct Body {
    bytes: Vec<u8>,
    phase: Phase,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// So many bytes, and that is all.
    Plain(usize),
    Size,
    /// So many bytes, then the end of a line.
    Data(usize),
    DataEnd,
    /// Lines until an empty one; so many bytes of them so far.
    Trailer(usize),
}

impl Body {
    pub(super) fn new(length: Length) -> Result<Self, HttpError> {
        let phase = match length {
            Length::Bytes(bytes) if bytes > MAX_BODY => return Err(HttpError::BodyTooLarge),
            Length::Bytes(bytes) => Phase::Plain(bytes),
            Length::Chunked => Phase::Size,
        };
        Ok(Self {
            bytes: Vec::new(),
            phase,
        })
    }

    /// Takes what it can from `input`, and says how much that was and whether the body is complete.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<(usize, bool), HttpError> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.phase {
                Phase::Plain(missing) => {
                    let part = missing.min(rest.len());
                    self.bytes.extend_from_slice(&rest[..part]);
                    self.phase = Phase::Plain(missing - part);
                    return Ok((at + part, missing == part));
                }
                Phase::Size => {
                    let Some(line) = line(rest)? else {
                        return Ok((at, false));
                    };
                    at += line.len() + 2;
                    let size = size(line).ok_or(HttpError::Chunk)?;
                    if size > MAX_BODY - self.bytes.len() {
                        return Err(HttpError::BodyTooLarge);
                    }
                    self.phase = match size {
                        0 => Phase::Trailer(0),
                        size => Phase::Data(size),
                    };
                }
                Phase::Data(missing) => {
                    let part = missing.min(rest.len());
                    self.bytes.extend_from_slice(&rest[..part]);
                    at += part;
                    if part < missing {
                        self.phase = Phase::Data(missing - part);
                        return Ok((at, false));
                    }
                    self.phase = Phase::DataEnd;
                }
                Phase::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        at += 2;
                        self.phase = Phase::Size;
                    }
                    [] | [b'\r'] => return Ok((at, false)),
                    _ => return Err(HttpError::Chunk),
                },
                Phase::Trailer(before) => {
                    let Some(line) = line(rest)? else {
                        return Ok((at, false));
                    };
                    at += line.len() + 2;
                    if line.is_empty() {
                        return Ok((at, true));
                    }
                    let read = before + line.len();
                    if read > MAX_CHUNK_LINE * 4 {
                        return Err(HttpError::Chunk);
                    }
                    self.phase = Phase::Trailer(read);
                }
            }
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes that it holds.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// The next line without its end, if all of it is there.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, HttpError> {
    let window = &bytes[..bytes.len().min(MAX_CHUNK_LINE)];
    match window.windows(2).position(|two| two == b"\r\n") {
        Some(end) => Ok(Some(&bytes[..end])),
        None if bytes.len() < MAX_CHUNK_LINE => Ok(None),
        None => Err(HttpError::Chunk),
    }
}

fn size(line: &[u8]) -> Option<usize> {
    let digits = line.split(|&byte| byte == b';').next()?.trim_ascii_end();
    let digits = core::str::from_utf8(digits).ok()?;
    let fine = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    // What does not fit in a number is too large as well.
    fine.then(|| usize::from_str_radix(digits, 16).unwrap_or(usize::MAX))
}
