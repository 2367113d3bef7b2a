//! What is counted here, beside the engines' own numbers.

use crate::access::Client;
use crate::state::Server;
use hyper::StatusCode;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strata_engine::Counters;
use strata_wire::Reply;
use strata_wire::metrics::{self, AdapterUse, Measured};

/// Requests by route and status.
#[derive(Debug, Default)]
pub(crate) struct HttpCounts(Mutex<BTreeMap<(&'static str, u16), Count>>);

#[derive(Copy, Clone, Debug, Default)]
struct Count {
    requests: u64,
    seconds: f64,
}

impl HttpCounts {
    pub(crate) fn count(&self, route: &'static str, status: StatusCode, time: Duration) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = counts.entry((route, status.as_u16())).or_default();
        entry.requests += 1;
        entry.seconds += time.as_secs_f64();
    }
}

/// What was seen of an engine.
struct Seen {
    model: String,
    counters: Counters,
    adapters: usize,
    /// Adapters that run, and that wait.
    used: [Vec<String>; 2],
}

impl Seen {
    fn measured(&self) -> Measured<'_> {
        let [running, waiting] = &self.used;
        Measured {
            model: &self.model,
            counters: &self.counters,
            adapters: AdapterUse {
                count: self.adapters,
                running,
                waiting,
            },
        }
    }
}

/// All numbers that a client may see, as Prometheus reads them. They are those of the engines' latest steps, so nothing
/// here waits for one.
pub(crate) fn reply(server: &Server, client: &Client) -> Reply {
    let mut out = String::new();
    let serving = server.manager.serving();
    let seen: Vec<Seen> = serving
        .into_iter()
        .filter(|(model, _)| client.allows(model).is_ok())
        .map(|(model, served)| Seen {
            model,
            counters: served.model.counters(),
            adapters: served.model.worker().adapters().count(),
            used: served.slots().adapters(),
        })
        .collect();
    let engines: Vec<_> = seen.iter().map(Seen::measured).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    metrics::write(&engines, now, &mut out);
    server.settings.budgets.write(&mut out);
    let speech = server.manager.models().transcriber();
    let speech = speech.filter(|model| client.allows(model.name()).is_ok());
    let _ = writeln!(out, "# TYPE strata:speech_models gauge");
    let _ = writeln!(
        out,
        "strata:speech_models {}",
        usize::from(speech.is_some())
    );
    // What others do is not for those who have models of their own.
    if client.allows_all() {
        write_server(server, &mut out);
    }
    let uptime = server.started.elapsed();
    metrics::write_uptime(uptime, &mut out);
    Reply::metrics(&out, now.saturating_sub(uptime.as_secs()))
}

/// The numbers of the server as a whole.
fn write_server(server: &Server, out: &mut String) {
    let places = server.places.counts();
    let crowded = server.crowded.load(Ordering::Relaxed);
    for (name, kind, value) in [
        ("connections", "gauge", places.open as u64),
        ("requests_in_flight", "gauge", server.requests() as u64),
        ("connections_evicted_total", "counter", places.evicted),
        ("connections_crowded_total", "counter", places.crowded),
        ("requests_crowded_total", "counter", crowded as u64),
    ] {
        let _ = writeln!(out, "# TYPE strata:{name} {kind}\nstrata:{name} {value}");
    }
    let limit = server.manager.models().limit();
    let _ = writeln!(out, "# TYPE strata:memory_limit_bytes gauge");
    let _ = writeln!(out, "strata:memory_limit_bytes {limit}");
    let counts = server
        .counts
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let _ = writeln!(out, "# TYPE strata:http_requests_total counter");
    for ((route, status), count) in counts.iter() {
        let _ = writeln!(
            out,
            "strata:http_requests_total{{route=\"{route}\",status=\"{status}\"}} {}",
            count.requests
        );
    }
    let _ = writeln!(out, "# TYPE strata:http_seconds_total counter");
    for ((route, status), count) in counts.iter() {
        let _ = writeln!(
            out,
            "strata:http_seconds_total{{route=\"{route}\",status=\"{status}\"}} {}",
            count.seconds
        );
    }
    if let Some(relay) = &server.relay {
        relay.write(out);
    }
    if let Some(traces) = &server.observer.traces {
        let lost = traces.lost();
        let _ = writeln!(
            out,
            "# TYPE strata:spans_lost_total counter\nstrata:spans_lost_total {lost}"
        );
    }
}
