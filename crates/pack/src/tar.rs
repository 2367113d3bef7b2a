//! Tar archives in the ustar form of POSIX, with GNU's sizes where a file has 8 GiB or more. All
//! files have the same time.

use crate::error::PackError;
use std::borrow::Cow;
use std::ops::Range;
use strata_image::Layout;

const BLOCK: u64 = 512;
const FIRST_LARGE: u64 = 1 << 33;
/// 1 January 2000: old enough to be nobody's, and not so old that tools warn of it.
const TIME: u64 = 946_684_800;

/// Who owns what is unpacked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner(pub(crate) u32);

pub(crate) const ROOT: Owner = Owner(0);

/// An archive under construction.
#[derive(Default)]
pub(crate) struct Tar<'a> {
    layout: Layout<'a>,
}

impl<'a> Tar<'a> {
    pub(crate) fn folder(&mut self, name: &str, owner: Owner) -> Result<(), PackError> {
        let head = header(name, 0o755, owner, 0, b'5')?;
        self.layout.put(self.layout.len(), head);
        Ok(())
    }

    pub(crate) fn file(
        &mut self,
        name: &str,
        mode: u32,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<(), PackError> {
        let bytes = bytes.into();
        let head = header(name, mode, ROOT, bytes.len() as u64, b'0')?;
        self.layout.put(self.layout.len(), head);
        self.layout.put(self.layout.len(), bytes);
        self.layout.pad(BLOCK);
        Ok(())
    }

    /// A file that is put together itself.
    pub(crate) fn embed(
        &mut self,
        name: &str,
        mode: u32,
        file: Layout<'a>,
    ) -> Result<(), PackError> {
        let head = header(name, mode, ROOT, file.len(), b'0')?;
        self.layout.put(self.layout.len(), head);
        self.layout.embed(self.layout.len(), file);
        self.layout.pad(BLOCK);
        Ok(())
    }

    /// The archive with the two empty blocks at its end.
    pub(crate) fn finish(self) -> Layout<'a> {
        let mut whole = Layout::new(self.layout.len() + 2 * BLOCK);
        whole.embed(0, self.layout);
        whole
    }
}

fn header(name: &str, mode: u32, owner: Owner, size: u64, kind: u8) -> Result<Vec<u8>, PackError> {
    if name.len() > 100 || name.is_empty() {
        return Err(PackError::Name(name.into()));
    }
    let mut block = vec![0; BLOCK as usize];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}\0").as_bytes());
    put(108, format!("{:07o}\0", owner.0).as_bytes());
    put(116, format!("{:07o}\0", owner.0).as_bytes());
    if size < FIRST_LARGE {
        put(124, format!("{size:011o}\0").as_bytes());
    } else {
        put(124, &[0x80]);
        put(128, &size.to_be_bytes());
    }
    put(136, format!("{TIME:011o}\0").as_bytes());
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

/// The files of an archive: their names, without `./`, and where they are in it.
pub(crate) fn files(bytes: &[u8]) -> Result<Vec<(String, Range<usize>)>, PackError> {
    let mut files = Vec::new();
    let mut at = 0;
    loop {
        let damaged = || PackError::Damaged {
            what: "a tar header",
            at: at as u64,
        };
        let head = bytes.get(at..at + BLOCK as usize).ok_or_else(damaged)?;
        if head.iter().all(|byte| *byte == 0) {
            return Ok(files);
        }
        let text = |range: Range<usize>| {
            let field = head[range].split(|byte| *byte == 0).next();
            std::str::from_utf8(field.unwrap_or_default()).ok()
        };
        let name = text(0..100).ok_or_else(damaged)?;
        let size = if head[124] == 0x80 {
            head[128..136]
                .iter()
                .fold(0, |size, byte| size << 8 | u64::from(*byte))
        } else {
            let digits = text(124..136).map(str::trim);
            let size = digits.and_then(|digits| u64::from_str_radix(digits, 8).ok());
            size.ok_or_else(damaged)?
        };
        let start = at + BLOCK as usize;
        let end = usize::try_from(size)
            .ok()
            .and_then(|size| start.checked_add(size));
        let end = end.filter(|end| *end <= bytes.len()).ok_or_else(damaged)?;
        if head[156] == b'0' {
            let name = name.strip_prefix("./").unwrap_or(name);
            files.push((name.into(), start..end));
        }
        at = end
            .checked_next_multiple_of(BLOCK as usize)
            .ok_or_else(damaged)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back() {
        let mut tar = Tar::default();
        tar.folder("./a/", Owner(7)).unwrap();
        tar.file("./a/b", 0o644, &b"some bytes"[..]).unwrap();
        tar.file("c", 0o755, &b""[..]).unwrap();
        let bytes = tar.finish().to_vec();
        assert_eq!(bytes.len() % 512, 0);
        let files = files(&bytes).unwrap();
        let read: Vec<_> = files
            .iter()
            .map(|(name, at)| (name.as_str(), &bytes[at.clone()]))
            .collect();
        assert_eq!(read, [("a/b", &b"some bytes"[..]), ("c", b"")]);
        for length in 0..bytes.len() - 512 {
            // Whatever is cut off, nothing breaks.
            let _ = super::files(&bytes[..length]);
        }
    }

    #[test]
    fn large_sizes_have_room() {
        let head = header("a", 0, ROOT, 12 << 33, b'0').unwrap();
        assert_eq!(head[124], 0x80);
        assert_eq!(head[128..136], (12u64 << 33).to_be_bytes());
        assert!(header(&"a".repeat(101), 0, ROOT, 0, b'0').is_err());
    }
}
