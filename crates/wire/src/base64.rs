//! Bytes in JSON: pictures and vectors of numbers.

use crate::fault::Fault;
use crate::json::Place;
use crate::lang::Image;
use alloc::string::String;
use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Takes base64 with its padding and without.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A picture in base64.
pub(crate) fn image(media_type: Option<String>, data: &str, place: &Place) -> Result<Image, Fault> {
    let bytes = BASE64
        .decode(data)
        .map_err(|error| Fault::field(place, format_args!("is not base64: {error}")))?;
    if bytes.is_empty() {
        return Err(Fault::field(place, format_args!("has no bytes")));
    }
    Ok(Image { media_type, bytes })
}
