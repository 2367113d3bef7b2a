//! Which row of a checkpoint's tensor becomes which of GGUF's.

use crate::family::{Heads, Order, Share};

/// What rows are counted by.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct HeadCounts {
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    /// Rows of the positions' table that stand for padding.
    pub(crate) padding: usize,
    pub(crate) experts: usize,
    pub(crate) states: StateCounts,
    pub(crate) latent: LatentCounts,
}

/// The sizes of recurrences.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct StateCounts {
    /// Groups of heads, each of which has keys of its own.
    pub(crate) groups: usize,
    /// Heads that share a group's keys.
    pub(crate) each: usize,
    pub(crate) key_size: usize,
    pub(crate) value_size: usize,
}

/// The sizes of a head whose keys and values are made from a short vector.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct LatentCounts {
    /// What of a key is not rotated.
    pub(crate) plain: usize,
    pub(crate) value: usize,
}

/// A part of an item: its first row, and how many it has.
type Part = (usize, usize);

/// A permutation of rows, or of some of them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowOrder {
    Same,
    /// Heads of this many rows.
    Pairs {
        size: usize,
    },
    /// The first part of all items, then the second, then the third.
    Parts {
        items: usize,
        /// Rows of an item.
        item: usize,
        parts: [Part; 3],
    },
    /// Every second row, from this one on.
    EverySecond {
        first: usize,
    },
    /// From a row on, heads of so many rows: those of a group from neighbours to as far apart as there are groups.
    Striding {
        from: usize,
        groups: usize,
        each: usize,
        size: usize,
    },
}

const NONE: Part = (0, 0);

impl RowOrder {
    /// The order for a tensor of `rows` rows in so many `items`; `None` if they do not divide into the model's heads.
    pub(crate) fn new(
        order: Order,
        counts: HeadCounts,
        items: usize,
        rows: usize,
    ) -> Option<RowOrder> {
        let whole = |rows: usize, count: usize| {
            let size = rows.checked_div(count)?;
            (size > 0 && size * count == rows).then_some(size)
        };
        let divided = |count: usize| whole(rows, count);
        let StateCounts {
            groups,
            each,
            key_size,
            value_size,
        } = counts.states;
        // Of each group: queries, keys, and the values and gates of its heads.
        let (values, group) = (each * value_size, 2 * (key_size + each * value_size));
        Some(match order {
            // Two of them are settled by the tensor's shape before.
            Order::Same
            | Order::FromWidth(_)
            | Order::ToWidth
            | Order::Transposed
            | Order::Stacked
            | Order::Flat
            | Order::Squeezed
            | Order::Column
            | Order::Groups
            | Order::LatentKeys
            | Order::Columns(_)
            | Order::Experts
            | Order::ExpertsTurned
            | Order::StridingColumns
            | Order::Scales
            | Order::Copy
            | Order::Metadata => RowOrder::Same,
            Order::Positions => RowOrder::from(counts.padding, rows)?,
            Order::PositionsFrom(first) => RowOrder::from(first, rows)?,
            Order::Rows(share) | Order::Turned(share) | Order::Blocks(share) => match share {
                Share::All => RowOrder::Same,
                Share::Even | Share::Odd => {
                    divided(2)?;
                    let first = usize::from(share == Share::Odd);
                    RowOrder::EverySecond { first }
                }
                Share::FirstHalf | Share::SecondHalf => {
                    let item = divided(items)?;
                    let half = whole(item, 2)?;
                    let first = if share == Share::FirstHalf { 0 } else { half };
                    let parts = [(first, half), NONE, NONE];
                    RowOrder::Parts { items, item, parts }
                }
            },
            Order::Pairs(of) => {
                let size = divided(match of {
                    Heads::Query => counts.queries,
                    Heads::KeyValue => counts.keys,
                })?;
                (size % 2 == 0).then_some(RowOrder::Pairs { size })?
            }
            Order::HeadsOfQkv => {
                let size = divided(3 * counts.queries)?;
                RowOrder::Parts {
                    items: counts.queries,
                    item: 3 * size,
                    parts: [(0, size), (size, size), (2 * size, size)],
                }
            }
            Order::GroupsOfQkv => {
                let queries = whole(counts.queries, counts.keys)?;
                let size = divided(counts.queries + 2 * counts.keys)?;
                let key = queries * size;
                RowOrder::Parts {
                    items: counts.keys,
                    item: key + 2 * size,
                    parts: [(0, key), (key, size), (key + size, size)],
                }
            }
            Order::LatentValues => {
                let LatentCounts { plain, value } = counts.latent;
                let item = divided(counts.queries).filter(|&item| item == plain + value)?;
                RowOrder::Parts {
                    items: counts.queries,
                    item,
                    parts: [(plain, value), NONE, NONE],
                }
            }
            Order::StateQkv | Order::StateGates => {
                divided(groups).filter(|&rows| rows == group)?;
                let parts = match order {
                    Order::StateQkv => {
                        [(0, key_size), (key_size, key_size), (2 * key_size, values)]
                    }
                    _ => [(2 * key_size + values, values), NONE, NONE],
                };
                RowOrder::Parts {
                    items: groups,
                    item: group,
                    parts,
                }
            }
            Order::Striding | Order::StridingBehindKeys => {
                let from = match order {
                    Order::Striding => 0,
                    _ => 2 * groups * key_size,
                };
                RowOrder::Striding {
                    from,
                    groups,
                    each,
                    size: whole(rows.checked_sub(from)?, groups * each)?,
                }
            }
        })
    }

