//! Which tokens' keys and values go to which pages.

use crate::pages::{LayerStarts, PageId};
use alloc::vec::Vec;

/// Tokens whose keys and values go to the same page: runs of a span.
#[derive(Copy, Clone, Debug, Default)]
struct Run {
    token: u32,
    position: u32,
    count: u32,
}

/// Which tokens go to which pages, in the order of one layer's memory.
#[derive(Default)]
pub(crate) struct Stores {
    runs: Vec<(PageId, Run)>,
    /// Where their pages begin in the layer.
    starts: Vec<usize>,
}

impl Stores {
    pub(super) fn with_room(tokens: usize) -> Self {
        Self {
            runs: Vec::with_capacity(tokens),
            starts: Vec::with_capacity(tokens),
        }
    }

    pub(super) fn bytes(tokens: usize) -> usize {
        tokens * (size_of::<(PageId, Run)>() + size_of::<usize>())
    }

    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.starts.clear();
    }

    /// The next token goes to this page.
    pub(crate) fn add(&mut self, page: PageId, token: usize, position: usize) {
        let (token, position) = (token as u32, position as u32);
        match self.runs.last_mut() {
            Some((last, run)) if *last == page && run.position + run.count == position => {
                run.count += 1;
            }
            _ => {
                let count = 1;
                let run = Run {
                    token,
                    position,
                    count,
                };
                self.runs.push((page, run));
            }
        }
    }

    /// All tokens have been added, and are to be stored in a layer.
    pub(crate) fn sort(&mut self, layer: LayerStarts<'_>) {
        self.runs
            .sort_unstable_by_key(|(page, run)| (layer.of(*page), run.token));
        self.starts.clear();
        self.starts
            .extend(self.runs.iter().map(|(page, _)| layer.of(*page)));
    }

    /// Where the runs' pages begin.
    pub(crate) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The tokens and positions of a run.
    pub(crate) fn run(&self, index: usize) -> impl Iterator<Item = (usize, usize)> {
        let (_, run) = self.runs[index];
        let (token, position) = (run.token as usize, run.position as usize);
        (0..run.count as usize).map(move |i| (token + i, position + i))
    }
}

#[cfg(test)]
impl Stores {
    /// Bytes that it has taken.
    pub(super) fn measured(&self) -> usize {
        self.runs.capacity() * size_of::<(PageId, Run)>()
            + self.starts.capacity() * size_of::<usize>()
    }
}
