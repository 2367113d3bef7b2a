//! Quantized blocks: Q4_0 and Q4_K built from nothing, Q6_K and Q8_0 read.
//!
//! The layouts are ggml's (`ggml-common.h`); the product's are in `crates/quant`.

use crate::bytes::ReadError;
use crate::gguf::{StoredTensor, block_size};
use crate::half::{f16_to_f32, f32_to_f16};

// ANCHOR: half_at
/// The half float at an offset of a block.
fn half_at(block: &[u8], at: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([block[at], block[at + 1]]))
}
// ANCHOR_END: half_at

// ANCHOR: quantize_q4_0
/// 32 numbers in 18 bytes: one half float, and 4 bits each. Value = d * (q - 8).
pub fn quantize_q4_0(x: &[f32; 32]) -> [u8; 18] {
    // The number farthest from zero becomes -8, the only level without a counterpart.
    let far = x
        .iter()
        .fold(0.0f32, |far, x| if x.abs() > far.abs() { *x } else { far });
    let d = f32_to_f16(far / -8.0);
    let scale = f16_to_f32(d);
    let level = |x: f32| match scale {
        0.0 => 8,
        _ => ((x / scale).round_ties_even() + 8.0).clamp(0.0, 15.0) as u8,
    };
    let mut block = [0; 18];
    block[..2].copy_from_slice(&d.to_le_bytes());
    for i in 0..16 {
        block[2 + i] = level(x[i]) | level(x[i + 16]) << 4;
    }
    block
}
// ANCHOR_END: quantize_q4_0

// ANCHOR: dequantize_q4_0
/// The 32 numbers of a Q4_0 block.
pub fn dequantize_q4_0(block: &[u8], out: &mut [f32]) {
    let d = half_at(block, 0);
    for i in 0..16 {
        let byte = block[2 + i];
        out[i] = d * (f32::from(byte & 15) - 8.0);
        out[i + 16] = d * (f32::from(byte >> 4) - 8.0);
    }
}
// ANCHOR_END: dequantize_q4_0

// ANCHOR: dequantize_q8_0
/// The 32 numbers of a Q8_0 block: a half float, then 32 signed bytes.
pub fn dequantize_q8_0(block: &[u8], out: &mut [f32]) {
    let d = half_at(block, 0);
    for (out, q) in out.iter_mut().zip(&block[2..]) {
        *out = d * f32::from(*q as i8);
    }
}
// ANCHOR_END: dequantize_q8_0

// ANCHOR: scales_q4_k
/// The 6-bit scale and minimum of group `g` of a Q4_K block, out of 12 bytes.
fn scale_and_min(packed: &[u8], g: usize) -> (u8, u8) {
    if g < 4 {
        (packed[g] & 63, packed[g + 4] & 63)
    } else {
        (
            packed[g + 4] & 15 | packed[g - 4] >> 6 << 4,
            packed[g + 4] >> 4 | packed[g] >> 6 << 4,
        )
    }
}
// ANCHOR_END: scales_q4_k

// ANCHOR: dequantize_q4_k
/// The 256 numbers of a Q4_K block: value = d * scale * q - dmin * min, in 8 groups of 32.
pub fn dequantize_q4_k(block: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    let (packed, quants) = (&block[4..16], &block[16..]);
    for (g, out) in out.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_and_min(packed, g);
        let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
        // Two groups share 32 bytes: the even one below, the odd one above.
        let bytes = &quants[g / 2 * 32..][..32];
        for (out, byte) in out.iter_mut().zip(bytes) {
            let q = byte >> (g % 2 * 4) & 15;
            *out = scale * f32::from(q) - min;
        }
    }
}
// ANCHOR_END: dequantize_q4_k

