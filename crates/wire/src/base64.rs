//! Bytes in JSON: pictures, audio and vectors of numbers.

use alloc::string::String;
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use strata_chat::json::JsonPath;
use strata_chat::{Audio, ContentPart, Fault, Image};

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
    let bytes = file(data, path)?;
    Ok(Image { media_type, bytes })
}

/// Audio in base64.
pub(crate) fn audio(format: Option<String>, data: &str, path: &JsonPath) -> Result<Audio, Fault> {
    let bytes = file(data, path)?;
    Ok(Audio { format, bytes })
}

/// A picture or audio in base64: what its first bytes say.
pub(crate) fn picture_or_audio(data: &str, path: &JsonPath) -> Result<ContentPart, Fault> {
    let bytes = file(data, path)?;
    Ok(if begins_as_audio(&bytes) {
        let format = None;
        ContentPart::Audio(Audio { format, bytes })
    } else {
        let media_type = None;
        ContentPart::Image(Image { media_type, bytes })
    })
}

/// Whether a file begins as WAV, FLAC, Ogg or MP3 do.
fn begins_as_audio(bytes: &[u8]) -> bool {
    match bytes {
        [b'R', b'I', b'F', b'F', _, _, _, _, kind @ ..] => kind.starts_with(b"WAVE"),
        // Eleven bits in a row begin a frame of MP3.
        [0xff, second, ..] => *second >= 0xe0,
        _ => [&b"fLaC"[..], b"OggS", b"ID3"]
            .iter()
            .any(|begin| bytes.starts_with(begin)),
    }
}

fn file(data: &str, path: &JsonPath) -> Result<Vec<u8>, Fault> {
    let bytes = BASE64
        .decode(data)
        .map_err(|error| Fault::field(path, format_args!("is not base64: {error}")))?;
    if bytes.is_empty() {
        return Err(Fault::field(path, format_args!("has no bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_how_they_begin() {
        for (bytes, audio) in [
            (&b"RIFF\x10\0\0\0WAVEfmt "[..], true),
            (b"RIFF\x10\0\0\0WEBPVP8 ", false),
            (b"fLaC\0", true),
            (b"OggS\0", true),
            (b"ID3\x04", true),
            (b"\xff\xfb\x90\0", true),
            (b"\xff\xd8\xff\xe0", false),
            (b"\x89PNG", false),
            (b"RIFF", false),
            (b"", false),
        ] {
            assert_eq!(begins_as_audio(bytes), audio, "{bytes:?}");
        }
    }
}
