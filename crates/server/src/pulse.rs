//! What a connection waits for, and how long it may: every state of it has a deadline.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strata_wire::budgets::Budgets;
use tokio::sync::Notify;

/// The state of a connection.
pub(crate) struct Pulse {
    state: Mutex<State>,
    ending: Notify,
}

struct State {
    /// Requests that have come on it.
    requests: u64,
    /// Requests that are worked on or answered.
    working: usize,
    /// Requests whose bodies come, since when, and their bytes.
    receiving: usize,
    receiving_since: Instant,
    received: u64,
    /// Since when there is no request.
    idle_since: Instant,
    /// Since when the client takes nothing of what is written.
    blocked_since: Option<Instant>,
    /// Whole answers that the client has not begun to take, by number.
    owed: BTreeMap<u64, Instant>,
}

impl Pulse {
    pub(crate) fn new() -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            state: Mutex::new(State {
                requests: 0,
                working: 0,
                receiving: 0,
                receiving_since: now,
                received: 0,
                idle_since: now,
                blocked_since: None,
                owed: BTreeMap::new(),
            }),
            ending: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request begins; it lasts until the guard is dropped.
    pub(crate) fn request(self: &Arc<Self>) -> RequestInFlight {
        let mut state = self.state();
        state.working += 1;
        state.requests += 1;
        RequestInFlight {
            number: state.requests,
            pulse: Arc::clone(self),
        }
    }

    /// Whether no request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        state.working + state.receiving == 0
    }

    /// Whether the client takes what is written.
    pub(crate) fn blocked(&self, blocked: bool) {
        let mut state = self.state();
        if blocked {
            state.blocked_since.get_or_insert_with(Instant::now);
        } else {
            state.blocked_since = None;
        }
    }

    /// Ends the connection.
    pub(crate) fn end(&self) {
        self.ending.notify_one();
    }

    /// Since when nothing but the client holds the connection up. `None` if the server works on something, or if a body
    /// comes as fast as it must.
    pub(crate) fn waits_since(&self, budgets: &Budgets) -> Option<Instant> {
        let state = self.state();
        if state.working > 0 {
            return state.blocked_since;
        }
        if state.receiving == 0 {
            return Some(state.idle_since);
        }
        let elapsed = state.receiving_since.elapsed().as_millis() as u64;
        let due = elapsed * budgets.body_rate as u64 / 1000;
        (state.received < due).then_some(state.receiving_since)
    }

    /// Waits until the connection has used up its time, or is to make room for another.
    pub(crate) async fn overdue(&self, budgets: &Budgets) {
        let shortest = budgets.idle.min(budgets.stall);
        let look = (shortest / 4).clamp(Duration::from_millis(20), Duration::from_secs(5));
        loop {
            let left = self.time_left(budgets);
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(look)) => {}
                () = self.ending.notified() => return,
            }
        }
    }

    fn time_left(&self, budgets: &Budgets) -> Duration {
        let state = self.state();
        let left = |since: &Instant, most: Duration| most.saturating_sub(since.elapsed());
        let idle = state.working + state.receiving == 0;
        let idle = idle.then(|| left(&state.idle_since, budgets.idle));
        let blocked = state.blocked_since.iter();
        let blocked = blocked.chain(state.owed.values().next());
        let blocked = blocked.map(|since| left(since, budgets.stall)).min();
        let all = [idle, blocked].into_iter().flatten().min();
        all.unwrap_or(Duration::MAX)
    }
}

/// A request on a connection.
pub(crate) struct RequestInFlight {
    pulse: Arc<Pulse>,
    number: u64,
}

impl RequestInFlight {
    /// The client sends the body, until the guard is dropped.
    pub(crate) fn receive(&self) -> Receiving<'_> {
        let mut state = self.pulse.state();
        state.working -= 1;
        if state.receiving == 0 {
            state.receiving_since = Instant::now();
            state.received = 0;
        }
        state.receiving += 1;
        Receiving(&self.pulse)
    }

    /// Whether the client has yet to take the answer, which is there.
    pub(crate) fn owed(&self, owed: bool) {
        let mut state = self.pulse.state();
        if owed {
            state.owed.insert(self.number, Instant::now());
        } else {
            state.owed.remove(&self.number);
        }
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        let mut state = self.pulse.state();
        state.owed.remove(&self.number);
        state.working -= 1;
        state.idle_since = Instant::now();
    }
}

/// A body that comes.
pub(crate) struct Receiving<'r>(&'r Pulse);

impl Receiving<'_> {
    /// So many bytes more.
    pub(crate) fn take(&self, bytes: usize) {
        self.0.state().received += bytes as u64;
    }
}

impl Drop for Receiving<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.receiving -= 1;
        state.working += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_waits_for_its_client_may_have_to_go() {
        let budgets = Budgets {
            idle: Duration::ZERO,
            body_rate: 1 << 30,
            ..Budgets::SERVER
        };
        let pulse = Pulse::new();
        assert!(pulse.waits_since(&budgets).is_some());
        assert!(pulse.time_left(&budgets).is_zero());
        let request = pulse.request();
        assert_eq!(pulse.waits_since(&budgets), None);
        assert!(!pulse.time_left(&budgets).is_zero());
        let body = request.receive();
        std::thread::sleep(Duration::from_millis(3));
        assert!(pulse.waits_since(&budgets).is_some());
        body.take(1 << 30);
        assert_eq!(pulse.waits_since(&budgets), None);
        drop(body);
        pulse.blocked(true);
        assert!(pulse.waits_since(&budgets).is_some());
        pulse.blocked(false);
        assert_eq!(pulse.waits_since(&budgets), None);
        let short = Budgets {
            stall: Duration::ZERO,
            ..budgets.clone()
        };
        request.owed(true);
        assert!(pulse.time_left(&short).is_zero());
        request.owed(false);
        assert!(!pulse.time_left(&short).is_zero());
        drop(request);
        assert!(pulse.is_idle());
    }
}
