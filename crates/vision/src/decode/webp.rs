//! WebP (RFC 9649), with the `image-webp` crate.

use super::{DecodeError, Format, Limits, to_rgb};
use crate::bitmap::Bitmap;
use crate::exif;
use image_webp::WebPDecoder;
use std::io::Cursor;

pub(super) fn decode(bytes: &[u8], limits: Limits) -> Result<(Bitmap, u8), DecodeError> {
    let fail = |error| DecodeError::damaged(Format::WebP, format_args!("{error}"));
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(fail)?;
    decoder.set_memory_limit(limits.memory());
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    limits.check(width, height)?;
    let size = decoder.output_buffer_size();
    let size = size.ok_or_else(|| DecodeError::damaged(Format::WebP, "its size overflows"))?;
    let channels = size / (width * height);
    let orientation = decoder.exif_metadata().ok().flatten();
    let mut pixels = vec![0; size];
    if decoder.is_animated() {
        decoder.read_frame(&mut pixels).map_err(fail)?;
    } else {
        decoder.read_image(&mut pixels).map_err(fail)?;
    }
    let bitmap = Bitmap {
        width,
        height,
        pixels: to_rgb(pixels, channels),
    };
    Ok((
        bitmap,
        orientation.map_or(1, |exif| exif::orientation(&exif)),
    ))
}
