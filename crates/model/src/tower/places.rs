//! How patches know where they are: what the table of places adds, and what heads are turned by.

use super::pass::TowerPass;
use super::patches::{Layout, Place};
use super::spec::{ClassPlace, PlaceTable, TowerRope};
use super::{TowerError, TowerImage};
use alloc::vec::Vec;
use strata_kernels::{pow, sin_cos};

/// The table of places, and what it has for the class.
pub(super) struct Places {
    /// (places, width): a square, or columns and then rows; empty in families without a table.
    pub(super) vectors: Vec<f32>,
    /// How many places a side has.
    pub(super) side: usize,
    pub(super) class: Vec<f32>,
}

impl Places {
    /// Takes the class's vector out of a table.
    pub(super) fn new(
        mut vectors: Vec<f32>,
        side: usize,
        class: Option<ClassPlace>,
        width: usize,
    ) -> Self {
        let class = match class {
            None => Vec::new(),
            Some(_) if vectors.is_empty() => Vec::new(),
            Some(ClassPlace::First) => vectors.drain(..width).collect(),
            Some(ClassPlace::Last) => vectors.split_off(vectors.len() - width),
        };
        Self {
            vectors,
            side,
            class,
        }
    }
}

impl TowerPass<'_> {
    /// Refuses images that have places which the table does not.
    pub(super) fn check_places(&self, image: TowerImage<'_>) -> Result<(), TowerError> {
        let side = self.tower.weights.places.side;
        let most = self.layout.grid.rows.max(self.layout.grid.columns) * self.tower.config.merge;
        if self.tower.spec.table == PlaceTable::Axes && most > side {
            return Err(TowerError::Side {
                width: image.width,
                height: image.height,
                side,
            });
        }
        Ok(())
    }

    /// Adds what the table has for a place to a patch's vector.
    pub(super) fn add_place(&self, (row, column): Place, x: &mut [f32]) {
        let (kernels, places) = (self.compute.kernels, &self.tower.weights.places);
        let (width, side) = (x.len(), places.side);
        let vector = |index: usize| &places.vectors[index * width..][..width];
        let (rows, columns) = self.layout.size(self.tower.config.merge);
        match self.tower.spec.table {
            PlaceTable::None => {}
            PlaceTable::Square => kernels.add(x, vector(row * side + column)),
            PlaceTable::Nearest => {
                let (row, column) = (row * side / rows, column * side / columns);
                kernels.add(x, vector(row * side + column));
            }
            PlaceTable::Axes => {
                kernels.add(x, vector(column));
                kernels.add(x, vector(side + row));
            }
            PlaceTable::Stretched => {
                for (row, share) in neighbors(row, rows, side) {
                    for (column, part) in neighbors(column, columns, side) {
                        if share * part != 0.0 {
                            kernels.add_scaled(x, vector(row * side + column), share * part);
                        }
                    }
                }
            }
        }
    }

    /// What each patch's heads are turned by: cosines, then sines. Nothing in families that turn none. What stands before
    /// all patches is not turned.
    pub(super) fn rotations(&self) -> Vec<f32> {
        let config = &self.tower.config;
        let (pairs, rope) = (config.head_size() / 2, self.tower.spec.rope);
        if rope == TowerRope::None {
            return Vec::new();
        }
        let half = pairs / 2;
        let frequency = |pair: usize| {
            let own = pair % half;
            let exponent = if rope == TowerRope::Alternating {
                (2 * own + pair / half) as f64 / pairs as f64
            } else {
                own as f64 / half as f64
            };
            pow(f64::from(config.rope_base), -exponent)
        };
        let frequencies: Vec<f64> = (0..pairs).map(frequency).collect();
        let angle = |(row, column): Place, pair: usize| {
            let place = match rope {
                TowerRope::FromOne | TowerRope::Quarters if pair < half => column,
                TowerRope::FromOne | TowerRope::Quarters => row,
                _ if pair < half => row,
                _ => column,
            };
            let first = usize::from(rope == TowerRope::FromOne);
            sin_cos(frequencies[pair] * (first + place) as f64)
        };
        let still = (0..self.classes * 2 * pairs).map(|i| f32::from(i % (2 * pairs) < pairs));
        let patches = self.layout.patches.iter();
        let turned = patches.flat_map(|&place| {
            let angles = (0..pairs).map(move |pair| (place, pair));
            let cosines = angles.clone().map(|(place, pair)| angle(place, pair).1);
            cosines.chain(angles.map(|(place, pair)| angle(place, pair).0))
        });
        still.chain(turned).collect()
    }
}

impl Layout {
    /// Rows and columns of patches.
    fn size(&self, merge: usize) -> (usize, usize) {
        (self.grid.rows * merge, self.grid.columns * merge)
    }
}

/// The two places of a table beside the one that `index` of `count` is at, and their shares.
fn neighbors(index: usize, count: usize, side: usize) -> [(usize, f32); 2] {
    let place = (index * (side - 1)) as f32 / (count.max(2) - 1) as f32;
    let first = place as usize;
    let share = place - first as f32;
    [(first, 1.0 - share), ((first + 1).min(side - 1), share)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretched_table_has_its_corners_at_the_images() {
        assert_eq!(neighbors(0, 5, 3), [(0, 1.0), (1, 0.0)]);
        assert_eq!(neighbors(1, 5, 3), [(0, 0.5), (1, 0.5)]);
        assert_eq!(neighbors(4, 5, 3), [(2, 1.0), (2, 0.0)]);
        assert_eq!(neighbors(0, 1, 3), [(0, 1.0), (1, 0.0)]);
    }
}
