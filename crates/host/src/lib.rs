//! The platform on an operating system: threads, memory, files, clock.
//!
//! Everything works on any system that `std` knows; huge pages, pinned workers, memory limits and advice about files
//! need Linux, and elsewhere their absence only costs speed.

mod affinity;
mod clock;
mod patience;
mod threads;

pub use clock::MonotonicClock;
pub use threads::{Pinning, PoolOptions, ThreadPool};
