//! Where a sequence's keys, values and recurrent states are.
//!
//! Bookkeeping and bytes are apart: a [`PageTable`] knows which pages and states are whose, how many use them, and what
//! is free, and holds no data; an executor owns the storage that the table's numbers point into.

mod layout;
mod sequence;
mod storage;
mod table;

pub(crate) use layout::{HIDDEN, Half, LayerLayout};
pub use layout::{LayerBlocks, PAGE, PageLayout, Reach};
pub use sequence::Sequence;
pub use storage::PageStorage;
pub(crate) use storage::{LayerStarts, PagesMut, StoredPages};
pub use table::{OutOfPages, PageCopy, PageId, PageTable, StateId};
