//! Sizes by a budget of tokens: what an image is resized to, and how it is cut, in Gemma 4, Llama 4 and MiniCPM-V.

/// The largest size of about an image's shape, with sides that are multiples of `square` and no more than so many squares:
/// (width, height).
pub(crate) fn within_budget(
    (width, height): (usize, usize),
    square: usize,
    squares: usize,
) -> (usize, usize) {
    let (w, h) = (width as f64, height as f64);
    let area = (squares * square * square) as f64;
    let factor = libm::sqrt(area / (h * w));
    let side = |side: f64| libm::floor(factor * side / square as f64) as usize;
    let (columns, rows) = (side(w), side(h));
    let (columns, rows) = match (columns, rows) {
        (columns, 0) if columns > 0 || width >= height => ((width / height).min(squares), 1),
        (0, _) => (1, (height / width).min(squares)),
        both => both,
    };
    (columns.max(1) * square, rows.max(1) * square)
}

/// A grid of square tiles, and the size that an image has in it.
pub(crate) struct Canvas {
    /// Columns and rows.
    pub(crate) grid: (usize, usize),
    /// Width and height.
    pub(crate) inner: (usize, usize),
}

/// The grid of up to `most` tiles in which an image loses least: the smallest in which it keeps all its pixels, or else the
/// one in which it keeps most.
pub(crate) fn canvas((width, height): (usize, usize), tile: usize, most: usize) -> Canvas {
    let (w, h) = (width as f32, height as f32);
    let sides = 1..=most;
    let grids = sides
        .clone()
        .flat_map(|rows| sides.clone().map(move |columns| (columns, rows)))
        .filter(|(columns, rows)| columns * rows <= most);
    let mut best = (1, 1);
    let mut best_rank = None;
    for (columns, rows) in grids {
        let (scale_w, scale_h) = ((columns * tile) as f32 / w, (rows * tile) as f32 / h);
        let scale = scale_w.min(scale_h);
        // Grids that keep everything come before all others, the smaller scale first; then the larger.
        let rank = if scale >= 1.0 {
            (0, scale)
        } else {
            (1, -scale)
        };
        let tiles = columns * rows;
        let better = best_rank
            .is_none_or(|(found, fewest)| rank < found || (rank == found && tiles < fewest));
        if better {
            (best, best_rank) = ((columns, rows), Some((rank, tiles)));
        }
    }
    let (columns, rows) = best;
    let limit = |side: usize, whole: usize| side.max(tile).min(whole);
    let (wide, high) = (limit(width, columns * tile), limit(height, rows * tile));
    let (scale_w, scale_h) = (wide as f64 / width as f64, high as f64 / height as f64);
    let scaled = |side: usize, scale: f64| libm::floor(side as f64 * scale) as usize;
    let inner = if scale_w < scale_h {
        (wide, scaled(height, scale_w).clamp(1, high))
    } else {
        (scaled(width, scale_h).clamp(1, wide), high)
    };
    Canvas { grid: best, inner }
}

/// How an image is cut into slices: sizes are (width, height).
pub(crate) struct Slices {
    /// Columns and rows.
    pub(crate) grid: (usize, usize),
    pub(crate) slice: (usize, usize),
    pub(crate) whole: (usize, usize),
}

/// Slices of about `tile`² pixels each, at most `most` of them, with sides that are multiples of `square`.
pub(crate) fn slices(
    (width, height): (usize, usize),
    tile: usize,
    square: usize,
    most: usize,
) -> Slices {
    let (w, h) = (width as f64, height as f64);
    let wanted = libm::ceil(w * h / (tile * tile) as f64) as usize;
    let wanted = wanted.min(most);
    let grid = if wanted > 1 {
        slice_grid(libm::log(w / h), wanted, most)
    } else {
        (1, 1)
    };
    let (columns, rows) = grid;
    let (wide, high) = (multiple(w, columns), multiple(h, rows));
    let slice = (wide as f64 / columns as f64, high as f64 / rows as f64);
    Slices {
        grid,
        slice: near(slice, tile, square, true),
        whole: near((w, h), tile, square, wanted <= 1),
    }
}

/// The grid of about `wanted` slices whose shape is closest to one whose logarithm is `shape`.
fn slice_grid(shape: f64, wanted: usize, most: usize) -> (usize, usize) {
    let (mut best, mut least) = ((1, 1), f64::INFINITY);
    for count in wanted - 1..=wanted + 1 {
        if count <= 1 || count > most {
            continue;
        }
        for columns in (1..=count).filter(|&columns| count % columns == 0) {
            let rows = count / columns;
            let error = (shape - libm::log(columns as f64 / rows as f64)).abs();
            if error < least {
                (best, least) = ((columns, rows), error);
            }
        }
    }
    best
}

/// A size of about `tile`² pixels, or less where it need not grow, with sides that are multiples of `square`.
fn near((mut w, mut h): (f64, f64), tile: usize, square: usize, grow: bool) -> (usize, usize) {
    if w * h > (tile * tile) as f64 || grow {
        let shape = w / h;
        h = libm::floor(tile as f64 / libm::sqrt(shape));
        w = libm::floor(h * shape);
    }
    (multiple(w, square), multiple(h, square))
}

/// The multiple of a factor that is nearest to a side, and not 0. Python rounds halves to even.
fn multiple(side: f64, factor: usize) -> usize {
    let times = libm::rint(side / factor as f64) as usize;
    times.max(1) * factor
}
