//! The platform on an operating system: threads, memory, files, clock.
//!
//! Written for Linux, Android, Windows and macOS. macOS pins no threads, and has large pages on Intel's processors alone. On
//! other systems of the Unix kind there are no huge pages, pinned workers and memory limits, whose absence only costs speed.

mod accept_queue;
#[cfg(target_os = "linux")]
mod activation;
mod affinity;
mod bandwidth;
#[cfg(unix)]
mod bus_guard;
mod caches;
mod cgroup;
mod clock;
mod disk;
mod folders;
mod huge_pages;
mod kernel_files;
#[cfg(target_os = "macos")]
mod macos;
mod mapped_file;
mod memory_budget;
mod numa;
mod page_files;
mod page_report;
#[cfg(windows)]
mod process_memory;
mod random;
mod read_ahead;
mod size;
mod spin_wait;
mod standing;
mod threads;
mod thrift;
mod usage;
mod user;

pub use accept_queue::lengthen_accept_queue;
#[cfg(target_os = "linux")]
pub use activation::{ActivatedSocket, activated_sockets};
pub use bandwidth::{Effort, read_bandwidth, read_bandwidth_of};
pub use caches::Cache;
pub use cgroup::control_group_limit;
pub use clock::MonotonicClock;
pub use disk::{ReadSpeed, read_speed};
pub use folders::{data_folder, home_folder};
pub use huge_pages::HugePages;
pub use mapped_file::{MappedFile, MappedFiles};
pub use memory_budget::{Bound, Budget, cap_process};
pub use numa::MemoryNode;
pub use page_files::PageFiles;
pub use page_report::PageReport;
pub use random::fill_random;
pub use threads::{Pinning, PoolOptions, ThreadPool};
pub use thrift::{Priority, lower_priority, open_files_limit, release_free_memory, share_heaps};
pub use usage::Usage;
pub use user::user_id;
