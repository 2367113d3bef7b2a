//! One replica: where it is, how it does, and a request to it.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use std::io::ErrorKind;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long a replica may take to be reached.
const CONNECT: Duration = Duration::from_secs(2);
/// How often a replica is asked whether it takes requests, and how long it may take to say so.
const PROBE_EVERY: Duration = Duration::from_millis(500);
const PROBE: Duration = Duration::from_secs(3);
/// A replica that leaves as many probes in a row without an answer is lost, with the streams that it has.
const FAILURES: usize = 3;

/// The address of a replica: `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaUrl(String);

/// Why an address is not a replica's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected http://HOST:PORT, found {0:?}")]
pub struct ReplicaUrlError(String);

impl FromStr for ReplicaUrl {
    type Err = ReplicaUrlError;

    fn from_str(text: &str) -> Result<Self, ReplicaUrlError> {
        let wrong = || ReplicaUrlError(text.into());
        let authority = text.strip_prefix("http://").ok_or_else(wrong)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let parsed = hyper::http::uri::Authority::from_str(authority).map_err(|_| wrong())?;
        let plain = parsed.port_u16().is_some() && !authority.contains('@');
        plain.then(|| Self(authority.into())).ok_or_else(wrong)
    }
}

/// How a replica does.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It takes requests.
    Up,
    /// It takes no new ones: it drains, or could not be reached just now.
    Closed,
    /// It does not answer any more. What it was answering goes elsewhere.
    Lost,
}

/// One replica.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) host: String,
    state: watch::Sender<State>,
    /// Requests that it is answering.
    at_work: AtomicUsize,
    /// Requests that it was given in all.
    pub(super) given: AtomicU64,
}

/// What a replica began to answer. The request ends with it.
pub(super) struct Begun {
    pub(super) response: Response<Incoming>,
    _connection: Connection,
}

/// A connection to a replica, closed when it is dropped, so that the replica stops working for a client that has gone.
struct Connection {
    task: JoinHandle<()>,
    replica: Arc<Replica>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
        self.replica.at_work.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A replica could not be reached, or did not answer.
#[derive(Debug)]
pub(super) struct Unreached;

/// Why a probe has no answer.
enum Unanswered {
    /// Nobody listens.
    Refused,
    /// Nobody says anything.
    Silent,
}

/// A request as it is sent to replicas.
#[derive(Clone, Debug)]
pub(super) struct Forwarded {
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Replica {
    pub(super) fn new(url: ReplicaUrl) -> Arc<Self> {
        Arc::new(Self {
            host: url.0,
            state: watch::Sender::new(State::Up),
            at_work: AtomicUsize::new(0),
            given: AtomicU64::new(0),
        })
    }

    pub(super) fn state(&self) -> State {
        *self.state.borrow()
    }

    pub(super) fn at_work(&self) -> usize {
        self.at_work.load(Ordering::Relaxed)
    }

    /// Done when the replica is lost.
    pub(super) async fn lost(&self) {
        let mut seen = self.state.subscribe();
        let _ = seen.wait_for(|state| *state == State::Lost).await;
    }

    /// Closes the replica until it answers a probe again.
    pub(super) fn close(&self) {
        self.state.send_if_modified(|state| {
            let changed = *state == State::Up;
            if changed {
                *state = State::Closed;
            }
            changed
        });
    }

    /// Sends a request, and waits for the head of the reply.
    pub(super) async fn send(self: &Arc<Self>, asked: Forwarded) -> Result<Begun, Unreached> {
        let connecting = tokio::time::timeout(CONNECT, TcpStream::connect(&self.host)).await;
        let stream = connecting.map_err(|_| Unreached)?.map_err(|_| Unreached)?;
        let _ = stream.set_nodelay(true);
        let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = made.map_err(|_| Unreached)?;
        self.at_work.fetch_add(1, Ordering::Relaxed);
        let connection = Connection {
            task: tokio::spawn(async move {
                let _ = connection.await;
            }),
            replica: Arc::clone(self),
        };
        let mut request = Request::new(Full::new(asked.body));
        *request.method_mut() = asked.method;
        *request.uri_mut() = asked.target.parse().map_err(|_| Unreached)?;
        *request.headers_mut() = asked.headers;
        let host = self.host.parse().map_err(|_| Unreached)?;
        request.headers_mut().insert(header::HOST, host);
        let reply = tokio::select! {
            reply = sender.send_request(request) => reply.map_err(|_| Unreached)?,
            () = self.lost() => return Err(Unreached),
        };
        Ok(Begun {
            response: reply,
            _connection: connection,
        })
    }

    /// Looks after the state for as long as the relay runs.
    pub(super) async fn watch(self: Arc<Self>, changed: impl Fn(&Self, State)) {
        let mut failures = 0;
        loop {
            let probed = tokio::time::timeout(PROBE, self.probe()).await;
            let state = match probed {
                Ok(Ok(status)) => {
                    failures = 0;
                    if status.is_success() {
                        State::Up
                    } else {
                        State::Closed
                    }
                }
                // A server that drains listens no more and ends its answers. Those of a dead one break off by themselves.
                Ok(Err(Unanswered::Refused)) => State::Closed,
                Ok(Err(Unanswered::Silent)) | Err(_) => {
                    failures += 1;
                    if failures >= FAILURES {
                        State::Lost
                    } else {
                        // One late answer is no reason to send others elsewhere.
                        self.state()
                    }
                }
            };
            if self.state.send_replace(state) != state {
                changed(&self, state);
            }
            tokio::time::sleep(PROBE_EVERY).await;
        }
    }

    /// Unlike [`send`](Self::send), asks a lost replica too, and does not count as work.
    async fn probe(&self) -> Result<StatusCode, Unanswered> {
        let silent = |_| Unanswered::Silent;
        let stream = TcpStream::connect(&self.host).await;
        let stream = stream.map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => Unanswered::Refused,
            _ => Unanswered::Silent,
        })?;
        let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = made.map_err(silent)?;
        let request = Request::builder()
            .uri("/ready")
            .header(header::HOST, &self.host)
            .body(Full::new(Bytes::new()))
            .map_err(|_| Unanswered::Silent)?;
        let mut connecting = tokio::task::JoinSet::new();
        connecting.spawn(connection);
        let reply = sender.send_request(request).await;
        Ok(reply.map_err(silent)?.status())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_named_by_scheme_host_and_port() {
        let host = |text: &str| text.parse::<ReplicaUrl>().map(|url| url.0);
        assert_eq!(host("http://127.0.0.1:8001").unwrap(), "127.0.0.1:8001");
        assert_eq!(host("http://[::1]:80/").unwrap(), "[::1]:80");
        assert_eq!(
            host("http://strata-0.fleet:11434").unwrap(),
            "strata-0.fleet:11434"
        );
        for bad in [
            "",
            "127.0.0.1:8001",
            "https://127.0.0.1:8001",
            "http://127.0.0.1",
            "http://127.0.0.1:99999",
            "http://a:b@127.0.0.1:1",
            "http://127.0.0.1:1/v1",
            "http://a b:1",
        ] {
            assert!(host(bad).is_err(), "{bad}");
        }
    }
}
