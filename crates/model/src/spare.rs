//! Buffers that one step hands on to the next: memory that is new costs a fault for each of its pages.

use alloc::vec;
use alloc::vec::Vec;

/// Buffers that nobody uses at the moment.
#[derive(Default)]
pub(crate) struct Spare(Vec<Vec<f32>>);

impl Spare {
    /// So many floats, to be written before they are read.
    pub(crate) fn take(&mut self, len: usize) -> Vec<f32> {
        let buffers = self.0.iter().enumerate();
        let fitting = buffers.filter(|(_, buffer)| buffer.capacity() >= len);
        let least = fitting.min_by_key(|(_, buffer)| buffer.capacity());
        let Some((index, _)) = least else {
            return vec![0.0; len];
        };
        let mut buffer = self.0.swap_remove(index);
        buffer.resize(len, 0.0);
        buffer
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, buffer: Vec<f32>) {
        self.0.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::Spare;
    use alloc::vec;

    #[test]
    fn the_smallest_that_is_large_enough_comes_back() {
        let mut spare = Spare::default();
        assert_eq!(spare.take(3), [0.0; 3]);
        let (small, large) = (vec![1.0; 8], vec![2.0; 100]);
        let place = small.as_ptr();
        spare.give(large);
        spare.give(small);
        let found = spare.take(5);
        assert_eq!((found.as_ptr(), found.len()), (place, 5));
        assert_eq!(spare.take(50).len(), 50);
        assert_eq!(spare.take(50), [0.0; 50], "none is left");
    }
}
