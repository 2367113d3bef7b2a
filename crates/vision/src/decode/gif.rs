//! The first frame of a GIF (<https://www.w3.org/Graphics/GIF/spec-gif89a.txt>), with the `gif` crate.

use super::{DecodeError, Format, Limits};
use crate::bitmap::Bitmap;
use gif::{ColorOutput, DecodeOptions, MemoryLimit};
use std::io::Cursor;
use std::num::NonZeroU64;

pub(super) fn decode(bytes: &[u8], limits: Limits) -> Result<Bitmap, DecodeError> {
    let fail = |error: gif::DecodingError| DecodeError::damaged(Format::Gif, error);
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::RGBA);
    let memory = NonZeroU64::new(limits.memory() as u64).unwrap_or(NonZeroU64::MIN);
    options.set_memory_limit(MemoryLimit::Bytes(memory));
    let mut decoder = options.read_info(Cursor::new(bytes)).map_err(fail)?;
    let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    limits.check(width, height)?;
    let none = || DecodeError::damaged(Format::Gif, "it has no frame");
    // A frame may be larger than the screen that it is shown on.
    let frame = decoder.next_frame_info().map_err(fail)?.ok_or_else(none)?;
    limits.check(usize::from(frame.width), usize::from(frame.height))?;
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let row = usize::from(frame.width) * 4;
    let mut colors = vec![0; decoder.buffer_size()];
    decoder.read_into_buffer(&mut colors).map_err(fail)?;
    let mut out = Bitmap::filled(width, height, [0; 3]);
    for (y, colors) in (top..height).zip(colors.chunks_exact(row)) {
        for (x, color) in (left..width).zip(colors.chunks_exact(4)) {
            let at = (y * width + x) * 3;
            out.pixels[at..at + 3].copy_from_slice(&color[..3]);
        }
    }
    Ok(out)
}
