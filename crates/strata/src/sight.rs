//! A model's eyes: the projector beside it, and what stands in a prompt for an image.

mod eyes;
mod families;

pub use self::eyes::{Eyes, Glance};

use self::families::{around, placeholder, recipe};
use crate::error::Error;
use crate::load::{Machine, sha256};
use crate::projector::{ProjectorFile, numbered};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use strata_chat::{Fault, Image, MediaPart, Sight};
use strata_engine::EmbeddedRun;
use strata_model::{Compute, Config, Grid, Tiling, Tower, TowerConfig, TowerImage, TowerRows};
use strata_platform::{Sha256, SystemMemory};
use strata_vision::{Bitmap, Limits, Recipe, Seen};

/// Bytes of embeddings that are kept for images that come again, as those of a conversation do with every turn.
const KEPT: usize = 256 << 20;

/// A projector and what it has seen last.
pub(crate) struct TowerSight {
    tower: Tower,
    recipe: Recipe,
    /// Whether an image's positions see each other.
    mutual: bool,
    machine: Arc<Machine>,
    /// Of the projector's file.
    digest: [u8; 32],
    /// By the digest of the image's file; what was of use last is last.
    seen: Mutex<Vec<([u8; 32], Vec<MediaPart>)>>,
}

impl fmt::Debug for TowerSight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = &self.tower.config().family;
        f.debug_tuple("TowerSight").field(family).finish()
    }
}

impl TowerSight {
    /// Loads the tower of a projector's file for a model.
    pub(crate) fn load(
        file: &ProjectorFile,
        config: &Config,
        machine: &Arc<Machine>,
        digested: bool,
    ) -> Result<Self, Error> {
        let wrong = |fault: fmt::Arguments<'_>| file.fault(fault);
        let set = file.parse()?;
        let tower = Tower::load(&set, &SystemMemory, &*machine.pool)
            .map_err(|error| wrong(format_args!("cannot be used: {error}")))?;
        let own = tower.config();
        if own.text_width != config.width {
            return Err(wrong(format_args!(
                "makes embeddings of {} numbers, and the model's have {}",
                own.text_width, config.width
            )));
        }
        if own.axes && config.ropes.iter().all(|rope| rope.sections.is_none()) {
            return Err(wrong(format_args!(
                "needs positions with axes, and the model's have none"
            )));
        }
        if own.deepstack != config.deepstack {
            return Err(wrong(format_args!(
                "has something for {} of the model's first layers, and the model takes it at {}",
                own.deepstack, config.deepstack
            )));
        }
        let digest = if digested { sha256(&set) } else { [0; 32] };
        Ok(Self {
            recipe: recipe(own),
            mutual: own.mutual_in(config),
            machine: Arc::clone(machine),
            digest,
            seen: Mutex::default(),
            tower,
        })
    }

    /// Its sizes and scales.
    pub(crate) fn config(&self) -> &TowerConfig {
        self.tower.config()
    }

    /// Whether an image's positions see each other.
    pub(crate) fn mutual(&self) -> bool {
        self.mutual
    }

    /// Bytes of its matrices.
    pub(crate) fn bytes(&self) -> usize {
        self.tower.packed_bytes()
    }

    fn known(&self, key: &[u8; 32]) -> Option<Vec<MediaPart>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let at = seen.iter().position(|(known, _)| known == key)?;
        let entry = seen.remove(at);
        let parts = entry.1.clone();
        seen.push(entry);
        Some(parts)
    }

    fn keep(&self, key: [u8; 32], parts: &[MediaPart]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push((key, parts.to_vec()));
        let bytes = |(_, parts): &([u8; 32], Vec<MediaPart>)| -> usize {
            let runs = parts.iter().map(|part| match part {
                MediaPart::Text(_) => 0,
                MediaPart::Run(run) => run.rows.len() * size_of::<f32>(),
            });
            runs.sum()
        };
        let mut all: usize = seen.iter().map(bytes).sum();
        while all > KEPT && seen.len() > 1 {
            all -= bytes(&seen.remove(0));
        }
    }

    /// Embeds every tile, each in a turn of its own.
    fn embed(&self, image: &Seen) -> Result<Vec<TowerRows>, Fault> {
        let tiles = image.tiles.iter().map(|tile| {
            let compute = Compute {
                kernels: self.machine.kernels,
                pool: &*self.machine.pool,
            };
            let input = TowerImage {
                pixels: &tile.pixels,
                height: tile.height,
                width: tile.width,
            };
            let embedded = self
                .machine
                .turns()
                .take(|| self.tower.embed(&compute, input));
            embedded.map_err(|error| Fault::bad_request(&error))
        });
        tiles.collect()
    }

    /// The positions of an image: a run for each tile, or one for all of them.
    fn runs(
        &self,
        image: &Bitmap,
        seen: &Seen,
        digest: [u8; 32],
    ) -> Result<Vec<EmbeddedRun>, Fault> {
        let tiles = self.embed(seen)?;
        self.arrange(image, seen, digest, tiles)
    }

    /// The same of tiles that are embedded.
    fn arrange(
        &self,
        image: &Bitmap,
        seen: &Seen,
        digest: [u8; 32],
        tiles: Vec<TowerRows>,
    ) -> Result<Vec<EmbeddedRun>, Fault> {
        let config = self.config();
        let run = |rows: Vec<f32>, grid: Option<Grid>, index| EmbeddedRun {
            start: 0,
            len: rows.len() / config.row(),
            rows: rows.into(),
            digest: numbered(digest, index),
            mutual: self.mutual,
            grid,
        };
        if !config.pinpoints.is_empty() {
            let tiling = Tiling {
                tiles: Grid {
                    rows: seen.rows,
                    columns: seen.columns,
                },
                height: image.height,
                width: image.width,
            };
            let rows = self.tower.join(&tiles, tiling);
            let rows = rows.map_err(|error| Fault::bad_request(&error))?;
            return Ok(vec![run(rows, None, 0)]);
        }
        let tiles = tiles.into_iter().enumerate();
        let runs =
            tiles.map(|(index, tile)| run(tile.rows, config.axes.then_some(tile.grid), index));
        Ok(runs.collect())
    }
}

impl Sight for TowerSight {
    fn see(&self, image: &Image) -> Result<Vec<MediaPart>, Fault> {
        let key = Sha256::digest(&image.bytes);
        if let Some(parts) = self.known(&key) {
            return Ok(parts);
        }
        let bitmap = strata_vision::decode(&image.bytes, Limits::default());
        let bitmap = bitmap.map_err(|error| Fault::bad_request(&error))?;
        let mut sum = Sha256::new();
        sum.update(self.digest);
        sum.update((bitmap.width as u64).to_le_bytes());
        sum.update(&bitmap.pixels);
        let digest = sum.finalize();
        let seen = self.recipe.apply(&bitmap);
        let seen = seen.map_err(Fault::bad_request)?;
        let runs = self.runs(&bitmap, &seen, digest)?;
        let parts = around(self.config(), &seen, runs);
        self.keep(key, &parts);
        Ok(parts)
    }

    fn placeholder(&self) -> &str {
        placeholder(self.config())
    }
}
