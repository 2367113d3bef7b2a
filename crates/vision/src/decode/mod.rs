//! Image files to bitmaps.

mod bmp;
mod gif;
mod jpeg;
mod png;
mod webp;

use crate::bitmap::Bitmap;

/// What an image may take. Looked at before memory is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a file.
    pub bytes: usize,
    /// Pixels of an image.
    pub pixels: usize,
    /// Pixels of a side.
    pub side: usize,
}

impl Default for Limits {
    /// 32 MiB of file, 64 million pixels, 16,384 to a side.
    fn default() -> Self {
        Self {
            bytes: 32 << 20,
            pixels: 64_000_000,
            side: 16_384,
        }
    }
}

impl Limits {
    /// Refuses an image of this size.
    fn check(self, width: usize, height: usize) -> Result<(), DecodeError> {
        if width == 0 || height == 0 {
            return Err(DecodeError::Empty);
        }
        let pixels = width.checked_mul(height);
        let fits = pixels.is_some_and(|pixels| pixels <= self.pixels);
        if fits && width.max(height) <= self.side {
            return Ok(());
        }
        Err(DecodeError::TooLarge {
            width,
            height,
            pixels: self.pixels,
            side: self.side,
        })
    }

    /// Bytes that a decoder may take for an image of the largest size, with what it needs beside it.
    fn memory(self) -> usize {
        self.pixels.saturating_mul(8)
    }
}

/// The formats that are read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Portable Network Graphics.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    WebP,
    /// GIF, of which the first frame is read.
    Gif,
    /// Windows bitmaps.
    Bmp,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Png, Self::Jpeg, Self::WebP, Self::Gif, Self::Bmp];

    /// The format that a file's first bytes are of.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let starts = |with: &[u8]| bytes.starts_with(with);
        if starts(b"\x89PNG\r\n\x1a\n") {
            Some(Self::Png)
        } else if starts(b"\xff\xd8\xff") {
            Some(Self::Jpeg)
        } else if starts(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            Some(Self::WebP)
        } else if starts(b"GIF87a") || starts(b"GIF89a") {
            Some(Self::Gif)
        } else if starts(b"BM") {
            Some(Self::Bmp)
        } else {
            None
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::WebP => "WebP",
            Self::Gif => "GIF",
            Self::Bmp => "BMP",
        }
    }
}

/// Why a file is no image that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum DecodeError {
    #[error("the file is no image of a known format: PNG, JPEG, WebP, GIF and BMP are read")]
    Format,
    #[error("the image file has {bytes} bytes; {limit} are allowed")]
    Bytes { bytes: usize, limit: usize },
    #[error("the image has no pixels")]
    Empty,
    #[error("the image has {width}×{height} pixels; {pixels} are allowed, and {side} to a side")]
    TooLarge {
        width: usize,
        height: usize,
        pixels: usize,
        side: usize,
    },
    #[error("the {} file is damaged: {reason}", .format.name())]
    Damaged { format: Format, reason: String },
}

impl DecodeError {
    fn damaged(format: Format, reason: impl ToString) -> Self {
        let reason = reason.to_string();
        Self::Damaged { format, reason }
    }
}

/// Decodes an image file, whatever format its first bytes are of, and turns it upright. Transparency is left out: what
/// is behind counts as if it were opaque, as Pillow's conversion to RGB has it.
pub fn decode(bytes: &[u8], limits: Limits) -> Result<Bitmap, DecodeError> {
    if bytes.len() > limits.bytes {
        return Err(DecodeError::Bytes {
            bytes: bytes.len(),
            limit: limits.bytes,
        });
    }
    let (bitmap, orientation) = match Format::of(bytes).ok_or(DecodeError::Format)? {
        Format::Png => png::decode(bytes, limits)?,
        Format::Jpeg => jpeg::decode(bytes, limits)?,
        Format::WebP => webp::decode(bytes, limits)?,
        Format::Gif => (gif::decode(bytes, limits)?, 1),
        Format::Bmp => (bmp::decode(bytes, limits)?, 1),
    };
    Ok(bitmap.upright(orientation))
}

/// Colors of `channels` bytes each as red, green and blue: gray, gray and alpha, colors, or those and alpha.
fn to_rgb(pixels: Vec<u8>, channels: usize) -> Vec<u8> {
    match channels {
        3 => pixels,
        4 => {
            let colors = pixels.chunks_exact(4);
            colors
                .flat_map(|color| [color[0], color[1], color[2]])
                .collect()
        }
        _ => {
            let grays = pixels.chunks_exact(channels.max(1));
            grays.flat_map(|gray| [gray[0]; 3]).collect()
        }
    }
}
