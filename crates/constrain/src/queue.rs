//! The queue for compiling: first come, first served.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use llguidance::Instant;

/// Places, and those who wait for one.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Places that are taken.
    running: usize,
    /// The numbers of those who wait, the first first.
    waiting: VecDeque<u64>,
    next: u64,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for one of `places` places for as long as `time`. Gives how many are taken if none came free.
    pub(crate) fn enter(&self, places: usize, time: Duration) -> Result<(), usize> {
        let end = Instant::now() + time;
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(number);
        loop {
            if state.running < places && state.waiting.front() == Some(&number) {
                state.waiting.pop_front();
                state.running += 1;
                // The next one may have a place too.
                self.changed.notify_all();
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.waiting.retain(|&waiting| waiting != number);
                self.changed.notify_all();
                return Err(state.running);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Places that are taken.
    pub(crate) fn running(&self) -> usize {
        self.state().running
    }

    /// Gives a place back.
    pub(crate) fn leave(&self) {
        self.state().running -= 1;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_had_in_turn_and_waiting_ends() {
        let queue = Queue::default();
        let soon = Duration::from_millis(20);
        assert_eq!(queue.enter(1, soon), Ok(()));
        assert_eq!(queue.enter(1, soon), Err(1));
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for i in 0..5 {
                let (queue, order) = (&queue, &order);
                scope.spawn(move || {
                    queue.enter(1, Duration::from_secs(60)).unwrap();
                    order.lock().unwrap().push(i);
                    queue.leave();
                });
                while queue.state().waiting.len() <= i {
                    std::thread::yield_now();
                }
            }
            queue.leave();
        });
        assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(queue.enter(1, soon), Ok(()));
    }
}
