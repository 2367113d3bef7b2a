//! Bytes in JSON: pictures and vectors of numbers.

use alloc::string::String;
use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use strata_chat::json::JsonPath;
use strata_chat::{Fault, Image};

/// Takes base64 with its padding and without.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A picture in base64.
pub(crate) fn image(
    media_type: Option<String>,
    data: &str,
    path: &JsonPath,
) -> Result<Image, Fault> {
    let bytes = BASE64
        .decode(data)
        .map_err(|error| Fault::field(path, format_args!("is not base64: {error}")))?;
    if bytes.is_empty() {
        return Err(Fault::field(path, format_args!("has no bytes")));
    }
    Ok(Image { media_type, bytes })
}
