//! The bodies of replies: whole, or as they come.

use crate::pulse::RequestInFlight;
use crate::state::Counted;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

/// A reply's body.
pub(crate) enum ReplyBody {
    /// All at once.
    Whole(Option<Bytes>),
    /// Whatever comes, until the sender is gone. A client that goes away closes the channel.
    Stream(Receiver<Bytes>),
}

impl ReplyBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Stream(receiver) => receiver.poll_recv(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// A reply's body that keeps its request in flight until the client has it.
pub(crate) struct SentBody {
    body: ReplyBody,
    request: RequestInFlight,
    /// The request is one of all that are at work.
    _counted: Option<Counted>,
}

impl SentBody {
    pub(crate) fn new(body: ReplyBody, request: RequestInFlight, counted: Option<Counted>) -> Self {
        if let ReplyBody::Whole(_) = body {
            request.owed(true);
        }
        Self {
            body,
            request,
            _counted: counted,
        }
    }
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if let ReplyBody::Whole(_) = this.body {
            this.request.owed(false);
        }
        Pin::new(&mut this.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
