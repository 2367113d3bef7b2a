//! Windows bitmaps: palettes of 1, 4 and 8 bits, colors of 16, 24 and 32, with or without masks. Run-length encoded ones
//! are refused by name.

use super::{DecodeError, Format, Limits};
use crate::bitmap::Bitmap;

/// A file's bytes, read by place.
#[derive(Copy, Clone)]
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    /// A number of up to four bytes, the lowest first.
    fn number(self, at: usize, len: usize) -> Result<u32, DecodeError> {
        let bytes = at.checked_add(len).and_then(|end| self.0.get(at..end));
        let bytes = bytes.ok_or_else(|| damaged("it is cut short"))?;
        let number = bytes.iter().rev();
        Ok(number.fold(0, |all, &byte| all << 8 | u32::from(byte)))
    }
}

fn damaged(reason: &str) -> DecodeError {
    DecodeError::damaged(Format::Bmp, reason)
}

/// How a row's bits are colors.
enum Colors {
    /// By number, with so many bits each.
    Palette(Vec<[u8; 3]>, u32),
    /// Blue, green, red, a byte each.
    Bytes,
    /// By masks, in words of so many bytes.
    Masks([u32; 3], usize),
}

/// A header.
struct Header {
    width: usize,
    height: usize,
    upside_down: bool,
    data: usize,
    bits: u32,
    colors: Colors,
}

impl Header {
    fn read(file: Bytes<'_>, limits: Limits) -> Result<Self, DecodeError> {
        let data = file.number(10, 4)? as usize;
        let size = file.number(14, 4)? as usize;
        let old = size == 12;
        if !old && size < 40 {
            return Err(damaged("its header is of an unknown kind"));
        }
        let (width, height) = if old {
            (file.number(18, 2)?, file.number(20, 2)?)
        } else {
            (file.number(18, 4)?, file.number(22, 4)?)
        };
        // A negative height is that of an image whose first row is on top.
        let signed = height as i32;
        let (width, height) = (width as usize, signed.unsigned_abs() as usize);
        limits.check(width, height)?;
        let bits = file.number(if old { 24 } else { 28 }, 2)?;
        let compression = if old { 0 } else { file.number(30, 4)? };
        let masks = match (compression, bits) {
            (0, _) => None,
            (3 | 6, 16 | 32) => Some([54, 58, 62]),
            (1 | 2, _) => return Err(damaged("run-length encoding is not supported")),
            _ => return Err(damaged("its compression is not supported")),
        };
        let colors = match (bits, masks) {
            (1 | 2 | 4 | 8, _) => {
                let used = if old { 0 } else { file.number(46, 4)? };
                let most = 1 << bits;
                let count = if used == 0 { most } else { used.min(most) } as usize;
                let entry = if old { 3 } else { 4 };
                let color = |index: usize| {
                    let at = 14 + size + index * entry;
                    let part = |channel| Ok(file.number(at + channel, 1)? as u8);
                    Ok([part(2)?, part(1)?, part(0)?])
                };
                let colors = (0..count).map(color).collect::<Result<_, DecodeError>>()?;
                Colors::Palette(colors, bits)
            }
            (24, _) | (32, None) => Colors::Bytes,
            (16, None) => Colors::Masks([0x7c00, 0x03e0, 0x001f], 2),
            (16 | 32, Some(places)) => {
                let [red, green, blue] = places.map(|at| file.number(at, 4));
                Colors::Masks([red?, green?, blue?], bits as usize / 8)
            }
            _ => return Err(damaged("it has an unknown number of bits for a pixel")),
        };
        Ok(Self {
            width,
            height,
            upside_down: signed > 0,
            data,
            bits,
            colors,
        })
    }
}

/// What a mask selects of a word, spread over a byte.
fn masked(word: u32, mask: u32) -> u8 {
    if mask == 0 {
        return 0;
    }
    let most = u64::from(mask >> mask.trailing_zeros());
    let part = u64::from((word & mask) >> mask.trailing_zeros());
    ((part * 255 + most / 2) / most) as u8
}

pub(super) fn decode(bytes: &[u8], limits: Limits) -> Result<Bitmap, DecodeError> {
    let header = Header::read(Bytes(bytes), limits)?;
    let (width, height) = (header.width, header.height);
    let stride = (width * header.bits as usize).div_ceil(32) * 4;
    let end = stride
        .checked_mul(height)
        .and_then(|size| size.checked_add(header.data));
    let rows = end.and_then(|end| bytes.get(header.data..end));
    let rows = rows.ok_or_else(|| damaged("it is cut short"))?;
    let mut out = Bitmap::filled(width, height, [0; 3]);
    for (index, row) in rows.chunks_exact(stride).enumerate() {
        let y = if header.upside_down {
            height - 1 - index
        } else {
            index
        };
        let pixels = &mut out.pixels[y * width * 3..][..width * 3];
        for (x, pixel) in pixels.chunks_exact_mut(3).enumerate() {
            pixel.copy_from_slice(&match &header.colors {
                Colors::Palette(colors, bits) => {
                    let (bit, bits) = (x * *bits as usize, *bits as usize);
                    let number = row[bit / 8] >> (8 - bits - bit % 8) & (0xff >> (8 - bits));
                    colors.get(usize::from(number)).copied().unwrap_or_default()
                }
                Colors::Bytes => {
                    let at = x * header.bits as usize / 8;
                    [row[at + 2], row[at + 1], row[at]]
                }
                Colors::Masks(masks, len) => {
                    let word = Bytes(row).number(x * len, *len)?;
                    masks.map(|mask| masked(word, mask))
                }
            });
        }
    }
    Ok(out)
}
