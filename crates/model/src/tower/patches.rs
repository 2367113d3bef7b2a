//! An image as patches, in the order in which a tower computes them.
//!
//! Patches that become one position of the text lie next to each other, row by row inside their square. Squares come row
//! by row too; where layers have windows, window by window.

use super::config::TowerConfig;
use super::{TowerError, TowerImage};
use crate::embedded::Grid;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Where a patch or a square of patches is: its row and its column.
pub(super) type Place = (usize, usize);

/// The order of an image's patches.
pub(super) struct Layout {
    /// Of squares.
    pub(super) grid: Grid,
    /// Every square, in order.
    pub(super) squares: Vec<Place>,
    /// Every patch, in order.
    pub(super) patches: Vec<Place>,
    /// Where windows begin among the patches, and where the last ends.
    pub(super) windows: Vec<u32>,
}

impl Layout {
    /// The order for an image of this size, if it has whole squares.
    pub(super) fn new(config: &TowerConfig, image: TowerImage<'_>) -> Result<Self, TowerError> {
        let TowerImage {
            pixels,
            height,
            width,
        } = image;
        let TowerConfig {
            patch_size,
            image_size,
            merge,
            ..
        } = *config;
        let square = patch_size * merge;
        if config.fixed && (height != image_size || width != image_size) {
            return Err(TowerError::Size {
                width,
                height,
                size: image_size,
            });
        }
        // What is over in a square image of a fixed size is cut off.
        let whole = |side: usize| config.fixed || side.is_multiple_of(square);
        if !whole(height) || !whole(width) || height < square || width < square {
            return Err(TowerError::Patches {
                width,
                height,
                patch: square,
            });
        }
        let expected = 3 * height * width;
        if pixels.len() != expected {
            return Err(TowerError::Pixels {
                found: pixels.len(),
                expected,
            });
        }
        let grid = Grid {
            rows: height / square,
            columns: width / square,
        };
        let side = match config.windows {
            Some((patches, _)) => patches / merge,
            None => grid.rows.max(grid.columns),
        };
        let (mut squares, mut windows) = (Vec::new(), vec![0]);
        for top in (0..grid.rows).step_by(side) {
            for left in (0..grid.columns).step_by(side) {
                let rows = top..grid.rows.min(top + side);
                let columns = left..grid.columns.min(left + side);
                squares.extend(places(rows, &columns));
                windows.push((squares.len() * merge * merge) as u32);
            }
        }
        let patches = squares.iter().flat_map(|&(row, column)| {
            let rows = row * merge..(row + 1) * merge;
            places(rows, &(column * merge..(column + 1) * merge))
        });
        Ok(Self {
            grid,
            patches: patches.collect(),
            squares,
            windows,
        })
    }

    /// The pixels of every patch: (patches, 3, side, side).
    pub(super) fn pixels(&self, image: TowerImage<'_>, side: usize) -> Vec<f32> {
        let plane = image.height * image.width;
        let mut out = Vec::with_capacity(self.patches.len() * 3 * side * side);
        for &(row, column) in &self.patches {
            for channel in 0..3 {
                for y in row * side..(row + 1) * side {
                    let start = channel * plane + y * image.width + column * side;
                    out.extend_from_slice(&image.pixels[start..][..side]);
                }
            }
        }
        out
    }
}

/// All places of some rows and columns, row by row.
fn places(rows: Range<usize>, columns: &Range<usize>) -> impl Iterator<Item = Place> + use<> {
    let columns = columns.clone();
    rows.flat_map(move |row| columns.clone().map(move |column| (row, column)))
}
