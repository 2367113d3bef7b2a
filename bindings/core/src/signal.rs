//! Tells whoever waits for a stream that there is something to read: threads, tasks, event loops.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Instant;

/// Set while a stream may have something to read. The engine's thread sets it, so setting never waits for a reader.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
    hurried: Condvar,
}

#[derive(Default)]
struct State {
    set: bool,
    /// Threads that wait: where there are none, telling them would be a system call for nothing.
    sleepers: usize,
    tasks: Vec<Waker>,
    /// Whoever lets documents gather should come now.
    hurry: bool,
    /// Threads and tasks that do.
    dozers: usize,
    dozing: Vec<Waker>,
    /// Holds one byte while the signal is set.
    pipe: Option<(PipeReader, PipeWriter)>,
}

impl Signal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self) {
        let mut state = self.state();
        if !state.set {
            state.set = true;
            if let Some((_, writer)) = &mut state.pipe {
                // An empty pipe has room for a byte.
                let _ = writer.write_all(&[1]);
            }
        }
        let tasks = std::mem::take(&mut state.tasks);
        let sleepers = state.sleepers;
        drop(state);
        if sleepers > 0 {
            self.changed.notify_all();
        }
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Sets it, and wakes those that doze.
    pub(crate) fn hurry(&self) {
        let mut state = self.state();
        state.hurry = true;
        let tasks = std::mem::take(&mut state.dozing);
        let dozers = state.dozers;
        drop(state);
        if dozers > 0 {
            self.hurried.notify_all();
        }
        tasks.into_iter().for_each(Waker::wake);
        self.set();
    }

    /// There is no hurry any more.
    pub(crate) fn calm(&self) {
        self.state().hurry = false;
    }

    /// Waits until `end`, or until there is a hurry.
    pub(crate) fn doze(&self, end: Instant) {
        let mut state = self.state();
        while !state.hurry {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state.dozers += 1;
            let waited = self.hurried.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.dozers -= 1;
        }
    }

    /// Wakes a task, which wakes by itself after a while, when there is a hurry.
    pub(crate) fn wake_dozing(&self, task: &Waker) {
        let mut state = self.state();
        if state.hurry {
            drop(state);
            task.wake_by_ref();
        } else if !state.dozing.iter().any(|known| known.will_wake(task)) {
            state.dozing.push(task.clone());
        }
    }

    /// Clears it. Whoever calls this looks at the stream afterwards.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.set)
            && let Some((reader, _)) = &mut state.pipe
        {
            let _ = reader.read_exact(&mut [0]);
        }
    }

    /// Waits until it is set, or until `end`. Says whether it is set.
    pub(crate) fn wait(&self, end: Option<Instant>) -> bool {
        let mut state = self.state();
        while !state.set {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            state.sleepers += 1;
            state = match left {
                None => {
                    let waited = self.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleepers -= 1;
        }
        true
    }

    /// Wakes a task when it is set, at once if it is set already.
    pub(crate) fn wake_task(&self, task: &Waker) {
        let mut state = self.state();
        if state.set {
            drop(state);
            task.wake_by_ref();
        } else if !state.tasks.iter().any(|known| known.will_wake(task)) {
            state.tasks.push(task.clone());
        }
    }

    /// The end of a pipe that can be read while it is set.
    #[cfg(unix)]
    pub(crate) fn descriptor(&self) -> io::Result<i32> {
        use std::io::pipe;
        use std::os::fd::AsRawFd;
        let mut state = self.state();
        if state.pipe.is_none() {
            let (reader, mut writer) = pipe()?;
            if state.set {
                writer.write_all(&[1])?;
            }
            state.pipe = Some((reader, writer));
        }
        let pipe = state.pipe.as_ref();
        Ok(pipe.map_or(-1, |(reader, _)| reader.as_raw_fd()))
    }

    /// Event loops of Windows wait for no pipe.
    #[cfg(not(unix))]
    pub(crate) fn descriptor(&self) -> io::Result<i32> {
        let what =
            "this system has no file descriptors to wait for; wait for documents in a thread";
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.set();
    }
}

/// Hurries those that doze.
pub(crate) struct Hurry(pub(crate) Arc<Signal>);

impl Wake for Hurry {
    fn wake(self: Arc<Self>) {
        self.0.hurry();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_descriptor_can_be_read_while_the_signal_is_set() {
        let signal = Arc::new(Signal::default());
        signal.set();
        assert!(signal.descriptor().unwrap() >= 0);
        assert_eq!(signal.descriptor().unwrap(), signal.descriptor().unwrap());
        // As often as one likes: there is never more than one byte in the pipe.
        for _ in 0..100_000 {
            signal.set();
        }
        signal.clear();
        signal.clear();
        assert!(!signal.wait(Some(Instant::now() + Duration::from_millis(1))));
        Waker::from(Arc::clone(&signal)).wake();
        assert!(signal.wait(None));
    }

    #[test]
    fn those_that_doze_wake_in_time_or_when_there_is_a_hurry() {
        let signal = Arc::new(Signal::default());
        let task = Arc::new(Signal::default());
        signal.wake_dozing(&Waker::from(Arc::clone(&task)));
        signal.set();
        let soon = Instant::now() + Duration::from_millis(1);
        signal.doze(soon);
        assert!(Instant::now() >= soon && !task.wait(Some(soon)));
        let other = Arc::clone(&signal);
        let dozing = std::thread::spawn(move || {
            other.doze(Instant::now() + Duration::from_secs(1 << 20));
        });
        Waker::from(Arc::new(Hurry(Arc::clone(&signal)))).wake();
        dozing.join().unwrap();
        assert!(task.wait(None));
        signal.calm();
        signal.doze(soon);
    }

    #[test]
    fn every_task_that_waits_is_woken() {
        let signal = Signal::default();
        let others: Vec<Arc<Signal>> = (0..3).map(|_| Arc::default()).collect();
        for other in &others {
            // Asking twice is asking once.
            for _ in 0..2 {
                signal.wake_task(&Waker::from(Arc::clone(other)));
            }
        }
        signal.set();
        assert!(others.iter().all(|other| other.wait(Some(Instant::now()))));
    }
}
