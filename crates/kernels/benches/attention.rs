//! Attention over stored keys and values on one thread, in bytes of them a second, and what writes them.
//!
//! `cargo bench -p strata-kernels --bench attention [FILTER…]`

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use std::fmt;
use strata_kernels::{Isa, Kernels, KvRows, KvType};

const HEAD: usize = 128;
/// Query heads that share a key head.
const HEADS: usize = 4;
/// Positions: a few pages, as they lie in a cache.
const POSITIONS: usize = 2048;

fn main() {
    divan::main();
}

#[derive(Copy, Clone)]
struct Case {
    isa: Isa,
    kind: KvType,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.isa, self.kind)
    }
}

impl Case {
    fn kernels(self) -> &'static Kernels {
        Kernels::for_isa(self.isa).expect("only those of this machine are listed")
    }

    /// Rows of keys or values.
    fn stored(self) -> Vec<u8> {
        let size = self.kind.row_bytes(HEAD);
        let mut out = vec![0; POSITIONS * size];
        let x = floats(POSITIONS * HEAD);
        for (x, out) in x.chunks_exact(HEAD).zip(out.chunks_exact_mut(size)) {
            self.kernels().kv_store(self.kind, x, out);
        }
        out
    }
}

fn cases() -> Vec<Case> {
    let here = |isa: &Isa| *isa != Isa::Scalar && Kernels::for_isa(*isa).is_some();
    [KvType::F32, KvType::F16, KvType::Q8_0]
        .into_iter()
        .flat_map(|kind| {
            let isas = Isa::ALL.iter().copied().filter(here);
            isas.map(move |isa| Case { isa, kind })
        })
        .collect()
}

fn floats(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * 0.7).sin()).collect()
}

/// q · k.
#[divan::bench(args = cases())]
fn scores(bencher: Bencher<'_, '_>, case: Case) {
    let (kernels, keys, q) = (case.kernels(), case.stored(), floats(HEADS * HEAD));
    let mut out = vec![0.0; HEADS * POSITIONS];
    bencher
        .counter(BytesCount::new(keys.len()))
        .bench_local(|| {
            let keys = KvRows::new(case.kind, HEAD, black_box(&keys));
            kernels.kv_scores(&q, keys, 0.125, &mut out, POSITIONS);
            black_box(&out);
        });
}

/// Σ p · v.
#[divan::bench(args = cases())]
fn values(bencher: Bencher<'_, '_>, case: Case) {
    let (kernels, values, p) = (case.kernels(), case.stored(), floats(HEADS * POSITIONS));
    let mut acc = vec![0.0; HEADS * HEAD];
    bencher
        .counter(BytesCount::new(values.len()))
        .bench_local(|| {
            acc.fill(0.0);
            let values = KvRows::new(case.kind, HEAD, black_box(&values));
            kernels.kv_accumulate(&p, POSITIONS, values, &mut acc);
            black_box(&acc);
        });
}

/// Keys and values as they are stored.
#[divan::bench(args = cases())]
fn store(bencher: Bencher<'_, '_>, case: Case) {
    let (kernels, x) = (case.kernels(), floats(HEAD));
    let mut out = vec![0; case.kind.row_bytes(HEAD)];
    bencher.counter(ItemsCount::new(HEAD)).bench_local(|| {
        kernels.kv_store(case.kind, black_box(&x), &mut out);
        black_box(&out);
    });
}
