//! Which float operations of a device are exact: it does them on numbers that the processors have done as well.

use crate::device::Device;
use std::ops::Range;
use strata_gpu::args::Arguments;
use strata_gpu::{Backend, DeviceError, Shape, launch};

/// The operations that kernels take from the device; the others they do with 64-bit floats or in integers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Exactness {
    /// Fused products and sums.
    pub fuses: bool,
    /// The same by way of 64-bit floats.
    pub doubles: bool,
    /// Quotients.
    pub divides: bool,
    /// Square roots.
    pub roots: bool,
}

impl Exactness {
    pub(crate) fn at_most(self, most: Option<Self>) -> Self {
        let Some(most) = most else { return self };
        Self {
            fuses: self.fuses && most.fuses,
            doubles: self.doubles && most.doubles,
            divides: self.divides && most.divides,
            roots: self.roots && most.roots,
        }
    }
}

/// What `kernels/self_test.comp` takes.
#[repr(C)]
#[derive(Copy, Clone)]
struct SelfTest {
    numbers: u64,
    results: u64,
    count: u32,
}

impl Arguments for SelfTest {}

/// Results for each three numbers; which of them are the device's own fused product, quotient and root. All others must be
/// right: kernels stand on them.
const RESULTS: usize = 12;
const OWN: Range<usize> = 4..7;
const HALVES: usize = 11;

const THREADS: usize = 256;

/// Zeros, the smallest numbers, those around 1 and at powers of two, the largest, infinity, and no number.
const SPECIAL: [u32; 20] = [
    0x0000_0000,
    0x8000_0000,
    0x0000_0001,
    0x8000_0003,
    0x0040_0000,
    0x007f_ffff,
    0x0080_0000,
    0x8080_0001,
    0x3380_0000,
    0x3f7f_ffff,
    0x3f80_0000,
    0xbf80_0001,
    0x3eaa_aaab,
    0x4040_0000,
    0x4b7f_ffff,
    0xcb80_0001,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0x7fc0_0000,
];

fn next(state: &mut u64) -> u32 {
    *state = state
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    (*state >> 32) as u32
}

/// Threes of numbers: all special ones with each other, any bits, and such whose sums cancel.
fn numbers() -> Vec<[f32; 3]> {
    let special = SPECIAL.map(f32::from_bits);
    let mut all = Vec::new();
    for x in special {
        for y in special {
            all.extend(special.map(|z| [x, y, z]));
        }
    }
    let mut random = 1;
    for _ in 0..8192 {
        all.push([(); 3].map(|()| f32::from_bits(next(&mut random))));
    }
    for i in 0..16384 {
        let [x, y] = [(); 2].map(|()| {
            // Exponents near 1, or near the smallest.
            let exponent = if i % 4 == 0 { 40 } else { 120 } + next(&mut random) % 16;
            f32::from_bits(next(&mut random) & 0x807f_ffff | exponent << 23)
        });
        let z = match i % 3 {
            0 => -(x * y),
            1 => f32::from_bits((-(x * y)).to_bits().wrapping_add(next(&mut random) % 5)),
            _ => x * y * f32::from_bits(0x3380_0000 | next(&mut random) & 0x8000_0003),
        };
        all.push([x, y, z]);
    }
    all
}

/// A half by its definition.
fn half_to_float(half: u32) -> f32 {
    let sign = if half & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, rest) = (half >> 10 & 31, (half & 0x3ff) as f32);
    let power = |n: i32| 2.0f32.powi(n);
    match exponent {
        0 => sign * rest * power(-24),
        31 if rest == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1024.0 + rest) * power(exponent as i32 - 25),
    }
}

