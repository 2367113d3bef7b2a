//! Traces for OpenTelemetry: spans in batches to a collector, as OTLP over HTTP in JSON.
//!
//! <https://opentelemetry.io/docs/specs/otlp/> and <https://www.w3.org/TR/trace-context/>. Spans wait in a bounded
//! queue; those that find no place, and those that no collector takes, are lost, and requests never wait for either.

mod otlp;

use crate::log::{Log, LogLevel};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use strata_chat::json::Json;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Spans that wait.
const WAITING: usize = 2048;
/// Spans in a batch, and how long the first of one waits for others.
const BATCH: usize = 256;
const GATHER: Duration = Duration::from_millis(500);
/// How long a collector may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where traces go: a collector's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// `HOST:PORT`.
    host: String,
    path: String,
}

/// Why an address is none of a collector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectorError {
    /// It does not begin with `http://`.
    #[error("{0:?} does not begin with http://: a collector nearby takes traces without TLS")]
    Scheme(String),
    /// There is no host in it, or none that HTTP knows.
    #[error("{0:?} has no host with a port, such as http://127.0.0.1:4318")]
    Host(String),
}

impl std::str::FromStr for Collector {
    type Err = CollectorError;

    /// `http://HOST:PORT`, to which `/v1/traces` is added, or with a path of its own.
    fn from_str(text: &str) -> Result<Self, CollectorError> {
        let wrong = || CollectorError::Host(text.into());
        let rest = text.strip_prefix("http://");
        let rest = rest.ok_or_else(|| CollectorError::Scheme(text.into()))?;
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "4318"));
        let port: u16 = port.parse().map_err(|_| wrong())?;
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_[]:".contains(c);
        if name.is_empty()
            || !name.chars().all(plain)
            || !path.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(wrong());
        }
        Ok(Self {
            host: format!("{name}:{port}"),
            path: match path {
                "" | "/" => "/v1/traces".into(),
                path => path.into(),
            },
        })
    }
}

/// The span that a request belongs to, as `traceparent` names it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    pub(crate) sampled: bool,
}

impl Context {
    /// Reads `00-TRACE-SPAN-FLAGS`. What is malformed counts for nothing, as the standard asks.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let mut hex = |len: usize| {
            let part = parts.next().filter(|part| part.len() == len)?;
            let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
            part.bytes().all(lower).then_some(part)
        };
        let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
        let more = parts.next().is_some();
        if version == "ff" || (version == "00" && more) {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|&n| n > 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|&n| n > 0)?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        Some(Self {
            trace,
            span,
            sampled: flags & 1 == 1,
        })
    }
}

/// A request, for a trace.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) parent: Option<Context>,
    pub(crate) since: SystemTime,
    pub(crate) length: Duration,
    pub(crate) attributes: Vec<(&'static str, Json)>,
    /// Why it failed.
    pub(crate) failed: Option<String>,
    pub(crate) phases: Vec<Phase>,
}

/// A part of a request's time.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Phase {
    name: &'static str,
    /// After the request's start.
    from: Duration,
    to: Duration,
}

impl Phase {
    pub(crate) fn new(name: &'static str, from: Duration, to: Duration) -> Self {
        Self { name, from, to }
    }
}

/// Takes spans.
#[derive(Debug)]
pub(crate) struct Exporter {
    spans: mpsc::Sender<Span>,
    waiting: Mutex<Option<mpsc::Receiver<Span>>>,
    collector: Collector,
    lost: AtomicU64,
}

impl Exporter {
    pub(crate) fn new(collector: Collector) -> Self {
        let (spans, waiting) = mpsc::channel(WAITING);
        Self {
            spans,
            waiting: Mutex::new(Some(waiting)),
            collector,
            lost: AtomicU64::new(0),
        }
    }

    /// Takes a span, unless the client says that its trace is not kept.
    pub(crate) fn export(&self, span: Span) {
        let kept = span.parent.is_none_or(|parent| parent.sampled);
        if kept && self.spans.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Spans that were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Sends spans until `stop` is done, and then those that wait.
    pub(crate) async fn run(&self, log: &Log, stop: Arc<tokio::sync::Notify>) {
        let waiting = self.waiting.lock();
        let Some(mut waiting) = waiting.unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let (mut batch, mut reaches) = (Vec::new(), true);
        let mut ids = Ids::default();
        let stopped = stop.notified();
        tokio::pin!(stopped);
        let mut last = false;
        while !last {
            tokio::select! {
                count = waiting.recv_many(&mut batch, BATCH) => if count == 0 { return },
                () = &mut stopped => last = true,
            }
            if !last {
                tokio::select! {
                    () = tokio::time::sleep(GATHER) => {}
                    () = &mut stopped => last = true,
                }
            }
            while let Ok(span) = waiting.try_recv() {
                batch.push(span);
            }
            for batch in batch.chunks(BATCH) {
                let body = otlp::document(batch, &mut ids).text();
                let sent = tokio::time::timeout(TIMEOUT, self.send(body)).await;
                let sent = sent.unwrap_or_else(|_| Err("it did not answer in time".into()));
                if let Err(problem) = &sent {
                    let lost = batch.len() as u64;
                    self.lost.fetch_add(lost, Ordering::Relaxed);
                    // Said once, not with every batch.
                    if reaches {
                        let pairs = [
                            ("collector", self.collector.host.as_str().into()),
                            ("problem", problem.as_str().into()),
                        ];
                        log.say(LogLevel::Warn, "traces are lost", &pairs);
                    }
                }
                reaches = sent.is_ok();
            }
            batch.clear();
        }
    }

    async fn send(&self, body: String) -> Result<(), String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let stream = TcpStream::connect(&self.collector.host).await;
        let stream = TokioIo::new(stream.map_err(|error| words(&error))?);
        let made = hyper::client::conn::http1::handshake(stream).await;
        let (mut sender, connection) = made.map_err(|error| words(&error))?;
        let connection = tokio::spawn(connection);
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.collector.path)
            .header(header::HOST, &self.collector.host)
            .header(header::CONTENT_TYPE, "application/json")
            .header(
                header::USER_AGENT,
                concat!("strata/", env!("CARGO_PKG_VERSION")),
            )
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| words(&error))?;
        let reply = sender.send_request(request).await;
        connection.abort();
        let reply = reply.map_err(|error| words(&error))?;
        if reply.status().is_success() {
            Ok(())
        } else {
            Err(format!("it answered {}", reply.status()))
        }
    }
}

/// Names for traces and spans: unlike any other, and no secret.
#[derive(Default)]
struct Ids {
    keys: RandomState,
    count: u64,
}

impl Ids {
    /// Never 0, which is no name.
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.keys.hash_one(self.count).max(1)
    }
}

#[cfg(test)]
mod tests;
