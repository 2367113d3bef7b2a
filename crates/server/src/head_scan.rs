//! Looks at the heads of an HTTP/1 connection as they come, also of requests that are sent before earlier ones are answered.
//!
//! The parser behind takes lines that end with LF alone. A proxy in front may have read them otherwise, and then both
//! disagree where a request ends: such lines are refused, in heads, chunk sizes and trailers. What they frame is skipped.

/// How much of a line is kept. No framing field needs more, and a longer one is refused.
const LINE: usize = 1024;

/// Where in the stream of requests the next byte belongs.
enum Place {
    /// A head, whether a line of it has come, and the body that it has announced so far.
    Head {
        begun: bool,
        body: Body,
    },
    /// So many bytes of a body or of a chunk, and whether it is a chunk.
    Bytes {
        left: u64,
        chunk: bool,
    },
    /// The line of a chunk's size, or the end of the chunk before it.
    ChunkSize,
    ChunkEnd,
    Trailers,
    /// Nothing that follows is read: the parser refuses what came.
    Refused,
}

/// What a head says of its body.
#[derive(Copy, Clone)]
enum Body {
    Length(u64),
    Chunked,
    /// It cannot be told, and the parser refuses it.
    Unclear,
}

/// A scan of one connection.
pub(crate) struct HeadScan {
    place: Place,
    /// The line so far, and whether its end has been left out.
    line: Vec<u8>,
    cut: bool,
}

impl Default for HeadScan {
    fn default() -> Self {
        Self {
            place: Place::HEAD,
            line: Vec::new(),
            cut: false,
        }
    }
}

impl Place {
    const HEAD: Self = Self::Head {
        begun: false,
        body: Body::Length(0),
    };
}

impl HeadScan {
    /// Looks at the next bytes; says whether they are clear.
    pub(crate) fn is_clear(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match &mut self.place {
                Place::Refused => return true,
                Place::Bytes { left, chunk } => {
                    let part = bytes
                        .len()
                        .min(usize::try_from(*left).unwrap_or(usize::MAX));
                    bytes = &bytes[part..];
                    *left -= part as u64;
                    if *left == 0 {
                        self.place = if *chunk { Place::ChunkEnd } else { Place::HEAD };
                    }
                }
                _ => {
                    let end = bytes.iter().position(|&byte| byte == b'\n');
                    self.keep(&bytes[..end.unwrap_or(bytes.len())]);
                    let Some(end) = end else {
                        return true;
                    };
                    bytes = &bytes[end + 1..];
                    if self.line.pop() != Some(b'\r') {
                        return false;
                    }
                    let (line, cut) = (std::mem::take(&mut self.line), self.cut);
                    self.cut = false;
                    self.place = self.place.after(&line, cut);
                }
            }
        }
        true
    }

    /// Keeps the beginning of the line, and its last byte.
    fn keep(&mut self, bytes: &[u8]) {
        let Some(&last) = bytes.last() else {
            return;
        };
        if self.cut {
            self.line.pop();
        }
        let room = LINE.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            self.line.push(last);
            self.cut = true;
        }
    }
}

impl Place {
    /// Where the bytes after this line belong; `cut` says that the line was longer.
    fn after(&self, line: &[u8], cut: bool) -> Self {
        match self {
            Self::Head { begun: false, .. } if line.is_empty() => Self::HEAD,
            Self::Head { body, .. } if line.is_empty() => match *body {
                Body::Length(0) => Self::HEAD,
                Body::Length(left) => Self::Bytes { left, chunk: false },
                Body::Chunked => Self::ChunkSize,
                Body::Unclear => Self::Refused,
            },
            Self::Head { body, .. } => Self::Head {
                begun: true,
                body: body.with(line, cut),
            },
            Self::ChunkEnd if line.is_empty() => Self::ChunkSize,
            Self::ChunkSize => match chunk_size(line) {
                Some(0) => Self::Trailers,
                Some(left) => Self::Bytes { left, chunk: true },
                None => Self::Refused,
            },
            Self::Trailers if line.is_empty() => Self::HEAD,
            Self::Trailers => Self::Trailers,
            Self::ChunkEnd | Self::Bytes { .. } | Self::Refused => Self::Refused,
        }
    }
}

