//! From image files to the pixels that a vision tower reads.
//!
//! [`decode`] reads PNG, JPEG, WebP, GIF (its first frame) and BMP into a [`Bitmap`], upright as EXIF says, and takes no
//! memory that its [`Limits`] do not allow. A [`Recipe`] then cuts, resizes and normalizes it as the families of towers
//! want it. Resampling is that of Pillow, in whole numbers, and so defined to the bit.
//!
//! The decoders of WebP and GIF need the standard library, and so does this crate.
#![forbid(unsafe_code)]

mod bitmap;
mod budgets;
mod decode;
mod exif;
mod recipe;
mod resample;
mod tiles;

pub use bitmap::Bitmap;
pub use decode::{DecodeError, Format, Limits, decode};
pub use recipe::{Fit, Recipe, RecipeError, Seen, Tile};
pub use resample::{Filter, resize};
