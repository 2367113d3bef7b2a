//! Operations on vectors on one thread, in values a second: quantized activations, norms, softmax, SiLU, convolution.
//!
//! `cargo bench -p strata-kernels --bench vector [FILTER…]`

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use std::fmt;
use strata_kernels::{ActFormat, Activation, Isa, Kernels};

/// The width of a small model's states.
const WIDTH: usize = 2048;

fn main() {
    divan::main();
}

/// The instruction sets of this machine. Plain Rust is no contender.
fn isas() -> Vec<Isa> {
    let all = Isa::ALL.iter().copied();
    all.filter(|&isa| isa != Isa::Scalar && Kernels::for_isa(isa).is_some())
        .collect()
}

fn kernels(isa: Isa) -> &'static Kernels {
    Kernels::for_isa(isa).expect("only those of this machine are listed")
}

fn floats() -> Vec<f32> {
    (0..WIDTH).map(|i| (i as f32 * 0.7).sin()).collect()
}

#[derive(Copy, Clone)]
struct Case {
    isa: Isa,
    format: ActFormat,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.isa, self.format)
    }
}

fn cases() -> Vec<Case> {
    [ActFormat::Q8x32, ActFormat::Q8x256]
        .into_iter()
        .flat_map(|format| isas().into_iter().map(move |isa| Case { isa, format }))
        .collect()
}

#[divan::bench(args = cases())]
fn quantize_act(bencher: Bencher<'_, '_>, case: Case) {
    let (kernels, x) = (kernels(case.isa), floats());
    let mut out = vec![0; case.format.row_bytes(WIDTH)];
    bencher.counter(ItemsCount::new(WIDTH)).bench_local(|| {
        kernels.quantize_act(case.format, black_box(&x), &mut out);
        black_box(&out);
    });
}

#[divan::bench(args = isas())]
fn rms_norm(bencher: Bencher<'_, '_>, isa: Isa) {
    let (kernels, x, weight) = (kernels(isa), floats(), floats());
    let mut out = vec![0.0; WIDTH];
    bencher.counter(ItemsCount::new(WIDTH)).bench_local(|| {
        kernels.rms_norm(black_box(&x), Some(&weight), 1e-5, &mut out);
        black_box(&out);
    });
}

#[divan::bench(args = isas())]
fn softmax(bencher: Bencher<'_, '_>, isa: Isa) {
    let (kernels, x) = (kernels(isa), floats());
    let mut out = vec![0.0; WIDTH];
    bencher.counter(ItemsCount::new(WIDTH)).bench_local(|| {
        out.copy_from_slice(black_box(&x));
        kernels.softmax(&mut out);
        black_box(&out);
    });
}

#[divan::bench(args = isas())]
fn silu_mul(bencher: Bencher<'_, '_>, isa: Isa) {
    let (kernels, x, up) = (kernels(isa), floats(), floats());
    let mut out = vec![0.0; WIDTH];
    bencher.counter(ItemsCount::new(WIDTH)).bench_local(|| {
        out.copy_from_slice(black_box(&x));
        kernels.activate_mul(Activation::Silu, &mut out, &up);
        black_box(&out);
    });
}

#[divan::bench(args = isas())]
fn short_conv(bencher: Bencher<'_, '_>, isa: Isa) {
    let (kernels, x, taps) = (kernels(isa), floats(), floats());
    let mut out = vec![0.0; WIDTH];
    bencher.counter(ItemsCount::new(WIDTH)).bench_local(|| {
        let x = black_box(&x[..]);
        let taps = &taps[..];
        kernels.short_conv(&[taps; 3], &[x; 3], Some(x), &mut out);
        black_box(&out);
    });
}
