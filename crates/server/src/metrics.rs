//! What is counted here, beside the engines' own numbers.

use crate::state::Server;
use hyper::StatusCode;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strata_engine::Counters;
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

/// All numbers, as Prometheus reads them. They are those of the engines' latest steps, so nothing here waits for one.
pub(crate) fn text(server: &Server) -> String {
    let mut out = String::new();
    let serving = server.manager.serving();
    let seen: Vec<Seen> = serving
        .into_iter()
        .map(|(model, served)| Seen {
            model,
            counters: served.model.counters(),
            adapters: served.model.worker().adapters().count(),
            used: served.slots().adapters(),
        })
        .collect();
    let engines: Vec<_> = seen.iter().map(Seen::measured).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    metrics::write(&engines, now.map_or(0, |now| now.as_secs()), &mut out);
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
    if let Some(traces) = &server.observer.traces {
        let lost = traces.lost();
        let _ = writeln!(
            out,
            "# TYPE strata:spans_lost_total counter\nstrata:spans_lost_total {lost}"
        );
    }
    metrics::write_uptime(server.started.elapsed(), &mut out);
    out
}
