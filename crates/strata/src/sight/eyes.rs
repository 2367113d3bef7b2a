//! A projector by itself, for tools that measure: what an image costs, stage by stage.

use super::TowerSight;
use crate::error::{Error, ErrorKind};
use crate::load::{Machine, ModelFile};
use crate::projector::{ProjectorFile, find};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_engine::EmbeddedRun;
use strata_model::{Compute, Config, TowerConfig, TowerImage};
use strata_vision::Limits;

/// A model's projector.
#[derive(Debug)]
pub struct Eyes(TowerSight);

/// What an image took, and what a language model reads of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Glance {
    /// From the file to pixels.
    pub decode: Duration,
    /// To the size that the tower reads.
    pub fit: Duration,
    /// Through the tower's layers.
    pub tower: Duration,
    /// From patches to positions.
    pub projector: Duration,
    /// Pixels of the file: width and height.
    pub size: (usize, usize),
    /// Patches of each tile.
    pub patches: Vec<usize>,
    /// The positions.
    pub runs: Vec<EmbeddedRun>,
}

impl Eyes {
    /// Loads the projector at `path`, or the model's own; `None` where it has none.
    pub fn open(
        model: &ModelFile,
        path: Option<&Path>,
        config: &Config,
        machine: &Arc<Machine>,
    ) -> Result<Option<Self>, Error> {
        let Some(path) = find(model, path) else {
            return Ok(None);
        };
        let file = ProjectorFile::open(&path, machine)?;
        TowerSight::load(&file, config, machine, false).map(|sight| Some(Self(sight)))
    }

    /// Sizes and scales.
    pub fn config(&self) -> &TowerConfig {
        self.0.config()
    }

    /// Looks at an image file.
    pub fn look(&self, file: &[u8]) -> Result<Glance, Error> {
        let bad = |error: &dyn std::fmt::Display| Error::new(ErrorKind::InvalidArgument, error);
        let start = Instant::now();
        let bitmap = strata_vision::decode(file, Limits::default()).map_err(|error| bad(&error))?;
        let decode = start.elapsed();
        let start = Instant::now();
        let seen = self.0.recipe.apply(&bitmap).map_err(|error| bad(&error))?;
        let fit = start.elapsed();
        let compute = Compute {
            kernels: self.0.machine.kernels,
            pool: &*self.0.machine.pool,
        };
        let (mut tower, mut projector) = (Duration::ZERO, Duration::ZERO);
        let (mut patches, mut tiles) = (Vec::new(), Vec::new());
        for tile in &seen.tiles {
            let image = TowerImage {
                pixels: &tile.pixels,
                height: tile.height,
                width: tile.width,
            };
            let start = Instant::now();
            let encoded = self.0.tower.encode(&compute, image);
            let encoded = encoded.map_err(|error| bad(&error))?;
            tower += start.elapsed();
            patches.push(encoded.len());
            let start = Instant::now();
            tiles.push(self.0.tower.project(&compute, encoded));
            projector += start.elapsed();
        }
        let runs = self.0.arrange(&bitmap, &seen, [0; 32], tiles)?;
        Ok(Glance {
            decode,
            fit,
            tower,
            projector,
            size: (bitmap.width, bitmap.height),
            patches,
            runs,
        })
    }
}
