//! Threads that make requests ready: they render, tokenize and compile grammars, so that no caller waits for it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// Threads at most. A grammar may take a while, and others should not wait for it.
const MOST: usize = 4;
/// How long a thread waits for the next job before it ends.
const IDLE: Duration = Duration::from_secs(2);

struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    jobs: VecDeque::new(),
    threads: 0,
    idle: 0,
});
static ADDED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something on another thread, in its turn. Jobs must not panic.
pub(crate) fn run(job: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let mut state = queue();
    state.jobs.push_back(Box::new(job));
    if let Err(error) = state.grow()
        && state.threads == 0
    {
        state.jobs.pop_back();
        return Err(error);
    }
    drop(state);
    ADDED.notify_one();
    Ok(())
}

/// Waits for something else in a job, such as a network: meanwhile the thread does not count, and another does the jobs.
pub(crate) fn aside<T>(wait: impl FnOnce() -> T) -> T {
    struct Aside;
    impl Drop for Aside {
        fn drop(&mut self) {
            queue().threads += 1;
        }
    }
    let mut state = queue();
    state.threads = state.threads.saturating_sub(1);
    // Where no thread can be had, this one comes to them later.
    let _ = state.grow();
    drop(state);
    let _aside = Aside;
    wait()
}

impl Queue {
    /// Starts a thread where jobs wait for one. Those that run come to them otherwise.
    fn grow(&mut self) -> std::io::Result<()> {
        if self.idle < self.jobs.len() && self.threads < MOST {
            let started = std::thread::Builder::new().name("prepare".into());
            started.spawn(work)?;
            self.threads += 1;
        }
        Ok(())
    }
}

fn work() {
    let mut state = queue();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            job();
            state = queue();
            continue;
        }
        state.idle += 1;
        let waited = ADDED.wait_timeout(state, IDLE);
        let timeout;
        (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        if timeout.timed_out() && state.jobs.is_empty() {
            state.threads -= 1;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn every_job_is_done_while_another_takes_its_time() {
        let (release, wait) = mpsc::channel::<()>();
        run(move || wait.recv().unwrap_or_default()).unwrap();
        let (done, jobs) = mpsc::channel();
        for number in 0..100 {
            let done = done.clone();
            run(move || done.send(number).unwrap()).unwrap();
        }
        let mut numbers: Vec<i32> = jobs.iter().take(100).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        release.send(()).unwrap();
    }

    #[test]
    fn jobs_that_wait_hold_up_nobody() {
        let (release, wait) = mpsc::channel::<()>();
        let wait = std::sync::Arc::new(Mutex::new(wait));
        for _ in 0..MOST + 1 {
            let wait = std::sync::Arc::clone(&wait);
            let waiting = move || {
                let _ = aside(|| wait.lock().unwrap().recv());
            };
            run(waiting).unwrap();
        }
        let (done, jobs) = mpsc::channel();
        run(move || done.send(()).unwrap()).unwrap();
        jobs.recv_timeout(Duration::from_secs(20)).unwrap();
        drop(release);
    }
}
