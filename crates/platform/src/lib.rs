//! What the engine asks of the machine under it: workers, memory, time.
//!
//! The traits are implemented by `strata-host` on an operating system and by the unikernel on none.
#![no_std]

extern crate alloc;

mod backing;
mod memory;
mod page_store;
mod pool;
mod sha256;
mod share;

pub use backing::{Backing, Resident};
pub use memory::{Memory, OutOfMemory, Region, SystemMemory};
pub use page_store::{PageKey, PageStore};
pub use pool::{Inline, Pool};
pub use sha256::Sha256;
pub use share::{
    Chunks, Pieces, Stretches, each_alone, for_each_chunk, for_each_part, for_each_piece,
};

/// A clock that never goes back.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some moment in the past.
    fn now_ns(&self) -> u64;
}
