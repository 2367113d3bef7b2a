//! Bodies that come compressed. What they unpack to is bounded like what comes plain, and no more is ever allocated.

use flate2::read::MultiGzDecoder;
use std::io::{ErrorKind, Read};
use strata_chat::{Fault, FaultKind};
use strata_wire::call::unknown_encoding;

/// How a body is encoded.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
}

impl Encoding {
    /// Reads a `Content-Encoding`.
    pub(crate) fn parse(header: Option<&str>) -> Result<Self, Fault> {
        let name = header.unwrap_or_default().trim();
        match name.to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(Self::Identity),
            "gzip" | "x-gzip" => Ok(Self::Gzip),
            _ => Err(unknown_encoding(name)),
        }
    }

    /// A body without its encoding, of at most so many bytes.
    pub(crate) fn decode(self, body: bytes::Bytes, most: usize) -> Result<bytes::Bytes, Fault> {
        if self == Self::Identity {
            return Ok(body);
        }
        let mut plain = Vec::new();
        // One byte more tells that there are too many.
        let limit = (most as u64).saturating_add(1);
        let mut decoder = MultiGzDecoder::new(&*body).take(limit);
        match decoder.read_to_end(&mut plain) {
            Ok(_) if plain.len() > most => Err(Fault::new(
                FaultKind::TooLarge,
                format_args!("the body unpacks to more than {most} bytes"),
            )),
            Ok(_) => Ok(plain.into()),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(Fault::bad_request("the body's gzip stream is cut off"))
            }
            Err(_) => Err(Fault::bad_request("the body is not gzip")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> bytes::Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap().into()
    }

    #[test]
    fn bodies_are_unpacked_within_limits() {
        let unpack = |body, most| {
            let encoding = Encoding::parse(Some(" GZip ")).unwrap();
            encoding.decode(body, most).map_err(|fault| fault.kind)
        };
        let plain = br#"{"prompt": "a"}"#;
        assert_eq!(unpack(gzip(plain), plain.len()).unwrap(), &plain[..]);
        let two = [gzip(b"ab"), gzip(b"c")].concat();
        assert_eq!(unpack(two.into(), 9).unwrap(), &b"abc"[..]);
        // A thousand times as large as what came.
        let bomb = gzip(&vec![b' '; 8 << 20]);
        assert_eq!(unpack(bomb, 1 << 20), Err(FaultKind::TooLarge));
        let whole = gzip(plain);
        for broken in [whole.slice(..12), whole.slice(3..), bytes::Bytes::new()] {
            assert_eq!(unpack(broken, 99), Err(FaultKind::BadRequest));
        }
        for unknown in ["br", "zstd", "gzip, gzip", "deflate"] {
            let fault = Encoding::parse(Some(unknown)).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Encoding, "{unknown}");
        }
        assert_eq!(Encoding::parse(None), Ok(Encoding::Identity));
    }
}
