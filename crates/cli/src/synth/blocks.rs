//! Random weights written straight as quantized blocks.
//!
//! Each type's blocks get random codes, and scales such that the values they decode to have mean zero and
//! the standard deviation asked for. No float matrix exists in between, so gigabytes take seconds.

use super::random::Random;
use strata_quant::{
    BlockQ4_0, BlockQ4_K, BlockQ5_K, BlockQ6_K, BlockQ8_0, F16, GgmlType, quantize,
};

/// The standard deviation of n equally likely consecutive integers.
fn uniform_deviation(n: f32) -> f32 {
    ((n * n - 1.0) / 12.0).sqrt()
}

/// The root mean square of 6-bit scales drawn from `SCALES`.
const SCALE_RMS: f32 = 48.4;
const SCALES: core::ops::Range<u8> = 32..64;

/// Fills `out`, whole blocks of `ty`, with values of deviation `deviation`.
pub(crate) fn fill(ty: GgmlType, deviation: f32, random: &mut Random, out: &mut [u8]) {
    match ty {
        GgmlType::F32 => each(out, |chunk: &mut [u8; 4]| {
            *chunk = (random.unit() * deviation * 3f32.sqrt()).to_le_bytes();
        }),
        GgmlType::F16 => each(out, |chunk: &mut [u8; 2]| {
            let value = F16::from_f32(random.unit() * deviation * 3f32.sqrt());
            *chunk = value.to_bits().to_le_bytes();
        }),
        GgmlType::BF16 => each(out, |chunk: &mut [u8; 2]| {
            // Random low bits make truncation as good as rounding here.
            let bits = (random.unit() * deviation * 3f32.sqrt()).to_bits();
            *chunk = ((bits >> 16) as u16).to_le_bytes();
        }),
        GgmlType::Q8_0 => blocks(out, |block: &mut BlockQ8_0| {
            random.fill(bytemuck::bytes_of_mut(&mut block.qs));
            block.d = F16::from_f32(deviation / uniform_deviation(256.0) * sign(random));
        }),
        GgmlType::Q4_0 => blocks(out, |block: &mut BlockQ4_0| {
            random.fill(&mut block.qs);
            block.d = F16::from_f32(deviation / uniform_deviation(16.0) * sign(random));
        }),
        GgmlType::Q4_K => blocks(out, |block: &mut BlockQ4_K| {
            random.fill(&mut block.qs);
            block.scales = equal_scales_and_mins(random);
            (block.d, block.dmin) = scale_and_min(deviation, 16.0);
        }),
        GgmlType::Q5_K => blocks(out, |block: &mut BlockQ5_K| {
            random.fill(&mut block.qs);
            random.fill(&mut block.qh);
            block.scales = equal_scales_and_mins(random);
            (block.d, block.dmin) = scale_and_min(deviation, 32.0);
        }),
        GgmlType::Q6_K => blocks(out, |block: &mut BlockQ6_K| {
            random.fill(&mut block.ql);
            random.fill(&mut block.qh);
            for scale in &mut block.scales {
                let bits = random.u64();
                let magnitude = six_bit_scale(bits as u8) as i8;
                // Codes run from -32 to 31; both signs of scale take that bias out.
                *scale = if bits & 0x100 == 0 {
                    magnitude
                } else {
                    -magnitude
                };
            }
            block.d = F16::from_f32(deviation / (SCALE_RMS * uniform_deviation(64.0)));
        }),
        other => quantized(other, deviation, random, out),
    }
}

/// The types that are rarely asked for get floats that are quantized, which takes a little longer.
fn quantized(ty: GgmlType, deviation: f32, random: &mut Random, out: &mut [u8]) {
    for out in out.chunks_mut(ty.block_bytes()) {
        let mut values = [0.0; 256];
        let values = &mut values[..ty.block_len()];
        for value in values.iter_mut() {
            *value = random.unit() * deviation * 3f32.sqrt();
        }
        quantize(ty, values, None, out).expect("whole blocks of small values can be written");
    }
}

fn each<const N: usize>(out: &mut [u8], mut write: impl FnMut(&mut [u8; N])) {
    let (chunks, _) = out.as_chunks_mut::<N>();
    chunks.iter_mut().for_each(&mut write);
}

fn blocks<B: bytemuck::AnyBitPattern + bytemuck::NoUninit>(
    out: &mut [u8],
    write: impl FnMut(&mut B),
) {
    bytemuck::cast_slice_mut(out).iter_mut().for_each(write);
}

/// Signed codes run from -2ⁿ to 2ⁿ-1; both signs of scale take that bias out.
fn sign(random: &mut Random) -> f32 {
    if random.u64() & 1 == 0 { 1.0 } else { -1.0 }
}

fn six_bit_scale(byte: u8) -> u8 {
    SCALES.start + byte % (SCALES.end - SCALES.start)
}

/// `d` and `dmin` of a block whose mins equal its scales: the mean of the codes is then taken away exactly.
fn scale_and_min(deviation: f32, levels: f32) -> (F16, F16) {
    let d = deviation / (SCALE_RMS * uniform_deviation(levels));
    (F16::from_f32(d), F16::from_f32(d * (levels - 1.0) / 2.0))
}

/// The 12 bytes that hold eight 6-bit scales and eight 6-bit mins, each min equal to its scale.
fn equal_scales_and_mins(random: &mut Random) -> [u8; 12] {
    let s = random.u64().to_le_bytes().map(six_bit_scale);
    std::array::from_fn(|i| match i {
        0..4 => s[i] | (s[i + 4] >> 4) << 6,
        4..8 => s[i - 4] | (s[i] >> 4) << 6,
        _ => (s[i - 4] & 15) | (s[i - 4] & 15) << 4,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_quant::dequantize;

    #[test]
    fn every_type_has_the_mean_and_deviation_asked_for() {
        for ty in [
            GgmlType::F32,
            GgmlType::F16,
            GgmlType::BF16,
            GgmlType::Q8_0,
            GgmlType::Q4_0,
            GgmlType::Q4_K,
            GgmlType::Q5_K,
            GgmlType::Q6_K,
            GgmlType::Q3_K,
            GgmlType::IQ4_XS,
        ] {
            let n = 256 * 256;
            let mut bytes = vec![0; ty.row_bytes(n).unwrap() as usize];
            fill(ty, 0.02, &mut Random::new(7, 1), &mut bytes);
            let mut values = vec![0.0; n as usize];
            dequantize(ty, &bytes, &mut values).unwrap();
            let mean = values.iter().sum::<f32>() / n as f32;
            let square = values.iter().map(|v| v * v).sum::<f32>() / n as f32;
            let name = ty.name();
            assert!(mean.abs() < 0.001, "{name}: mean {mean}");
            assert!(
                (square.sqrt() / 0.02 - 1.0).abs() < 0.03,
                "{name}: deviation {}",
                square.sqrt()
            );
        }
    }
}
