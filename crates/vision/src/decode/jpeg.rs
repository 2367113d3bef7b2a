//! JPEG (ITU-T T.81), with the `zune-jpeg` crate.

use super::{DecodeError, Format, Limits, to_rgb};
use crate::bitmap::Bitmap;
use crate::exif;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

pub(super) fn decode(bytes: &[u8], limits: Limits) -> Result<(Bitmap, u8), DecodeError> {
    let fail = |error| DecodeError::damaged(Format::Jpeg, format_args!("{error}"));
    let options = DecoderOptions::default()
        .set_max_width(limits.side)
        .set_max_height(limits.side)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(fail)?;
    let missing = || DecodeError::damaged(Format::Jpeg, "it has no size");
    let (width, height) = decoder.dimensions().ok_or_else(missing)?;
    limits.check(width, height)?;
    let orientation = decoder.exif().map(|exif| exif::orientation(exif));
    let pixels = decoder.decode().map_err(fail)?;
    let channels = pixels.len() / (width * height);
    if pixels.len() != width * height * channels || channels == 0 {
        return Err(DecodeError::damaged(Format::Jpeg, "it is not whole"));
    }
    let bitmap = Bitmap {
        width,
        height,
        pixels: to_rgb(pixels, channels),
    };
    Ok((bitmap, orientation.unwrap_or(1)))
}
