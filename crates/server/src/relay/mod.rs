//! A relay: the server's door in front of replicas instead of models of its own.
//!
//! Every request gets a stamp, which replicas take as theirs: with it the same request has the same answer on each of
//! them, to the names of its tool calls. So an answer that breaks off is asked for again elsewhere, and goes on where it
//! stopped. Keys, hosts, origins, limits and logs are the server's own.

mod affinity;
mod delivered;
mod forward;
mod replica;

pub(crate) use forward::{Asked, answer};
pub use replica::{ReplicaUrl, ReplicaUrlError};

use crate::log::LogLevel;
use crate::models::{Listening, Models};
use crate::observation::Observer;
use affinity::{AffinityTable, Beginnings};
use replica::{Replica, State};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strata_chat::{Fault, FaultKind, ModelFacts};

/// A replica that knows a conversation may have so many more requests than the one with the fewest.
const CROWD: usize = 8;

/// The replicas that a server relays to.
#[derive(Debug)]
pub struct Relay {
    replicas: Vec<Arc<Replica>>,
    affinity: Mutex<AffinityTable>,
    /// Requests that went to the replica which had the turn before, and those that nobody had.
    known: AtomicU64,
    unknown: AtomicU64,
    /// Streams that went on elsewhere, and requests that were sent again before anything of them was delivered.
    resumed: AtomicU64,
    resent: AtomicU64,
}

impl Relay {
    /// A relay to these replicas, which must serve the same models.
    pub fn new(urls: Vec<ReplicaUrl>) -> Self {
        Self {
            replicas: urls.into_iter().map(Replica::new).collect(),
            affinity: Mutex::default(),
            known: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            resent: AtomicU64::new(0),
        }
    }

    fn affinity(&self) -> MutexGuard<'_, AffinityTable> {
        self.affinity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some replica takes requests.
    pub(crate) fn is_ready(&self) -> bool {
        let mut replicas = self.replicas.iter();
        replicas.any(|replica| replica.state() == State::Up)
    }

    /// The replica for a request: the one that knows its conversation, or else the one with the least to do. `not` are
    /// those that have failed it.
    fn choose(&self, beginnings: &Beginnings, not: &[usize]) -> Option<usize> {
        let free = |at: &usize| self.replicas[*at].state() == State::Up && !not.contains(at);
        let idle = |at: &usize| {
            let replica = &self.replicas[*at];
            (replica.at_work(), replica.given.load(Ordering::Relaxed))
        };
        let free: Vec<usize> = (0..self.replicas.len()).filter(free).collect();
        let idlest = free.iter().copied().min_by_key(idle)?;
        let least = self.replicas[idlest].at_work();
        let mut table = self.affinity();
        let known = table.find(beginnings).filter(|at| {
            free.contains(at) && self.replicas[*at].at_work() <= least.saturating_add(CROWD)
        });
        let count = if known.is_some() {
            &self.known
        } else {
            &self.unknown
        };
        if beginnings.tell_a_conversation() {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let chosen = known.unwrap_or(idlest);
        table.note(beginnings, chosen);
        Some(chosen)
    }

    /// Looks after the replicas until it is dropped.
    pub(crate) async fn watch(&self, observer: &Arc<Observer>) {
        let mut watching = tokio::task::JoinSet::new();
        for replica in &self.replicas {
            let (replica, observer) = (Arc::clone(replica), Arc::clone(observer));
            watching.spawn(replica.watch(move |replica, state| {
                let (level, message) = match state {
                    State::Up => (LogLevel::Info, "a replica takes requests"),
                    State::Closed => (LogLevel::Info, "a replica takes no more requests"),
                    State::Lost => (LogLevel::Warn, "a replica is lost"),
                };
                let pairs = [("replica", replica.host.as_str().into())];
                observer.log.say(level, message, &pairs);
            }));
        }
        watching.join_all().await;
    }

    /// Its numbers, for Prometheus.
    pub(crate) fn write(&self, out: &mut String) {
        let _ = writeln!(out, "# TYPE strata:relay_replica_up gauge");
        for replica in &self.replicas {
            let up = u8::from(replica.state() == State::Up);
            let host = &replica.host;
            let _ = writeln!(out, "strata:relay_replica_up{{replica=\"{host}\"}} {up}");
        }
        let _ = writeln!(out, "# TYPE strata:relay_requests_total counter");
        for replica in &self.replicas {
            let (host, given) = (&replica.host, replica.given.load(Ordering::Relaxed));
            let _ = writeln!(
                out,
                "strata:relay_requests_total{{replica=\"{host}\"}} {given}"
            );
        }
        for (name, count) in [
            ("conversations_known", &self.known),
            ("conversations_unknown", &self.unknown),
            ("streams_resumed", &self.resumed),
            ("requests_resent", &self.resent),
        ] {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(
                out,
                "# TYPE strata:relay_{name}_total counter\nstrata:relay_{name}_total {count}"
            );
        }
    }
}

/// A relay has no models of its own.
pub(crate) struct NoModels;

impl NoModels {
    fn fault() -> Fault {
        Fault::new(FaultKind::NotFound, "a relay has no models of its own")
    }
}

impl Models for NoModels {
    fn list(&self) -> Vec<ModelFacts> {
        Vec::new()
    }

    fn find(&self, _: Option<&str>) -> Result<ModelFacts, Fault> {
        Err(Self::fault())
    }

    fn memory(&self, _: &str, _: Option<usize>) -> Result<u64, Fault> {
        Err(Self::fault())
    }

    fn limit(&self) -> u64 {
        0
    }

    fn open(&self, _: &str, _: Option<usize>, _: Listening) -> Result<strata::Model, Fault> {
        Err(Self::fault())
    }
}
