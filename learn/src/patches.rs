//! A picture on its way to tokens: cut into patches, each a vector, mixed with its neighbours, and made as wide as the words.

use crate::lanes::dot_lanes;

// ANCHOR: picture
/// A picture as numbers: all of its red, then its green, then its blue, row after row.
pub struct Picture {
    /// Pixels of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// The three colours.
    pub planes: [Vec<f32>; 3],
}

impl Picture {
    /// From bytes of red, green and blue, to numbers around 0: minus the mean of many pictures, over their spread.
    pub fn from_bytes(width: usize, bytes: &[u8], mean: [f32; 3], spread: [f32; 3]) -> Picture {
        let plane = |channel: usize| -> Vec<f32> {
            let bytes = bytes.iter().skip(channel).step_by(3);
            let shares = bytes.map(|byte| f32::from(*byte) / 255.0);
            shares
                .map(|x| (x - mean[channel]) / spread[channel])
                .collect()
        };
        Picture {
            width,
            height: bytes.len() / 3 / width,
            planes: [plane(0), plane(1), plane(2)],
        }
    }
}
// ANCHOR_END: picture

// ANCHOR: patches
/// The squares of a picture, row after row, each written out as one list: its red, its green, its blue.
pub fn patches(picture: &Picture, size: usize) -> Vec<Vec<f32>> {
    let mut patches = Vec::new();
    for top in (0..picture.height / size).map(|row| row * size) {
        for left in (0..picture.width / size).map(|column| column * size) {
            let mut patch = Vec::new();
            for plane in &picture.planes {
                for y in top..top + size {
                    patch.extend(&plane[y * picture.width + left..][..size]);
                }
            }
            patches.push(patch);
        }
    }
    patches
}
// ANCHOR_END: patches

// ANCHOR: embed
/// A vector for each patch: a matrix times the patch, and what stands for its place.
pub fn embed(patches: &[Vec<f32>], matrix: &[Vec<f32>], places: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let embedded = patches.iter().zip(places).map(|(patch, place)| {
        let rows = matrix.iter().zip(place);
        rows.map(|(row, place)| dot_lanes(row, patch) + place)
            .collect()
    });
    embedded.collect()
}
// ANCHOR_END: embed

// ANCHOR: look_around
/// Attention without a mask: each patch looks at all of them, before it and after it.
pub fn look_around(q: &[Vec<f32>], k: &[Vec<f32>], v: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let scale = 1.0 / (q[0].len() as f32).sqrt();
    let look = |q: &Vec<f32>| {
        let scores: Vec<f32> = k.iter().map(|k| dot_lanes(q, k) * scale).collect();
        let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let shares: Vec<f32> = scores.iter().map(|score| (score - most).exp()).collect();
        let sum: f32 = shares.iter().sum();
        let mut out = vec![0.0; v[0].len()];
        for (share, v) in shares.iter().zip(v) {
            for (out, v) in out.iter_mut().zip(v) {
                *out += share / sum * v;
            }
        }
        out
    };
    q.iter().map(look).collect()
}
// ANCHOR_END: look_around

// ANCHOR: merge
/// Two by two patches become one, four times as wide. `columns` are the patches in a row; an odd one at the edge is dropped.
pub fn merge(patches: &[Vec<f32>], columns: usize) -> Vec<Vec<f32>> {
    let mut merged = Vec::new();
    for pair in patches.chunks_exact(2 * columns) {
        let (upper, lower) = pair.split_at(columns);
        for (upper, lower) in upper.chunks_exact(2).zip(lower.chunks_exact(2)) {
            merged.push([&upper[0][..], &upper[1], &lower[0], &lower[1]].concat());
        }
    }
    merged
}
// ANCHOR_END: merge

// ANCHOR: project
/// As wide as the words: one more matrix.
pub fn project(patches: &[Vec<f32>], matrix: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let project = |patch: &Vec<f32>| matrix.iter().map(|row| dot_lanes(row, patch)).collect();
    patches.iter().map(project).collect()
}
// ANCHOR_END: project

// ANCHOR: splice
/// The rows that the model sees: the words' own, and the picture's where its mark stands.
pub fn splice(
    words: &[u32],
    mark: u32,
    row: impl Fn(u32) -> Vec<f32>,
    picture: &[Vec<f32>],
) -> Vec<Vec<f32>> {
    let mut rows = Vec::new();
    for &word in words {
        if word == mark {
            rows.extend(picture.iter().cloned());
        } else {
            rows.push(row(word));
        }
    }
    rows
}
// ANCHOR_END: splice

/// A ring in a square of so many pixels, as bytes.
pub fn ring(side: usize) -> Vec<u8> {
    let middle = (side as f32 - 1.0) / 2.0;
    let pixels = (0..side * side).flat_map(|at| {
        let (x, y) = ((at % side) as f32 - middle, (at / side) as f32 - middle);
        let distance = (x * x + y * y).sqrt() / middle;
        if (0.6..1.0).contains(&distance) {
            [230, 120, 20]
        } else {
            [20, 30, 60]
        }
    });
    pixels.collect()
}
