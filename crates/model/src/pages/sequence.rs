//! A sequence's pages and state.

use super::layout::{PAGE, Reach};
use super::table::{PageId, StateId};
use alloc::vec::Vec;

/// A sequence's pages and state, and how many positions have been computed.
///
/// It must be given back with [`PageTable::truncate`](super::PageTable::truncate); a dropped sequence keeps its pages.
#[derive(Debug, Default)]
pub struct Sequence {
    pub(crate) pages: Vec<PageId>,
    pub(crate) len: usize,
    /// Pages at the beginning whose windows' part it does not hold any more.
    pub(crate) forgotten: usize,
    /// Where its recurrent state is, as of `len` positions. Before the first position a state is empty, whatever bytes
    /// its storage holds.
    pub(crate) state: Option<StateId>,
    /// Positions at the beginning that an encoder reads.
    pub(crate) source: usize,
}

impl Sequence {
    /// Positions that have been computed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// What an executor on another machine knows of a sequence; its pages stay whose they are.
    pub fn mirrored(
        pages: Vec<PageId>,
        len: usize,
        forgotten: usize,
        state: Option<StateId>,
    ) -> Self {
        Self {
            pages,
            len,
            forgotten,
            state,
            source: 0,
        }
    }

    /// How many positions at its beginning are a source, which an encoder reads; 0 in models without.
    pub fn source(&self) -> usize {
        self.source
    }

    /// Says how long the source is, before anything is computed of it or after it was shared.
    pub fn set_source(&mut self, positions: usize) {
        self.source = positions;
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Counts positions that an executor has computed. Only executors call this.
    pub fn advance(&mut self, positions: usize) {
        self.len += positions;
    }

    /// Forgets the positions from `len` on and keeps their pages, for the tokens that will stand there instead.
    ///
    /// Positions that a fork shares must stay: what is stored next would show in the fork. A recurrent state cannot be
    /// cut back: where there is one, nothing that was computed stays.
    pub fn rewind(&mut self, len: usize) {
        if len < self.len {
            self.len = if self.state.is_some() { 0 } else { len };
        }
    }

    /// Counts as `len` positions, fewer than were computed: its recurrent state, if it has one, has been restored to what
    /// it was then.
    pub fn restored(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Its pages, in order.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// Its recurrent state.
    pub fn state(&self) -> Option<StateId> {
        self.state
    }

    /// How many pages at its beginning it holds without the windows' part.
    pub fn forgotten(&self) -> usize {
        self.forgotten
    }

    /// Positions that it has pages for.
    pub fn room(&self) -> usize {
        self.pages.len() * PAGE
    }

    /// The parts that it holds of a page, in the order of giving them back.
    pub(super) fn parts(&self, index: usize) -> impl Iterator<Item = Reach> + use<> {
        let window = (index >= self.forgotten).then_some(Reach::Window);
        window.into_iter().chain([Reach::Everything])
    }
}