    /// Rows from one on.
    fn from(first: usize, rows: usize) -> Option<Self> {
        let count = rows.checked_sub(first).filter(|&count| count > 0)?;
        Some(match first {
            0 => RowOrder::Same,
            _ => RowOrder::Parts {
                items: 1,
                item: rows,
                parts: [(first, count), NONE, NONE],
            },
        })
    }

    /// How many rows there are of so many.
    pub(crate) fn count(self, rows: usize) -> usize {
        match self {
            RowOrder::Parts { items, parts, .. } => {
                items * parts.iter().map(|(_, size)| size).sum::<usize>()
            }
            RowOrder::EverySecond { .. } => rows / 2,
            _ => rows,
        }
    }

    /// The row of the checkpoint's tensor that becomes row `row`.
    pub(crate) fn source(self, row: usize) -> usize {
        match self {
            RowOrder::Same => row,
            RowOrder::EverySecond { first } => 2 * row + first,
            RowOrder::Pairs { size } => {
                let (head, at) = (row / size, row % size);
                head * size + at % 2 * (size / 2) + at / 2
            }
            RowOrder::Parts { items, item, parts } => {
                let mut row = row;
                for (first, size) in parts {
                    if row < items * size {
                        return row / size * item + first + row % size;
                    }
                    row -= items * size;
                }
                usize::MAX
            }
            RowOrder::Striding {
                from,
                groups,
                each,
                size,
            } => match row.checked_sub(from) {
                None => row,
                Some(row) => {
                    let (head, at) = (row / size, row % size);
                    from + (head % groups * each + head / groups) * size + at
                }
            },
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
        experts: 0,
        states: StateCounts {
            groups: 2,
            each: 2,
            key_size: 1,
            value_size: 1,
        },
        latent: LatentCounts { plain: 2, value: 1 },
    };

    fn rows(order: Order, items: usize, count: usize) -> Vec<usize> {
        let order = RowOrder::new(order, HEADS, items, count).expect("rows that divide");
        (0..order.count(count))
            .map(|row| order.source(row))
            .collect()
    }

    #[test]
    fn halves_become_pairs() {
        assert_eq!(
            rows(Order::Pairs(Heads::KeyValue), 1, 8),
            [0, 2, 1, 3, 4, 6, 5, 7]
        );
    }

    #[test]
    fn fused_rows_are_sorted_by_what_they_make() {
        // Heads of one row: q0 k0 v0 q1 k1 v1 …
        assert_eq!(
            rows(Order::HeadsOfQkv, 1, 12),
            [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
        );
        // Groups of two queries, a key and a value.
        assert_eq!(rows(Order::GroupsOfQkv, 1, 8), [0, 1, 4, 5, 2, 6, 3, 7]);
        // Groups of a query, a key, two values and two gates.
        let qkv = rows(Order::StateQkv, 1, 12);
        assert_eq!(qkv, [0, 6, 1, 7, 2, 3, 8, 9]);
        assert_eq!(rows(Order::StateGates, 1, 12), [4, 5, 10, 11]);
        assert_eq!(rows(Order::LatentValues, 1, 12), [2, 5, 8, 11]);
    }

    #[test]
    fn parts_of_every_item_are_taken() {
        assert_eq!(rows(Order::Rows(Share::SecondHalf), 2, 8), [2, 3, 6, 7]);
        assert_eq!(rows(Order::Rows(Share::Odd), 2, 8), [1, 3, 5, 7]);
        assert_eq!(rows(Order::PositionsFrom(2), 1, 4), [2, 3]);
    }

    #[test]
    fn heads_of_a_group_stride() {
        assert_eq!(rows(Order::Striding, 1, 4), [0, 2, 1, 3]);
        let behind = rows(Order::StridingBehindKeys, 1, 12);
        assert_eq!(behind, [0, 1, 2, 3, 4, 5, 8, 9, 6, 7, 10, 11]);
    }

    #[test]
    fn every_order_is_a_permutation_and_odd_shapes_are_refused() {
        for (order, count) in [
            (Order::Pairs(Heads::Query), 64),
            (Order::HeadsOfQkv, 96),
            (Order::GroupsOfQkv, 64),
            (Order::Striding, 64),
        ] {
            let mut sorted = rows(order, 1, count);
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..count));
            for bad in [0, 1, 7, count + 1] {
                let found = RowOrder::new(order, HEADS, 1, bad);
                assert_eq!(found, None, "{order:?} {bad}");
            }
        }
        let pairs = Order::Pairs(Heads::Query);
        assert_eq!(RowOrder::new(pairs, HEADS, 1, 12), None);
    }
}
