//! Bodies of requests on their way in: bounded in bytes before they are read, and in time while they come.

use crate::encoding::Encoding;
use crate::preparation::Effort;
use crate::pulse::{Receiving, RequestInFlight};
use crate::state::Server;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use strata_chat::{Fault, FaultKind};
use tokio::sync::OwnedSemaphorePermit;

/// How long a large body waits for others before it is refused.
const TURN: Duration = Duration::from_secs(30);

/// A place among the large bodies, held until the request is ready for its model.
#[derive(Clone, Default)]
pub(crate) struct LargePlace(Option<Arc<Mutex<Option<OwnedSemaphorePermit>>>>);

impl LargePlace {
    async fn take(server: &Server) -> Result<Self, Fault> {
        let waiting = Arc::clone(&server.large_bodies).acquire_owned();
        match tokio::time::timeout(TURN, waiting).await {
            Ok(Ok(permit)) => Ok(Self(Some(Arc::new(Mutex::new(Some(permit)))))),
            _ => Err(Fault::new(
                FaultKind::Unavailable {
                    retry_after: Duration::from_secs(5),
                },
                "other large requests are being read",
            )),
        }
    }

    /// Lets the next one in.
    pub(crate) fn release(&self) {
        if let Some(place) = &self.0 {
            place.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// How much work such a request is.
    pub(crate) fn effort(&self) -> Effort {
        if self.0.is_some() {
            Effort::Large
        } else {
            Effort::Small
        }
    }
}

/// A body that comes, and must not come too slowly.
pub(crate) struct SteadyBody<'r> {
    body: Incoming,
    receiving: Receiving<'r>,
    grace: Duration,
    rate: usize,
    since: Instant,
    received: u64,
}

impl<'r> SteadyBody<'r> {
    pub(crate) fn new(server: &Server, request: &'r RequestInFlight, body: Incoming) -> Self {
        let budgets = &server.settings.budgets;
        Self {
            body,
            receiving: request.receive(),
            grace: budgets.body_grace,
            rate: budgets.body_rate.max(1),
            since: Instant::now(),
            received: 0,
        }
    }

    /// The next bytes; nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let earned = Duration::from_secs_f64(self.received as f64 / self.rate as f64);
            let end = self.since + self.grace + earned;
            match tokio::time::timeout_at(end.into(), self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.received += data.len() as u64;
                        self.receiving.take(data.len());
                        return Ok(Some(data));
                    }
                }
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => return Err(Fault::bad_request("the body could not be read")),
                Err(_) => {
                    let problem = "the body did not arrive in time";
                    return Err(Fault::new(FaultKind::Timeout, problem));
                }
            }
        }
    }
}

/// Refuses a body that is announced to be too large, before any of it comes.
pub(crate) fn check_length(server: &Server, body: &Incoming) -> Result<(), Fault> {
    let most = server.settings.budgets.body_bytes;
    if body.size_hint().lower() > most as u64 {
        return Err(too_large(most));
    }
    Ok(())
}

/// Reads a body, whole.
pub(crate) async fn read(
    server: &Arc<Server>,
    request: &RequestInFlight,
    body: Incoming,
    encoding: Encoding,
) -> Result<(Bytes, LargePlace), Fault> {
    let budgets = &server.settings.budgets;
    let (most, small) = (budgets.body_bytes, budgets.small_body_bytes);
    let announced = body.size_hint().lower() as usize;
    let mut place = LargePlace::default();
    // What it unpacks to is not known before.
    if encoding != Encoding::Identity {
        place = LargePlace::take(server).await?;
    }
    let mut body = SteadyBody::new(server, request, body);
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await? {
        if bytes.len() + piece.len() > most {
            return Err(too_large(most));
        }
        bytes.extend_from_slice(&piece);
        if bytes.len() > small && place.0.is_none() {
            let waited = Instant::now();
            place = LargePlace::take(server).await?;
            body.since += waited.elapsed();
            bytes.reserve_exact(announced.min(most).saturating_sub(bytes.len()));
        }
    }
    drop(body);
    if encoding == Encoding::Identity {
        return Ok((bytes.into(), place));
    }
    let effort = place.effort();
    let unpack = move || encoding.decode(bytes.into(), most);
    Ok((server.preparation.run(effort, unpack).await?, place))
}

fn too_large(most: usize) -> Fault {
    let problem = format_args!("the body is larger than {most} bytes");
    Fault::new(FaultKind::TooLarge, problem)
}

/// Takes what a refused client still sends for a moment: one that is cut off while it sends never reads why.
pub(crate) fn drain(mut body: Incoming) {
    const MOST: usize = 1 << 20;
    const TIME: Duration = Duration::from_secs(1);
    if body.is_end_stream() {
        return;
    }
    tokio::spawn(tokio::time::timeout(TIME, async move {
        let mut left = MOST;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            left = match left.checked_sub(bytes) {
                Some(left) => left,
                None => return,
            };
        }
    }));
}
