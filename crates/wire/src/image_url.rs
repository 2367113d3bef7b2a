//! Images by their addresses: those that have the image in them, and those that say where it is.

use crate::base64::image;
use alloc::string::ToString;
use strata_chat::json::JsonPath;
use strata_chat::{ContentPart, Fault, ImageUrl};

/// Bytes of an address that says where an image is.
const LONGEST: usize = 8 << 10;

/// The image of a `data:` address, or one to be fetched from an `https:` address by a server that does that.
pub(crate) fn image_at(url: &str, path: &JsonPath) -> Result<ContentPart, Fault> {
    if let Some(rest) = url.strip_prefix("data:") {
        let Some((kind, data)) = rest.split_once(";base64,") else {
            return Err(Fault::field(
                path,
                format_args!("must be data:<media type>;base64,<data>"),
            ));
        };
        let image = image((!kind.is_empty()).then(|| kind.into()), data, path)?;
        return Ok(ContentPart::Image(image));
    }
    let secure = url
        .get(..8)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
    if !secure {
        return Err(Fault::field(
            path,
            format_args!("must be a data: or an https: URL"),
        ));
    }
    if url.len() > LONGEST {
        return Err(Fault::field(
            path,
            format_args!("must be at most {LONGEST} bytes long"),
        ));
    }
    Ok(ContentPart::ImageUrl(ImageUrl {
        url: url.into(),
        field: path.to_string(),
    }))
}
