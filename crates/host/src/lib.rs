//! The platform on an operating system: threads, memory, files, clock.
//!
//! Written for Unix. Huge pages, pinned workers, memory limits and advice about files need Linux; on another system
//! their absence only costs speed.

mod affinity;
mod clock;
mod huge_pages;
mod page_report;
mod patience;
mod size;
mod threads;

pub use clock::MonotonicClock;
pub use huge_pages::HugePages;
pub use page_report::PageReport;
pub use threads::{Pinning, PoolOptions, ThreadPool};
