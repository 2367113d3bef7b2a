//! Merging neighbours, best pair first, in O(n log n): shared by byte-level BPE and SentencePiece's BPE.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::table::NONE;

/// What two neighbours become, and when: the lowest `order` is merged first, the leftmost among equals.
#[derive(Clone, Copy)]
pub(crate) struct Join {
    pub(crate) order: u32,
    pub(crate) id: u32,
}

/// A stretch of the text and the token it is so far; `NONE` for a character that has no token.
#[derive(Clone, Copy)]
pub(crate) struct Symbol {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) id: u32,
    prev: u32,
    next: u32,
    /// What it becomes with its right neighbour. `id` is `NONE` if nothing, or if this symbol is already merged away.
    join: Join,
}

/// Nothing to merge.
const APART: Join = Join {
    order: u32::MAX,
    id: NONE,
};

/// The symbols of one word. Kept between words for its memory.
#[derive(Default)]
pub(crate) struct Chain {
    symbols: Vec<Symbol>,
    heap: BinaryHeap<Reverse<u64>>,
}

impl Chain {
    pub(crate) fn clear(&mut self) {
        self.symbols.clear();
    }

    pub(crate) fn push(&mut self, start: usize, end: usize, id: u32) {
        let index = self.symbols.len() as u32;
        if let Some(last) = self.symbols.last_mut() {
            last.next = index;
        }
        self.symbols.push(Symbol {
            start: start as u32,
            end: end as u32,
            id,
            prev: index.checked_sub(1).unwrap_or(NONE),
            next: NONE,
            join: APART,
        });
    }

    /// Merges until no neighbours can be, then calls `emit` with what is left, in order.
    pub(crate) fn merge(
        &mut self,
        join: impl Fn(&Symbol, &Symbol) -> Option<Join>,
        mut emit: impl FnMut(&Symbol),
    ) {
        let mut queue = core::mem::take(&mut self.heap).into_vec();
        queue.clear();
        for index in 0..self.symbols.len() as u32 {
            queue.extend(self.pair(index, &join));
        }
        let mut heap = BinaryHeap::from(queue);
        while let Some(Reverse(key)) = heap.pop() {
            let (order, index) = ((key >> 32) as u32, key as u32);
            let Some(left) = self.symbols.get(index as usize).copied() else {
                continue;
            };
            // The pair may have been merged otherwise, or be another one by now.
            if left.join.id == NONE || left.join.order != order {
                continue;
            }
            let Some(right) = self.symbols.get_mut(left.next as usize) else {
                continue;
            };
            right.join = APART;
            let (end, next) = (right.end, right.next);
            if let Some(left) = self.symbols.get_mut(index as usize) {
                (left.end, left.next, left.id) = (end, next, left.join.id);
            }
            if let Some(after) = self.symbols.get_mut(next as usize) {
                after.prev = index;
            }
            heap.extend(self.pair(left.prev, &join));
            heap.extend(self.pair(index, &join));
        }
        self.heap = heap;
        let mut at = 0;
        while let Some(symbol) = self.symbols.get(at as usize) {
            emit(symbol);
            at = symbol.next;
        }
    }

    /// Works out what a symbol becomes with its right neighbour; gives its place in the queue.
    fn pair(
        &mut self,
        index: u32,
        join: impl Fn(&Symbol, &Symbol) -> Option<Join>,
    ) -> Option<Reverse<u64>> {
        let left = *self.symbols.get(index as usize)?;
        let found = self
            .symbols
            .get(left.next as usize)
            .and_then(|right| join(&left, right))
            .unwrap_or(APART);
        self.symbols.get_mut(index as usize)?.join = found;
        (found.id != NONE).then_some(Reverse(u64::from(found.order) << 32 | u64::from(index)))
    }
}
