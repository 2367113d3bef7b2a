//! PNG (<https://www.w3.org/TR/png-3/>), with the `png` crate.

use super::{DecodeError, Format, Limits, to_rgb};
use crate::bitmap::Bitmap;
use crate::exif;
use png::{Decoder, Transformations};
use std::io::Cursor;

pub(super) fn decode(bytes: &[u8], limits: Limits) -> Result<(Bitmap, u8), DecodeError> {
    let fail = |error: png::DecodingError| DecodeError::damaged(Format::Png, error);
    let memory = png::Limits {
        bytes: limits.memory(),
    };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), memory);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    // Palettes and fewer bits become bytes, and 16 bits their upper half.
    decoder.set_transformations(Transformations::normalize_to_color8());
    let header = decoder.read_header_info().map_err(fail)?;
    let (width, height) = (header.width as usize, header.height as usize);
    limits.check(width, height)?;
    let mut reader = decoder.read_info().map_err(fail)?;
    let size = reader.output_buffer_size();
    let size = size.ok_or_else(|| DecodeError::damaged(Format::Png, "its size overflows"))?;
    let mut pixels = vec![0; size];
    let frame = reader.next_frame(&mut pixels).map_err(fail)?;
    // An animation's frame may be smaller than the image; a still image is not.
    if (frame.width as usize, frame.height as usize) != (width, height) {
        return Err(DecodeError::damaged(
            Format::Png,
            "its first frame is not whole",
        ));
    }
    pixels.truncate(frame.buffer_size());
    let channels = frame.color_type.samples();
    let orientation = reader
        .info()
        .exif_metadata
        .as_deref()
        .map(exif::orientation);
    let bitmap = Bitmap {
        width,
        height,
        pixels: to_rgb(pixels, channels),
    };
    Ok((bitmap, orientation.unwrap_or(1)))
}
