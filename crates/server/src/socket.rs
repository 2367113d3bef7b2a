//! A client's socket, watched: which HTTP it speaks, whether it takes what it is sent, and whether heads are clear.

use crate::head_scan::HeadScan;
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
        if let Some(head) = &mut this.head
            && !head.is_clear(&buffer.filled()[before..])
        {
            // As far as the client takes it at once, and never inside another reply.
            if this.pulse.is_idle() {
                let _ = Pin::new(&mut this.stream).poll_write(context, UNCLEAR);
                let _ = Pin::new(&mut this.stream).poll_flush(context);
            }
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
