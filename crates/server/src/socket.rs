//! A client's socket, watched: which HTTP it speaks, whether it takes what it is sent, and whether heads are clear.

use crate::pulse::Pulse;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// What HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The reply to a head that could be read in two ways.
const UNCLEAR: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A socket whose first bytes are known.
pub(crate) struct Socket<S> {
    stream: S,
    pulse: Arc<Pulse>,
    /// What was read to know the version, and how much of it has been taken.
    first: Vec<u8>,
    taken: usize,
    head: Option<HeadScan>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Waits for the first bytes, and says whether they are HTTP/2's.
    pub(crate) async fn open(
        mut stream: S,
        pulse: Arc<Pulse>,
        limit: Duration,
    ) -> io::Result<(Self, bool)> {
        let mut first = Vec::with_capacity(PREFACE.len());
        let reading = async {
            while first.len() < PREFACE.len() && PREFACE.starts_with(&first) {
                let mut rest = (&mut stream).take((PREFACE.len() - first.len()) as u64);
                if rest.read_buf(&mut first).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Ok::<_, io::Error>(())
        };
        tokio::time::timeout(limit, reading).await??;
        let second = first == PREFACE;
        let socket = Self {
            stream,
            pulse,
            first,
            taken: 0,
            head: (!second).then(HeadScan::default),
        };
        Ok((socket, second))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let rest = &this.first[this.taken..];
        if rest.is_empty() {
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        } else {
            let part = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..part]);
            this.taken += part;
        }
        if let (Some(head), Some(requests)) = (&mut this.head, this.pulse.idle())
            && !head.is_clear(requests, &buffer.filled()[before..])
        {
            // As far as the client takes it at once.
            let _ = Pin::new(&mut this.stream).poll_write(context, UNCLEAR);
            let _ = Pin::new(&mut this.stream).poll_flush(context);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.pulse.blocked(written.is_pending());
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, bytes);
        this.pulse.blocked(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// Looks for lines of a head that end with LF alone. The parser behind would take them, and a proxy in front may have
/// read them otherwise.
#[derive(Default)]
struct HeadScan {
    last: u8,
    /// Bytes of the line so far.
    line: usize,
    /// Whether the head has begun.
    begun: bool,
    /// The requests that had come when the head ended.
    ended: Option<u64>,
}

impl HeadScan {
    /// Looks at what comes while `requests` requests have come and none is in flight.
    fn is_clear(&mut self, requests: u64, bytes: &[u8]) -> bool {
        if self.ended.is_some_and(|then| requests > then) {
            *self = Self::default();
        }
        for &byte in bytes {
            if self.ended.is_some() {
                break;
            }
            if byte == b'\n' {
                if self.last != b'\r' {
                    return false;
                }
                if self.begun && self.line == 0 {
                    self.ended = Some(requests);
                }
                self.line = 0;
            } else if byte != b'\r' {
                self.begun = true;
                self.line += 1;
            }
            self.last = byte;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_feed_alone_is_refused_in_heads_and_not_in_bodies() {
        let mut scan = HeadScan::default();
        assert!(scan.is_clear(0, b"\r\nGET / HTTP/1.1\r\na: b\r\n\r\nbody\nbody"));
        assert!(scan.is_clear(0, b"more\n"));
        assert!(!scan.is_clear(1, b"GET / HTTP/1.1\n"));
        let mut scan = HeadScan::default();
        assert!(scan.is_clear(0, b"GET / HTTP/1.1\r") && scan.is_clear(0, b"\na: b"));
        assert!(!scan.is_clear(0, b"\nc: d"));
    }
}
