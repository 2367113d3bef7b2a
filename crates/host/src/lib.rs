//! The platform on an operating system: threads, memory, clock.

mod clock;
mod threads;

pub use clock::MonotonicClock;
pub use threads::ThreadPool;