/// The nearest half, of two equally near ones the even one, found among all of them.
fn float_to_half(f: f32) -> u32 {
    let sign = f.to_bits() >> 16 & 0x8000;
    let size = f64::from(f.abs());
    let (mut low, mut high) = (0_u32, 0x7c00_u32);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if f64::from(half_to_float(middle)) <= size {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    if low == 0x7c00 {
        return sign | low;
    }
    let at = f64::from(half_to_float(low));
    // Above the largest comes what would be the next power of two.
    let above = if low == 0x7bff {
        65536.0
    } else {
        f64::from(half_to_float(low + 1))
    };
    let (below, beyond) = (size - at, above - size);
    let up = beyond < below || (beyond == below && low % 2 == 1);
    sign | (low + u32::from(up))
}

/// What the processors get.
fn expected([x, y, z]: [f32; 3]) -> [f32; RESULTS] {
    let compared = u32::from(x < y) | u32::from(x == y) << 1 | u32::from(x > y) << 2;
    let half = half_to_float(y.to_bits() & 0xffff).to_bits();
    let halves = float_to_half(x) | compared << 16 | (half >> 13 & 0x1fff) << 19;
    let fused = x.mul_add(y, z);
    [
        x + y,
        x - y,
        x * y,
        x * y + z,
        fused,
        x / y,
        x.sqrt(),
        fused,
        x / y,
        x.sqrt(),
        x.to_bits() as i32 as f32,
        f32::from_bits(halves),
    ]
}

fn same(index: usize, [x, y, _]: [f32; 3], expected: f32, found: f32) -> bool {
    if index == HALVES {
        // Of what is no number nobody needs the bits.
        return x.is_nan()
            || half_to_float(y.to_bits() & 0xffff).is_nan()
            || expected.to_bits() == found.to_bits();
    }
    expected.to_bits() == found.to_bits() || expected.is_nan() && found.is_nan()
}

/// Has a device do all of them. A device whose sums, products or whole numbers differ is refused.
pub(crate) fn prove(device: &mut Device, has_doubles: bool) -> Result<Exactness, DeviceError> {
    let numbers = numbers();
    let wrong = count_wrong(device, "self_test", &numbers)?;
    let others = |wrong: &[usize; RESULTS]| -> usize {
        let needed = (0..RESULTS).filter(|index| !OWN.contains(index));
        needed.map(|index| wrong[index]).sum()
    };
    if others(&wrong) > 0 {
        return Err(DeviceError::OtherBits {
            name: device.facts().name.clone(),
            wrong: others(&wrong),
            all: (RESULTS - OWN.len()) * numbers.len(),
        });
    }
    let [fuses, divides, roots] = [4, 5, 6].map(|index| wrong[index] == 0);
    let doubles = has_doubles && others(&count_wrong(device, "self_test_f64", &numbers)?) == 0;
    Ok(Exactness {
        fuses,
        doubles,
        divides,
        roots,
    })
}

/// How many of each result differ.
fn count_wrong(
    device: &mut Device,
    kernel: &str,
    numbers: &[[f32; 3]],
) -> Result<[usize; RESULTS], DeviceError> {
    let doing = "proving its arithmetic";
    let bytes: Vec<u8> = numbers
        .iter()
        .flatten()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let from = device.alloc(bytes.len(), doing)?;
    let to = device.alloc(4 * RESULTS * numbers.len(), doing)?;
    device.upload(from, &bytes)?;
    let kernel = device.kernel("self_test", kernel)?;
    let shape = Shape {
        grid: [numbers.len().div_ceil(THREADS) as u32, 1, 1],
        threads: THREADS as u32,
        shared: 0,
    };
    let arguments = SelfTest {
        numbers: from,
        results: to,
        count: numbers.len() as u32,
    };
    launch(device, kernel, shape, &arguments)?;
    let mut bytes = vec![0; 4 * RESULTS * numbers.len()];
    device.download(&mut bytes, to)?;
    let found: Vec<f32> = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    let mut wrong = [0; RESULTS];
    for (three, found) in numbers.iter().zip(found.chunks_exact(RESULTS)) {
        let results = expected(*three).into_iter().zip(found).enumerate();
        for (index, (expected, found)) in results {
            wrong[index] += usize::from(!same(index, *three, expected, *found));
        }
    }
    Ok(wrong)
}