// ANCHOR: quantize_q4_k
/// 256 numbers in 144 bytes.
pub fn quantize_q4_k(x: &[f32; 256]) -> [u8; 144] {
    // What each group would like: steps of `scale`, counted from `-min`.
    let wishes: Vec<(f32, f32)> = x
        .chunks_exact(32)
        .map(|group| {
            let low = group.iter().copied().fold(0.0, f32::min);
            let high = group.iter().copied().fold(0.0, f32::max);
            ((high - low) / 15.0, -low)
        })
        .collect();
    // The 8 wishes become integers of 6 bits, with one half float for the scales and one for the minima.
    let unit = |largest: f32| f32_to_f16(largest / 63.0);
    let d = unit(wishes.iter().map(|wish| wish.0).fold(0.0, f32::max));
    let dmin = unit(wishes.iter().map(|wish| wish.1).fold(0.0, f32::max));
    let (unit_scale, unit_min) = (f16_to_f32(d), f16_to_f32(dmin));
    let count = |x: f32, unit: f32, most: f32| match unit {
        0.0 => 0,
        _ => (x / unit).round_ties_even().clamp(0.0, most) as u8,
    };

    let mut block = [0; 144];
    block[..2].copy_from_slice(&d.to_le_bytes());
    block[2..4].copy_from_slice(&dmin.to_le_bytes());
    let (packed, quants) = block[4..].split_at_mut(12);
    for (g, group) in x.chunks_exact(32).enumerate() {
        let scale = count(wishes[g].0, unit_scale, 63.0);
        let min = count(wishes[g].1, unit_min, 63.0);
        if g < 4 {
            packed[g] |= scale;
            packed[g + 4] |= min;
        } else {
            packed[g + 4] = scale & 15 | min << 4;
            packed[g - 4] |= scale >> 4 << 6;
            packed[g] |= min >> 4 << 6;
        }
        // From here on only what is stored counts.
        let (step, start) = (unit_scale * f32::from(scale), unit_min * f32::from(min));
        for (byte, x) in quants[g / 2 * 32..].iter_mut().zip(group) {
            *byte |= count(x + start, step, 15.0) << (g % 2 * 4);
        }
    }
    block
}
// ANCHOR_END: quantize_q4_k

// ANCHOR: dequantize_q6_k
/// The 256 numbers of a Q6_K block: value = d * scale * (q - 32), in 16 groups of 16.
pub fn dequantize_q6_k(block: &[u8], out: &mut [f32]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = half_at(block, 208);
    for (i, out) in out.iter_mut().enumerate() {
        // Each half of 128 numbers is four planes of 32: low nibbles, low nibbles, high nibbles, high nibbles.
        let (half, plane, column) = (i / 128, i % 128 / 32, i % 32);
        let low = low[half * 64 + plane % 2 * 32 + column] >> (plane / 2 * 4) & 15;
        let high = high[half * 32 + column] >> (plane * 2) & 3;
        let q = f32::from(low | high << 4) - 32.0;
        *out = d * f32::from(scales[i / 16] as i8) * q;
    }
}
// ANCHOR_END: dequantize_q6_k

// ANCHOR: values
/// All numbers of a tensor as f32.
pub fn values(tensor: &StoredTensor<'_>) -> Result<Vec<f32>, ReadError> {
    let unknown = || ReadError {
        at: 0,
        what: format!("kind {} of numbers", tensor.kind),
    };
    let (len, bytes) = block_size(tensor.kind).ok_or_else(unknown)?;
    let dequantize = match tensor.kind {
        0 => |block: &[u8], out: &mut [f32]| {
            out[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
        },
        1 => |block: &[u8], out: &mut [f32]| out[0] = half_at(block, 0),
        2 => dequantize_q4_0,
        8 => dequantize_q8_0,
        12 => dequantize_q4_k,
        14 => dequantize_q6_k,
        _ => return Err(unknown()),
    };
    let blocks = tensor.data.chunks_exact(bytes as usize);
    let mut out = vec![0.0; blocks.len() * len as usize];
    for (block, out) in blocks.zip(out.chunks_exact_mut(len as usize)) {
        dequantize(block, out);
    }
    Ok(out)
}
// ANCHOR_END: values
