//! HTTP/1.1 (RFC 9112), the server's side, without sockets: bytes come in, requests and bytes come out.

mod body;
mod connection;
mod head;
#[cfg(test)]
mod tests;

pub use connection::{Connection, Next, Sending};
pub(crate) use head::is_token;
pub use head::{Head, Length};

use crate::budgets::Budgets;
use thiserror::Error;

/// Bytes of a request's head at most.
pub const MAX_HEAD: usize = Budgets::BARE_METAL.head_bytes;
/// Bytes of a request's body at most.
pub const MAX_BODY: usize = Budgets::BARE_METAL.body_bytes;
const MAX_TARGET: usize = Budgets::BARE_METAL.target_bytes;
const MAX_HEADERS: usize = 64;

/// A request that cannot be read. The connection cannot be used after it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum HttpError {
    /// The head has more bytes or lines than are taken.
    #[error("the request's head is larger than {MAX_HEAD} bytes or {MAX_HEADERS} lines")]
    HeadTooLarge,
    /// The body has more bytes than are taken.
    #[error("the body is larger than {MAX_BODY} bytes")]
    BodyTooLarge,
    /// The first line is not one of HTTP.
    #[error("the first line is not METHOD TARGET HTTP/1.1")]
    FirstLine,
    /// The target has more bytes than are taken.
    #[error("the target is longer than {MAX_TARGET} bytes")]
    TargetTooLong,
    /// It is not clear who is asked.
    #[error("the request names its server or its page in two ways")]
    Site,
    /// A line of the head is not a header.
    #[error("line {line} of the head is not a header")]
    Header {
        /// The line, from 1.
        line: usize,
    },
    /// It is not clear where the body ends.
    #[error("the body's length is not given in one clear way")]
    Length,
    /// A chunk of the body is not one.
    #[error("the body's chunks cannot be read")]
    Chunk,
    /// It did not come in time.
    #[error("the request did not arrive in time")]
    Slow,
}
