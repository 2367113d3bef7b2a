//! Whose turn it is to compute: engines of several models share the machine, a step at a time, in the order of asking.

use std::sync::{Condvar, Mutex, PoisonError};

/// A lock that is handed out in the order in which it was asked for.
#[derive(Debug, Default)]
pub struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    served: u64,
}

impl Turns {
    /// Waits for its turn and works.
    pub fn take<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Done<'a>(&'a Turns);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.served += 1;
                // Nobody waits where there is one engine: telling nobody would be a system call at each step.
                if state.next > state.served {
                    self.0.changed.notify_all();
                }
            }
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = state.next;
        state.next += 1;
        while state.served != ticket {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let _done = Done(self);
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_works_at_a_time_and_all_get_a_turn() {
        let turns = Turns::default();
        let (inside, total) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        turns.take(|| {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            total.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::SeqCst), 400);
    }
}
