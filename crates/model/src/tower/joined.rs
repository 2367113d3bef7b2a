//! Tiles of one image joined as LLaVA 1.6 reads them (<https://llava-vl.github.io/blog/2024-01-30-llava-next/>).

use super::weights::Tower;
use super::{TowerError, TowerRows};
use crate::embedded::Grid;
use alloc::vec::Vec;
use core::ops::Range;

/// How an image was cut into tiles.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Rows and columns of tiles.
    pub tiles: Grid,
    /// The image's height in pixels, before it was resized.
    pub height: usize,
    /// The image's width in pixels.
    pub width: usize,
}

impl Tower {
    /// Joins the embeddings of an image's tiles, which come row by row, with the whole image behind them. The result has
    /// the whole image first, then the rows of all tiles as of one picture: rows and columns that only have the padding
    /// are left out, and the newline's embedding ends each row.
    pub fn join(&self, tiles: &[TowerRows], tiling: Tiling) -> Result<Vec<f32>, TowerError> {
        let expected = tiling.tiles.rows * tiling.tiles.columns + 1;
        let alike = |tile: &TowerRows| tile.grid == tiles[0].grid;
        if tiles.len() != expected || tiling.tiles.columns == 0 || !tiles.iter().all(alike) {
            return Err(TowerError::Tiles {
                found: tiles.len(),
                expected,
            });
        }
        let width = self.config.text_width;
        let (grid, whole) = (tiles[0].grid, &tiles[expected - 1]);
        let (rows, columns) = kept(tiling, grid);
        let mut out = whole.rows.clone();
        for row in rows {
            for column in columns.clone() {
                let tile = row / grid.rows * tiling.tiles.columns + column / grid.columns;
                let place = row % grid.rows * grid.columns + column % grid.columns;
                out.extend_from_slice(&tiles[tile].rows[place * width..][..width]);
            }
            out.extend(self.newline().unwrap_or_default());
        }
        Ok(out)
    }
}

/// The rows and columns of all tiles that show the image, where one tile has a grid of positions.
fn kept(tiling: Tiling, grid: Grid) -> (Range<usize>, Range<usize>) {
    let Tiling {
        tiles,
        height,
        width,
    } = tiling;
    let (rows, columns) = (tiles.rows * grid.rows, tiles.columns * grid.columns);
    let (h, w) = (height.max(1) as f64, width.max(1) as f64);
    // Python's `int(round(side, 7))`: what is almost whole is whole.
    let scaled = |side: f64, scale: f64| libm::floor(libm::rint(side * scale * 1e7) / 1e7) as usize;
    let middle = |all: usize, inner: usize| {
        let padding = all.saturating_sub(inner) / 2;
        padding..all - padding
    };
    if w / h > columns as f64 / rows as f64 {
        (middle(rows, scaled(h, columns as f64 / w)), 0..columns)
    } else {
        (0..rows, middle(columns, scaled(w, rows as f64 / h)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_left_out() {
        let kept = |rows, columns, height, width| {
            let tiles = Grid { rows, columns };
            let tiling = Tiling {
                tiles,
                height,
                width,
            };
            kept(
                tiling,
                Grid {
                    rows: 24,
                    columns: 24,
                },
            )
        };
        // What `unpad_image` of transformers keeps.
        assert_eq!(kept(2, 2, 480, 640), (6..42, 0..48));
        assert_eq!(kept(2, 2, 640, 480), (0..48, 6..42));
        assert_eq!(kept(1, 2, 100, 200), (0..24, 0..48));
        assert_eq!(kept(1, 3, 10, 4000), (12..12, 0..72));
        assert_eq!(kept(3, 1, 336, 112), (0..72, 0..24));
    }
}
