//! Checks of the exercises of part 2.

use strata_kernels::Kernels;
use strata_learn::demos::numbers;
use strata_quant::{GgmlType, quantize};

pub(super) fn lane_sum(lane_sum: fn(&[f32]) -> f32) {
    for len in [0, 5, 16, 100, 4096] {
        let x = numbers(len, 9);
        // A product with 1 is exact, so this is the kernel's sum.
        let expected = Kernels::detect().dot(&x, &vec![1.0; len]);
        assert_eq!(lane_sum(&x).to_bits(), expected.to_bits(), "{len} numbers");
    }
}

pub(super) fn q8_0(quantize_q8_0: fn(&[f32; 32]) -> [u8; 34]) {
    for seed in 0..50 {
        let x = numbers(32, seed);
        let mut expected = [0; 34];
        quantize(GgmlType::Q8_0, &x, None, &mut expected).expect("whole blocks");
        assert_eq!(quantize_q8_0(x.as_array().expect("32")), expected);
    }
    assert_eq!(quantize_q8_0(&[0.0; 32]), [0; 34]);
}

pub(super) fn roofline(tokens_per_second: fn(f64, f64, f64, f64, f64) -> f64) {
    // 10 GB/s and 100 G products a second, a model of 1 G parameters in half a gigabyte.
    let speed = |batch| tokens_per_second(10e9, 100e9, 1e9, 0.5e9, batch);
    assert_eq!(speed(1.0), 20.0, "alone, memory is the roof");
    assert_eq!(speed(4.0), 80.0, "four share each read");
    assert_eq!(speed(50.0), 100.0, "then the multipliers are");
}

pub(super) fn saturation(largest_quant: fn(u32) -> u32) {
    for pairs in [1, 2, 4, 8, 16] {
        let fits = |quant: i32| 2 * 127 * quant * pairs <= 32767;
        let largest = largest_quant(pairs as u32) as i32;
        assert!(
            fits(largest) && !fits(largest + 1),
            "{pairs} pairs: {largest}"
        );
    }
}
