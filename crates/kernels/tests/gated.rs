//! The gated half of a feed-forward network, in one step.

use strata_kernels::{
    ActFormat, ActRows, ActRowsMut, Activation, Gated, Job, Kernels, PANEL_ROWS, Product, Rows,
    TileMut, Weights,
};
use strata_quant::GgmlType;

const ROWS: usize = 768;
const COLUMNS: usize = 24;
const TOKENS: usize = 3;

fn floats(n: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 7 + seed * 5) % 23) as f32 / 11.0 - 1.0;
    (0..n).map(number).collect()
}

/// Hidden rows and their encoding, by `workers` at once.
fn run(workers: usize, gates: bool, format: ActFormat) -> (Vec<f32>, Vec<u8>) {
    let kernels = Kernels::detect();
    let bytes = |seed| -> Vec<u8> {
        let floats = floats(ROWS * COLUMNS, seed);
        floats.iter().flat_map(|x| x.to_le_bytes()).collect()
    };
    let (gate, up) = (bytes(1), bytes(2));
    let mut acts = vec![0; TOKENS * ActFormat::F32.row_bytes(COLUMNS)];
    let row = ActFormat::F32.row_bytes(COLUMNS);
    for (x, out) in floats(TOKENS * COLUMNS, 3)
        .chunks(COLUMNS)
        .zip(acts.chunks_mut(row))
    {
        kernels.quantize_act(ActFormat::F32, x, out);
    }
    let mut hidden = vec![0.0; TOKENS * 2 * ROWS];
    let mut encoded = vec![0; TOKENS * format.row_bytes(ROWS)];
    let (a, b) = TileMut::from_slice(&mut hidden, TOKENS, 2 * ROWS).split_rows(ROWS);
    let product = |bytes, out| Product {
        weights: Weights::Rows(Rows::new(GgmlType::F32, ROWS, COLUMNS, bytes)),
        x: ActRows::new(ActFormat::F32, COLUMNS, &acts),
        out,
    };
    let biases = [floats(ROWS, 4), floats(ROWS, 5)];
    let up = gates.then(|| product(&up, b));
    let gated = Gated::new(product(&gate, a), up, Activation::Silu)
        .with_biases([Some(&biases[0]), Some(&biases[1])])
        .encoding(ActRowsMut::new(format, ROWS, &mut encoded));
    let mut gated = [Some(gated), None];
    let job = Job::new(kernels, &mut gated, workers);
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let job = &job;
            scope.spawn(move || job.work(worker, &mut vec![0; COLUMNS * PANEL_ROWS * 4]));
        }
    });
    let results = hidden.chunks(2 * ROWS).flat_map(|row| row[..ROWS].to_vec());
    (results.collect(), encoded)
}

#[test]
fn the_result_is_what_the_steps_give_one_by_one() {
    let kernels = Kernels::detect();
    let (gate, up, x) = (
        floats(ROWS * COLUMNS, 1),
        floats(ROWS * COLUMNS, 2),
        floats(TOKENS * COLUMNS, 3),
    );
    for gates in [false, true] {
        for format in [ActFormat::F32, ActFormat::Q8x32, ActFormat::Q8x256] {
            let (hidden, encoded) = run(1, gates, format);
            for t in 0..TOKENS {
                for r in 0..ROWS {
                    let dot = |w: &[f32], bias: f32| -> f64 {
                        let row = w[r * COLUMNS..][..COLUMNS].iter();
                        let products = row.zip(&x[t * COLUMNS..]);
                        let sum: f64 = products.map(|(w, x)| f64::from(w * x)).sum();
                        sum + f64::from(bias)
                    };
                    let g = dot(&gate, floats(ROWS, 4)[r]);
                    let u = dot(&up, floats(ROWS, 5)[r]);
                    let expected = g / (1.0 + (-g).exp()) * if gates { u } else { 1.0 };
                    let got = f64::from(hidden[t * ROWS + r]);
                    assert!((got - expected).abs() < 1e-4, "{got} for {expected}");
                }
            }
            let mut whole = vec![0; encoded.len()];
            let row = format.row_bytes(ROWS);
            for (x, out) in hidden.chunks(ROWS).zip(whole.chunks_mut(row)) {
                kernels.quantize_act(format, x, out);
            }
            assert!(encoded == whole, "{format:?}");
            assert!(run(3, gates, format) == (hidden, encoded), "{format:?}");
        }
    }
}