impl Body {
    /// What is known after a line of the head.
    fn with(self, line: &[u8], cut: bool) -> Self {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            return self;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let is = |field: &str| name.eq_ignore_ascii_case(field.as_bytes());
        match self {
            Self::Unclear => Self::Unclear,
            _ if is("transfer-encoding") => match value.eq_ignore_ascii_case(b"chunked") && !cut {
                true => Self::Chunked,
                false => Self::Unclear,
            },
            Self::Length(_) if is("content-length") => {
                let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit) && !cut;
                let number = std::str::from_utf8(value).ok().filter(|_| digits);
                let length = number.and_then(|number| number.parse().ok());
                length.map_or(Self::Unclear, Self::Length)
            }
            known => known,
        }
    }
}

/// The size that a chunk begins with; extensions follow a semicolon.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.split(|&byte| byte == b';').next()?.trim_ascii();
    let size = std::str::from_utf8(size).ok()?;
    let hex = !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex.then(|| u64::from_str_radix(size, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a stream is clear, in whatever pieces it comes.
    fn is_clear(stream: &[u8]) -> bool {
        let by = |size: usize| {
            let mut scan = HeadScan::default();
            stream.chunks(size).all(|piece| scan.is_clear(piece))
        };
        let clear = by(stream.len());
        for size in [1, 2, 7, 64] {
            assert_eq!(by(size), clear, "in pieces of {size}");
        }
        clear
    }

    #[test]
    fn a_line_feed_alone_is_refused_in_heads_and_not_in_bodies() {
        assert!(is_clear(
            b"\r\nPOST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nbody\nbodyGET / HTTP/1.1\r\na: b\r\n\r\n"
        ));
        assert!(!is_clear(b"GET / HTTP/1.1\n"));
        assert!(!is_clear(b"GET / HTTP/1.1\r\na: b\nc: d\r\n\r\n"));
        let long = [b"GET / HTTP/1.1\r\na: ".as_slice(), &[b'x'; 3000]].concat();
        assert!(is_clear(&[long.as_slice(), b"\r\n\r\n"].concat()));
        assert!(!is_clear(&[long.as_slice(), b"\n\r\n"].concat()));
    }

    #[test]
    fn requests_that_are_sent_ahead_are_looked_at_too() {
        let first = b"POST / HTTP/1.1\r\ncontent-length:3\r\n\r\na\nb";
        assert!(is_clear(
            &[first.as_slice(), b"GET / HTTP/1.1\r\n\r\n"].concat()
        ));
        assert!(!is_clear(
            &[first.as_slice(), b"GET / HTTP/1.1\n\r\n"].concat()
        ));
        assert!(!is_clear(
            b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\na: b\n\r\n"
        ));
    }

    #[test]
    fn chunks_are_skipped_and_their_sizes_and_trailers_are_looked_at() {
        let head = b"POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n".as_slice();
        let clear = |body: &[u8]| is_clear(&[head, body].concat());
        assert!(clear(
            b"3;x=y\r\n\n\n\n\r\n0\r\na: b\r\n\r\nGET / HTTP/1.1\r\n\r\n"
        ));
        assert!(!clear(b"3\n\n\n\n\r\n"));
        assert!(!clear(b"3\r\nabc\n"));
        assert!(!clear(b"0\r\na: b\n"));
        assert!(!clear(b"0\r\n\r\nGET / HTTP/1.1\n"));
        // What the parser refuses needs no more looks.
        assert!(clear(b"x\r\n\n\n"));
        assert!(is_clear(
            b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n\n\n"
        ));
    }
}
