//! Sizes: what an image is resized to, by the rules of each family.

use crate::recipe::RecipeError;

/// How much longer than the shorter side of an image the other may be.
const MOST_RATIO: usize = 200;

/// The size whose shorter side is `size`: (width, height).
pub(crate) fn shorter_side(width: usize, height: usize, size: usize) -> (usize, usize) {
    if width <= height {
        (size, size * height / width)
    } else {
        (size * width / height, size)
    }
}

/// Sides rounded to a factor, within an area.
pub(crate) fn within_area(
    (width, height): (usize, usize),
    factor: usize,
    (least, most): (usize, usize),
) -> Result<(usize, usize), RecipeError> {
    let (long, short) = (width.max(height), width.min(height));
    if long > MOST_RATIO * short {
        return Err(RecipeError::Shape {
            ratio: long / short,
            limit: MOST_RATIO,
        });
    }
    let (w, h, f) = (width as f64, height as f64, factor as f64);
    // Python rounds halves to even.
    let rounded = |side: f64| libm::rint(side / f) * f;
    let (mut new_w, mut new_h) = (rounded(w), rounded(h));
    if new_w * new_h > most as f64 {
        let beta = libm::sqrt(h * w / most as f64);
        let below = |side: f64| (libm::floor(side / beta / f) * f).max(f);
        (new_w, new_h) = (below(w), below(h));
    } else if new_w * new_h < least as f64 {
        let beta = libm::sqrt(least as f64 / (h * w));
        let above = |side: f64| libm::ceil(side * beta / f) * f;
        (new_w, new_h) = (above(w), above(h));
    }
    Ok((new_w.max(f) as usize, new_h.max(f) as usize))
}

/// Sides shrunk until the longer one is `longest`, and rounded up to a factor.
pub(crate) fn within_longest(
    width: usize,
    height: usize,
    longest: usize,
    factor: usize,
) -> (usize, usize) {
    let ratio = width.max(height) as f64 / longest as f64;
    let side = |side: usize| {
        let shrunk = if ratio > 1.0 {
            libm::floor(side as f64 / ratio) as usize
        } else {
            side
        };
        shrunk.max(1).div_ceil(factor) * factor
    };
    (side(width), side(height))
}

/// Columns and rows of the grid of up to `most` tiles whose shape is closest to the image's. Of grids of the same shape a
/// larger one is taken if the image has more than half of its pixels.
pub(crate) fn closest_grid(
    width: usize,
    height: usize,
    tile: usize,
    most: usize,
) -> (usize, usize) {
    let sides = 1..=most;
    let mut grids: Vec<(usize, usize)> = sides
        .clone()
        .flat_map(|columns| sides.clone().map(move |rows| (columns, rows)))
        .filter(|(columns, rows)| columns * rows <= most)
        .collect();
    grids.sort_by_key(|(columns, rows)| columns * rows);
    let shape = width as f64 / height as f64;
    let (mut best, mut least) = ((1, 1), f64::INFINITY);
    for (columns, rows) in grids {
        let difference = (shape - columns as f64 / rows as f64).abs();
        let half = 0.5 * (tile * tile * columns * rows) as f64;
        if difference < least || (difference == least && (width * height) as f64 > half) {
            (best, least) = ((columns, rows), difference);
        }
    }
    best
}

/// The size among `sizes`, (height, width), that keeps most of an image's pixels, and of several such the smallest.
pub(crate) fn best_size(width: usize, height: usize, sizes: &[(usize, usize)]) -> (usize, usize) {
    let (w, h) = (width as f64, height as f64);
    let mut best = None;
    for &(high, wide) in sizes {
        let scale = (wide as f64 / w).min(high as f64 / h);
        let shrunk = ((w * scale) as usize).saturating_mul((h * scale) as usize);
        let kept = shrunk.min(width.saturating_mul(height));
        let wasted = wide.saturating_mul(high).saturating_sub(kept);
        let better =
            best.is_none_or(|(most, least, _)| kept > most || (kept == most && wasted < least));
        if better {
            best = Some((kept, wasted, (wide, high)));
        }
    }
    best.map_or((width, height), |(_, _, size)| size)
}

/// The largest size of an image's shape within another: (width, height).
pub(crate) fn inside(width: usize, height: usize, (wide, high): (usize, usize)) -> (usize, usize) {
    let (scale_w, scale_h) = (wide as f64 / width as f64, high as f64 / height as f64);
    let scaled = |side: usize, scale: f64| libm::ceil(side as f64 * scale) as usize;
    if scale_w < scale_h {
        (wide, scaled(height, scale_w).min(high))
    } else {
        (scaled(width, scale_h).min(wide), high)
    }
}

/// The size whose longer side is `longest`, with an even other one.
pub(crate) fn longest_side(width: usize, height: usize, longest: usize) -> (usize, usize) {
    let shape = width as f64 / height as f64;
    let even = |side: f64| (side as usize).next_multiple_of(2).max(1);
    if width >= height {
        (longest, even(longest as f64 / shape))
    } else {
        (even(longest as f64 * shape), longest)
    }
}

/// The size of whole tiles that an image is stretched to.
pub(crate) fn whole_tiles(width: usize, height: usize, tile: usize) -> (usize, usize) {
    let shape = width as f64 / height as f64;
    let whole = |side: usize| side.max(1).div_ceil(tile) * tile;
    if width >= height {
        let width = whole(width);
        (width, whole((width as f64 / shape) as usize))
    } else {
        let height = whole(height);
        (whole((height as f64 * shape) as usize), height)
    }
}
