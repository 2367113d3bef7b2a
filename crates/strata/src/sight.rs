//! A model's eyes: the projector beside it, and what stands in a prompt for an image.

mod eyes;
mod families;

pub use self::eyes::{Eyes, Glance};

use self::families::{around, placeholder, recipe};
use crate::error::{Error, ErrorKind};
use crate::load::{Machine, ModelFile, bad_folder, bad_model, sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use strata_chat::{Fault, Image, Sight, SightPart};
use strata_convert::{Folder, FolderError, WriteFailure};
use strata_engine::EmbeddedRun;
use strata_model::{Compute, Config, Grid, Tiling, Tower, TowerConfig, TowerImage, TowerRows};
use strata_platform::{Sha256, SystemMemory};
use strata_vision::{Bitmap, Limits, Recipe, Seen};
use strata_weights::{Gguf, GgufSet};

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
    seen: Mutex<Vec<([u8; 32], Vec<SightPart>)>>,
}

impl fmt::Debug for TowerSight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = &self.tower.config().family;
        f.debug_tuple("TowerSight").field(family).finish()
    }
}

/// Where a model's projector is: where somebody says, in the store, or beside the model's file.
pub(crate) fn find(file: &ModelFile, asked: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = asked {
        return Some(path.into());
    }
    if let Some(preset) = file.preset() {
        return preset.projectors.first().cloned();
    }
    if Folder::is_checkpoint(file.path()) {
        return Some(file.path().into());
    }
    let folder = file.path().parent()?;
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let is_projector = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains("mmproj") && name.ends_with(".gguf") && path != file.path()
    };
    let entries = std::fs::read_dir(folder).ok()?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(is_projector)
        .collect();
    found.sort();
    found.into_iter().next()
}

impl TowerSight {
    /// Loads a projector for a model.
    pub(crate) fn load(
        path: &Path,
        config: &Config,
        machine: &Arc<Machine>,
        digested: bool,
    ) -> Result<Self, Error> {
        let wrong = |fault: fmt::Arguments<'_>| {
            let sentence = format_args!("the projector {} {fault}", path.display());
            Error::new(ErrorKind::InvalidModel, sentence)
        };
        let (file, made);
        let set = if Folder::is_checkpoint(path) {
            made = of_folder(path, machine)?;
            GgufSet::new(vec![
                Gguf::parse(&made).map_err(|error| bad_model(path, error))?,
            ])
            .map_err(|error| bad_model(path, error))?
        } else {
            file = ModelFile::open(path)?;
            file.parse()?
        };
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

    fn known(&self, key: &[u8; 32]) -> Option<Vec<SightPart>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let at = seen.iter().position(|(known, _)| known == key)?;
        let entry = seen.remove(at);
        let parts = entry.1.clone();
        seen.push(entry);
        Some(parts)
    }

    fn keep(&self, key: [u8; 32], parts: &[SightPart]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push((key, parts.to_vec()));
        let bytes = |(_, parts): &([u8; 32], Vec<SightPart>)| -> usize {
            let runs = parts.iter().map(|part| match part {
                SightPart::Text(_) => 0,
                SightPart::Run(run) => run.rows.len() * size_of::<f32>(),
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

/// The projector of a Hugging Face folder as a GGUF file.
fn of_folder(path: &Path, machine: &Machine) -> Result<Vec<u8>, Error> {
    let fail = |error: FolderError| bad_folder(path, &error);
    let folder = Folder::open(path).map_err(fail)?;
    let config = folder.config().map_err(fail)?;
    let checkpoint = folder.tensors().map_err(fail)?;
    let plan = folder.projector(&config, &checkpoint).map_err(fail)?;
    let plan = plan.ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidModel,
            format_args!("{} has no projector that can be read", path.display()),
        )
    })?;
    let mut file = Vec::new();
    let done = folder.convert(&plan, &mut file, &*machine.pool, &mut |_, _| {});
    done.map_err(|failure| match failure {
        WriteFailure::Convert(error) => fail(error.into()),
        WriteFailure::Sink(error) => Error::io(path.display(), &error),
    })?;
    Ok(file)
}

/// The digest of one part of what another is of.
fn numbered(digest: [u8; 32], index: usize) -> [u8; 32] {
    let mut sum = Sha256::new();
    sum.update(digest);
    sum.update((index as u64).to_le_bytes());
    sum.finalize()
}

impl Sight for TowerSight {
    fn see(&self, image: &Image) -> Result<Vec<SightPart>, Fault> {
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
