//! Which row of a checkpoint's tensor becomes which of GGUF's.

use crate::family::{Heads, Order};

/// What rows are counted by.
#[derive(Copy, Clone, Debug)]
pub(crate) struct HeadCounts {
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    /// Rows of the positions' table that stand for padding.
    pub(crate) padding: usize,
}

/// A permutation of rows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowOrder {
    Same,
    /// Heads of this many rows.
    Pairs {
        size: usize,
    },
    HeadsOfQkv {
        heads: usize,
        size: usize,
    },
    /// So many rows from one on.
    Part {
        first: usize,
        count: usize,
    },
    GroupsOfQkv {
        heads: usize,
        groups: usize,
        size: usize,
    },
    /// So many rows of each item, which has twice as many, from one on.
    HalfOfItems {
        first: usize,
        size: usize,
    },
}

impl RowOrder {
    /// The order for a tensor of `rows` rows; `None` if they do not divide into the model's heads.
    pub(crate) fn new(order: Order, heads: HeadCounts, rows: usize) -> Option<RowOrder> {
        let divided = |count: usize| {
            let size = rows.checked_div(count)?;
            (size > 0 && size * count == rows).then_some(size)
        };
        Some(match order {
            Order::Same
            | Order::Transposed
            | Order::Stacked
            | Order::Flat
            | Order::Squeezed
            | Order::Exact => RowOrder::Same,
            Order::Positions => {
                let first = Some(heads.padding).filter(|&padding| padding < rows)?;
                let count = rows - first;
                RowOrder::Part { first, count }
            }
            Order::PositionsFrom(first) => RowOrder::Part {
                first,
                count: rows.checked_sub(first)?,
            },
            Order::FirstHalf => RowOrder::Part {
                first: 0,
                count: divided(2)?,
            },
            Order::SecondHalf => RowOrder::Part {
                first: divided(2)?,
                count: divided(2)?,
            },
            Order::Pairs(of) => {
                let size = divided(match of {
                    Heads::Query => heads.queries,
                    Heads::KeyValue => heads.keys,
                })?;
                (size % 2 == 0).then_some(RowOrder::Pairs { size })?
            }
            Order::HeadsOfQkv => RowOrder::HeadsOfQkv {
                heads: heads.queries,
                size: divided(3 * heads.queries)?,
            },
            Order::GroupsOfQkv => {
                let whole = heads.keys > 0 && heads.queries.is_multiple_of(heads.keys);
                whole.then_some(())?;
                RowOrder::GroupsOfQkv {
                    heads: heads.queries,
                    groups: heads.keys,
                    size: divided(heads.queries + 2 * heads.keys)?,
                }
            }
        })
    }

    /// How many rows there are of so many.
    pub(crate) fn count(self, rows: usize) -> usize {
        match self {
            RowOrder::Part { count, .. } => count,
            RowOrder::HalfOfItems { .. } => rows / 2,
            _ => rows,
        }
    }

    /// The row of the checkpoint's tensor that becomes row `row`.
    pub(crate) fn source(self, row: usize) -> usize {
        match self {
            RowOrder::Same => row,
            RowOrder::Part { first, .. } => first + row,
            RowOrder::HalfOfItems { first, size } => row / size * 2 * size + first + row % size,
            RowOrder::Pairs { size } => {
                let (head, at) = (row / size, row % size);
                head * size + at % 2 * (size / 2) + at / 2
            }
            RowOrder::HeadsOfQkv { heads, size } => {
                let (part, head) = (row / (heads * size), row / size % heads);
                (head * 3 + part) * size + row % size
            }
            RowOrder::GroupsOfQkv {
                heads,
                groups,
                size,
            } => {
                let queries = heads / groups;
                let head = row / size;
                let (group, at) = match head.checked_sub(heads) {
                    None => (head / queries, head % queries),
                    Some(key) => (key % groups, queries + key / groups),
                };
                (group * (queries + 2) + at) * size + row % size
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const HEADS: HeadCounts = HeadCounts {
        queries: 4,
        keys: 2,
        padding: 0,
    };

    fn rows(order: Order, count: usize) -> Vec<usize> {
        let order = RowOrder::new(order, HEADS, count).expect("rows that divide");
        (0..count).map(|row| order.source(row)).collect()
    }

    #[test]
    fn halves_become_pairs() {
        assert_eq!(
            rows(Order::Pairs(Heads::KeyValue), 8),
            [0, 2, 1, 3, 4, 6, 5, 7]
        );
    }

    #[test]
    fn fused_rows_are_sorted_by_what_they_make() {
        // Heads of one row: q0 k0 v0 q1 k1 v1 …
        assert_eq!(
            rows(Order::HeadsOfQkv, 12),
            [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
        );
        // Groups of two queries, a key and a value.
        assert_eq!(rows(Order::GroupsOfQkv, 8), [0, 1, 4, 5, 2, 6, 3, 7]);
    }

    #[test]
    fn half_of_every_item_is_taken() {
        let order = RowOrder::HalfOfItems { first: 2, size: 2 };
        let rows: Vec<usize> = (0..order.count(8)).map(|row| order.source(row)).collect();
        assert_eq!(rows, [2, 3, 6, 7]);
    }

    #[test]
    fn every_order_is_a_permutation_and_odd_shapes_are_refused() {
        for (order, count) in [
            (Order::Pairs(Heads::Query), 64),
            (Order::HeadsOfQkv, 96),
            (Order::GroupsOfQkv, 64),
        ] {
            let mut sorted = rows(order, count);
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..count));
            for bad in [0, 1, 7, count + 1] {
                assert_eq!(RowOrder::new(order, HEADS, bad), None, "{order:?} {bad}");
            }
        }
        assert_eq!(RowOrder::new(Order::Pairs(Heads::Query), HEADS, 12), None);
    }
}
