//! Attention of one query over keys and values that lie side by side: online softmax over blocks of them, in order.

use super::rows::{self, QueryRows};
use strata_kernels::{Kernels, KvRows, KvType, Partial};

/// Keys between two looks at the maximum.
const KEYS: usize = 32;

/// Keys or values, row after row.
#[derive(Copy, Clone)]
pub(crate) struct StoredRows<'a> {
    pub(crate) kind: KvType,
    pub(crate) bytes: &'a [u8],
}

/// Attends to all rows.
pub(crate) fn attend(
    kernels: &Kernels,
    query: &[f32],
    scale: f32,
    [keys, values]: [StoredRows<'_>; 2],
    out: &mut [f32],
) {
    let size = query.len();
    let queries = QueryRows {
        kernels,
        queries: query,
        scale,
        soft_cap: None,
    };
    let mut scores = [0.0; KEYS];
    let (mut maxima, mut sums) = ([0.0], [0.0]);
    let mut total = Partial {
        maxima: &mut maxima,
        sums: &mut sums,
        acc: out,
    };
    rows::clear(&mut total);
    let row = keys.kind.row_bytes(size);
    let blocks = keys.bytes.chunks(KEYS * row);
    for (block, more) in blocks.zip(values.bytes.chunks(KEYS * row)) {
        let stored = |kind, bytes| [(0, KvRows::new(kind, size, bytes))].into_iter();
        queries.attend(
            stored(keys.kind, block),
            stored(values.kind, more),
            |_, _| {},
            &mut scores[..block.len() / row],
            &mut total,
        );
    }
    total.finish(kernels, None);
}
