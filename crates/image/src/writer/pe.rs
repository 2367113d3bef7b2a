//! The PE header with which the image begins: a further section for what is put behind it.

use super::attachment::PAGE;
use super::elf::{KernelError, number, set};
use std::ops::Range;

/// What sections in the file are aligned to.
pub(crate) const FILE_UNIT: u64 = 0x200;
const SECTION_BYTES: usize = 40;
/// Where things are, counted from the signature.
const COUNT: usize = 6;
const OPTIONAL_BYTES: usize = 20;
const OPTIONAL: usize = 24;
const IMAGE_BYTES: usize = OPTIONAL + 56;

fn signature(image: &[u8]) -> Result<usize, KernelError> {
    let at = number(image, 0x3c, 4)? as usize;
    match number(image, at, 4)? {
        0x4550 => Ok(at),
        _ => Err(KernelError::NotPe),
    }
}

/// Where the optional header is.
pub(crate) fn optional_header(image: &[u8]) -> Result<usize, KernelError> {
    Ok(signature(image)? + OPTIONAL)
}

/// What is never written to, and what variables begin with: the parts that the first two sections load.
pub(crate) fn parts(image: &[u8]) -> Result<[Range<usize>; 2], KernelError> {
    let signature = signature(image)?;
    let table = signature + OPTIONAL + number(image, signature + OPTIONAL_BYTES, 2)? as usize;
    let part = |entry: usize| {
        let (bytes, start) = (number(image, entry + 16, 4)?, number(image, entry + 12, 4)?);
        let part = start as usize..(start + bytes) as usize;
        let cut_off = KernelError::CutOff { at: start };
        image.get(part.clone()).map(|_| part).ok_or(cut_off)
    };
    Ok([part(table)?, part(table + SECTION_BYTES)?])
}

/// How much memory the image takes, in whole pages.
pub(crate) fn image_bytes(image: &[u8]) -> Result<u64, KernelError> {
    let bytes = number(image, signature(image)? + IMAGE_BYTES, 4)?;
    Ok(bytes.next_multiple_of(PAGE))
}

/// Adds a section of `bytes` at `start`, which the file has at `offset`, or which another header loads.
pub(crate) fn describe(
    image: &mut [u8],
    start: u64,
    offset: Option<u64>,
    bytes: u64,
) -> Result<(), KernelError> {
    let signature = signature(image)?;
    let count = number(image, signature + COUNT, 2)?;
    let table = signature + OPTIONAL + number(image, signature + OPTIONAL_BYTES, 2)? as usize;
    let entry = table + count as usize * SECTION_BYTES;
    let no_room = KernelError::NoRoom { header: "PE" };
    let place = image.get(entry..entry + SECTION_BYTES).ok_or(no_room)?;
    if place.iter().any(|byte| *byte != 0) {
        return Err(no_room);
    }
    set(image, signature + COUNT, &(count as u16 + 1).to_le_bytes());
    let whole = (start + bytes).next_multiple_of(PAGE);
    set(
        image,
        signature + IMAGE_BYTES,
        &(whole as u32).to_le_bytes(),
    );
    set(image, entry, b".strata\0");
    let in_file = offset.map_or(0, |_| bytes.next_multiple_of(FILE_UNIT));
    let fields = [bytes, start, in_file, offset.unwrap_or(0)].map(|field| field as u32);
    set(image, entry + 8, &fields.map(u32::to_le_bytes).concat());
    // Initialized data, readable.
    set(image, entry + 36, &0x4000_0040u32.to_le_bytes());
    Ok(())
}
