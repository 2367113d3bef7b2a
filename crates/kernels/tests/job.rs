//! Work that several workers share.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Mutex;
use strata_kernels::{
    ActRows, Job, Kernels, PANEL_ROWS, PanelRun, PanelWork, Panels, Product, Rows, TileMut,
    Weights, act_format, pack_panel, packed_bytes, panel_bytes,
};
use strata_quant::GgmlType;

/// (rows, columns) of small integers, in f32, as in a file.
fn rows_of(rows: usize, columns: usize) -> Vec<u8> {
    (0..rows * columns)
        .flat_map(|v| ((v * 7 % 23) as f32 - 11.0).to_le_bytes())
        .collect()
}

fn packed(rows: usize, columns: usize) -> Vec<u8> {
    let mut out = vec![0; packed_bytes(GgmlType::F32, rows, columns)];
    let panel = panel_bytes(GgmlType::F32, columns);
    let bytes = rows_of(rows, columns);
    for (bytes, out) in bytes
        .chunks(PANEL_ROWS * columns * 4)
        .zip(out.chunks_mut(panel))
    {
        pack_panel(GgmlType::F32, columns, bytes, out);
    }
    out
}

#[test]
fn workers_together_compute_every_row_once() {
    let kernels = Kernels::detect();
    let (columns, tokens) = (24, 3);
    let format = act_format(GgmlType::F32);
    let x: Vec<f32> = (0..tokens * columns)
        .map(|i| (i % 5) as f32 - 2.0)
        .collect();
    let mut acts = vec![0; tokens * format.row_bytes(columns)];
    for (x, out) in x
        .chunks(columns)
        .zip(acts.chunks_mut(format.row_bytes(columns)))
    {
        kernels.quantize_act(format, x, out);
    }
    let x = ActRows::new(format, columns, &acts);
    let matrices = [33, 16, 500].map(|rows| (rows, packed(rows, columns), rows_of(rows, columns)));
    let run = |workers: usize, streamed: bool| {
        let scratch = if streamed {
            panel_bytes(GgmlType::F32, columns)
        } else {
            0
        };
        let mut outs = matrices
            .each_ref()
            .map(|(rows, ..)| vec![f32::NAN; tokens * rows]);
        let mut products: Vec<Product<'_>> = matrices
            .iter()
            .zip(&mut outs)
            .map(|((rows, packed, bytes), out)| Product {
                weights: if streamed {
                    Weights::Rows(Rows::new(GgmlType::F32, *rows, columns, bytes))
                } else {
                    Weights::Packed(Panels::new(GgmlType::F32, *rows, columns, packed))
                },
                x,
                out: TileMut::from_slice(out, tokens, *rows),
            })
            .collect();
        let job = Job::new(kernels, &mut products[..], workers);
        std::thread::scope(|scope| {
            for worker in 0..workers {
                let job = &job;
                scope.spawn(move || job.work(worker, &mut vec![0; scratch]));
            }
        });
        drop(products);
        outs
    };
    let alone = run(1, false);
    assert!(alone.iter().flatten().all(|v| v.is_finite()));
    // More workers than stretches too.
    for workers in [2, 5, 19, 64] {
        assert_eq!(run(workers, false), alone);
        assert_eq!(run(workers, true), alone);
    }
}

/// Panels of a byte each, and the runs that were asked for: the first panel, how many, and what comes next.
struct Watched<'a> {
    bytes: &'a [u8],
    granule: usize,
    runs: &'a Mutex<Vec<(usize, usize, Option<u8>)>>,
}

// SAFETY: it writes nothing but what a lock guards.
unsafe impl PanelWork for Watched<'_> {
    fn panels(&self) -> usize {
        self.bytes.len()
    }

    fn granule(&self) -> usize {
        self.granule
    }

    fn weights_from(&self, panel: usize) -> &[u8] {
        &self.bytes[panel..]
    }

    unsafe fn compute(&self, _: &Kernels, run: PanelRun<'_>, _: &mut [u8]) {
        let PanelRun { panel, count, next } = run;
        let mut runs = self.runs.lock().unwrap();
        runs.push((panel, count, next.first().copied()));
    }
}

#[test]
fn a_run_knows_what_its_worker_reads_next() {
    let bytes: Vec<u8> = (0..200).collect();
    let runs = Mutex::new(Vec::new());
    let task = |range: Range<usize>, granule| {
        Some(Watched {
            bytes: &bytes[range],
            granule,
            runs: &runs,
        })
    };
    let mut tasks = [task(0..40, 1), None, task(40..41, 1), task(41..200, 4)];
    Job::new(Kernels::detect(), &mut tasks, 2).work(0, &mut []);
    let runs = runs.into_inner().unwrap();
    let own = runs.iter().position(|(.., next)| next.is_none()).unwrap();
    assert_eq!(runs[0], (0, 3, Some(3)));
    // The single panel is the other stretch's.
    assert_eq!(runs[6], (18, 2, Some(41)));
    assert_eq!(runs[7], (0, 12, Some(41 + 12)));
    assert_eq!(runs[own], (72, 8, None));
    // What was left of the other's.
    assert_eq!(runs[own + 1], (20, 3, Some(23)));
    assert_eq!(runs[own + 7], (38, 2, Some(40)));
    assert_eq!(runs[own + 8], (0, 1, Some(41 + 80)));
}
