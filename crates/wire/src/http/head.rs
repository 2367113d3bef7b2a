//! The head of a request.

use super::{HttpError, MAX_HEAD, MAX_HEADERS, MAX_TARGET};
use crate::access::bearer;
use crate::url::path_of;
use alloc::string::String;

/// How long the body is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Length {
    /// So many bytes.
    Bytes(usize),
    /// As many as its chunks say.
    Chunked,
}

/// What the head of a request says, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// `GET`, `POST`, …
    pub method: String,
    /// The path, with its query.
    pub target: String,
    /// Whether the client knows chunks, as those of HTTP/1.0 do not.
    pub chunks: bool,
    /// Whether another request may follow.
    pub keep_alive: bool,
    /// The body's length.
    pub length: Length,
    /// Whether the client waits for a word before it sends the body.
    pub waits: bool,
    /// The name under which the client knows this machine.
    pub host: Option<String>,
    /// The page that calls.
    pub origin: Option<String>,
    /// The key that it brings.
    pub key: Option<String>,
    /// The headers that a page wants to send.
    pub asked_headers: Option<String>,
    /// How the body is encoded, if it is.
    pub encoding: Option<String>,
    /// Whether the client speaks Anthropic's dialect.
    pub anthropic: bool,
}

impl Head {
    /// Reads a head, and says how many bytes it has; nothing if it is not complete.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, HttpError> {
        let window = &bytes[..bytes.len().min(MAX_HEAD)];
        let Some(end) = window.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if bytes.len() < MAX_HEAD {
                Ok(None)
            } else {
                Err(HttpError::HeadTooLarge)
            };
        };
        let mut lines = Lines(Some(&window[..end]));
        let mut head = first_line(lines.next().unwrap_or_default())?;
        let (mut length, mut chunked) = (None, false);
        for (i, line) in lines.enumerate() {
            if i == MAX_HEADERS {
                return Err(HttpError::HeadTooLarge);
            }
            let (name, value) = header(line).ok_or(HttpError::Header { line: i + 2 })?;
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            if is("content-length") {
                let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
                let given: Option<usize> = value.parse().ok().filter(|_| digits);
                let given = given.ok_or(if digits {
                    HttpError::BodyTooLarge
                } else {
                    HttpError::Length
                })?;
                if length.replace(given).is_some() {
                    return Err(HttpError::Length);
                }
            } else if is("transfer-encoding") {
                if chunked || !value.eq_ignore_ascii_case("chunked") {
                    return Err(HttpError::Length);
                }
                chunked = true;
            } else if is("connection") {
                for word in value.split(',').map(str::trim) {
                    if word.eq_ignore_ascii_case("close") {
                        head.keep_alive = false;
                    } else if word.eq_ignore_ascii_case("keep-alive") && !head.chunks {
                        head.keep_alive = true;
                    }
                }
            } else if is("expect") {
                head.waits = value.eq_ignore_ascii_case("100-continue");
            } else if is("host") {
                once(&mut head.host, value)?;
            } else if is("origin") {
                once(&mut head.origin, value)?;
            } else if is("access-control-request-headers") {
                head.asked_headers = Some(value.into());
            } else if is("content-encoding") {
                head.encoding = Some(value.into());
            } else if is("anthropic-version") {
                head.anthropic = true;
            } else if is("x-api-key") {
                head.key.get_or_insert_with(|| value.into());
            } else if is("authorization")
                && let Some(key) = bearer(value)
            {
                head.key = Some(key.into());
            }
        }
        head.length = match (length, chunked) {
            (Some(_), true) => return Err(HttpError::Length),
            (None, true) => Length::Chunked,
            (length, false) => Length::Bytes(length.unwrap_or(0)),
        };
        Ok(Some((head, end + 4)))
    }

    /// The path, without its query.
    pub fn path(&self) -> &str {
        path_of(&self.target)
    }
}

/// Lines that end with CR and LF. One of the two alone stays in its line, and no line may have it.
struct Lines<'h>(Option<&'h [u8]>);

impl<'h> Iterator for Lines<'h> {
    type Item = &'h [u8];

    fn next(&mut self) -> Option<&'h [u8]> {
        let text = self.0?;
        let end = text.windows(2).position(|two| two == b"\r\n");
        self.0 = end.map(|end| &text[end + 2..]);
        Some(&text[..end.unwrap_or(text.len())])
    }
}

/// Takes the value of a header that comes once and is a plain text.
fn once(place: &mut Option<String>, value: &str) -> Result<(), HttpError> {
    let plain = value.bytes().all(|byte| byte.is_ascii_graphic());
    if !plain || place.replace(value.into()).is_some() {
        return Err(HttpError::Site);
    }
    Ok(())
}

/// Whether a byte may be part of a method or a header's name.
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn first_line(line: &[u8]) -> Result<Head, HttpError> {
    let line = core::str::from_utf8(line).map_err(|_| HttpError::FirstLine)?;
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(HttpError::FirstLine);
    };
    let chunks = match version {
        "HTTP/1.1" => true,
        "HTTP/1.0" => false,
        _ => return Err(HttpError::FirstLine),
    };
    if target.len() > MAX_TARGET {
        return Err(HttpError::TargetTooLong);
    }
    let named = (1..=16).contains(&method.len()) && method.bytes().all(is_token);
    if !named || !target.starts_with(['/', '*']) || target.bytes().any(|b| b < 0x21 || b == 0x7f) {
        return Err(HttpError::FirstLine);
    }
    Ok(Head {
        method: method.into(),
        target: target.into(),
        chunks,
        keep_alive: chunks,
        length: Length::Bytes(0),
        waits: false,
        host: None,
        origin: None,
        key: None,
        asked_headers: None,
        encoding: None,
        anthropic: false,
    })
}

fn header(line: &[u8]) -> Option<(&str, &str)> {
    let (name, value) = core::str::from_utf8(line).ok()?.split_once(':')?;
    let value = value.trim_matches([' ', '\t']);
    let fine = !name.is_empty()
        && name.bytes().all(is_token)
        && value.bytes().all(|byte| byte >= 0x20 || byte == b'\t');
    fine.then_some((name, value))
}
