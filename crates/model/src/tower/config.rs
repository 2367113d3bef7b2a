//! A tower's sizes and scales, from the metadata under `clip`.

use super::spec::{Colors, Merge, Mutual, PlaceTable, TowerSpec};
use crate::config::Config;
use crate::error::LoadError;
use crate::spec::Activation;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_weights::Metadata;

/// No size of a tower is larger.
const MAX_SIZE: u32 = 1 << 20;

/// The longest side of a picture of tiles, in pixels.
const MOST_SIDE: i128 = 1 << 14;

/// Positions that an image has in Gemma 4 at most, where the file does not say.
const GEMMA4_POSITIONS: usize = 280;

/// A tower's sizes and scales.
#[derive(Clone, Debug, PartialEq)]
pub struct TowerConfig {
    /// The family.
    pub family: &'static str,
    /// The side of a square image in pixels; where images have any size, that of a usual one.
    pub image_size: usize,
    /// The side of a patch in pixels.
    pub patch_size: usize,
    /// The width of a patch's vector.
    pub width: usize,
    /// The inner width of feed-forward networks.
    pub ffn: usize,
    /// Layers.
    pub layers: usize,
    /// Heads.
    pub heads: usize,
    /// The epsilon of norms.
    pub epsilon: f32,
    /// The activation of feed-forward networks.
    pub activation: Activation,
    /// How many patches in a row and in a column become one position.
    pub merge: usize,
    /// The width of the text model.
    pub text_width: usize,
    /// How many of the text model's first layers are given something of an image too.
    pub deepstack: usize,
    /// The positions that each image has where learned queries attend to it.
    pub queries: Option<usize>,
    /// The heads with which they do; by default so many as have 128 dimensions.
    pub query_heads: Option<usize>,
    /// The release of MiniCPM-V, as llama.cpp counts them; they differ in what stands around images.
    pub minicpmv: usize,
    /// What is taken from a color, by channel, in [0, 1].
    pub mean: [f32; 3],
    /// What it is divided by then.
    pub deviation: [f32; 3],
    /// The side of a window in patches, and which layers have none: every so many.
    pub windows: Option<(usize, usize)>,
    /// The sizes, height and width, that an image is brought to before it is cut into tiles (LLaVA 1.6).
    pub pinpoints: Vec<(usize, usize)>,
    /// The longer side that an image is resized to before it is cut into tiles, where the file says.
    pub longest: Option<usize>,
    /// The most tiles that an image is cut into, where the file says.
    pub most_tiles: Option<usize>,
    /// The fewest and the most pixels of an image, where the file says.
    pub pixels: (Option<usize>, Option<usize>),
    /// The most positions of an image, in families that resize images to about as many.
    pub budget: Option<usize>,
    /// The base of rotations.
    pub rope_base: f32,
    /// Whether images are square and all of one size.
    pub fixed: bool,
    /// Whether an image's positions see each other in the text model.
    pub mutual: Mutual,
    /// Whether the text model's positions have the image's axes.
    pub axes: bool,
}

/// Metadata under a prefix.
struct Keys<'a, 'b>(&'a Metadata<'b>);

impl Keys<'_, '_> {
    fn optional(&self, name: &str) -> Result<Option<usize>, LoadError> {
        let key = format!("clip.vision.{name}");
        match self.0.u32(&key)? {
            Some(size) if size == 0 || size > MAX_SIZE => Err(LoadError::BadValue {
                key,
                value: f64::from(size),
                needs: "between 1 and 1048576",
            }),
            size => Ok(size.map(|size| size as usize)),
        }
    }

    fn size(&self, name: &str) -> Result<usize, LoadError> {
        let missing = || LoadError::MissingKey {
            key: format!("clip.vision.{name}"),
        };
        self.optional(name)?.ok_or_else(missing)
    }

    /// Three numbers, one for each channel.
    fn channels(&self, name: &str) -> Result<[f32; 3], LoadError> {
        let key = format!("clip.vision.{name}");
        let Some(array) = self.0.array(&key)? else {
            return Err(LoadError::MissingKey { key });
        };
        let numbers: Vec<f32> = array.f32s().into_iter().flatten().collect();
        let found: Result<[f32; 3], _> = numbers.try_into();
        match found {
            Ok(numbers) if numbers.iter().all(|number| number.is_finite()) => Ok(numbers),
            _ => Err(LoadError::BadValue {
                key,
                value: array.len() as f64,
                needs: "three finite numbers",
            }),
        }
    }

    fn truth(&self, key: &str) -> Result<bool, LoadError> {
        Ok(self.0.bool(key)?.unwrap_or(false))
    }

    /// The layers that are computed: all of the file, or those up to the one whose result is taken.
    fn layers(&self) -> Result<usize, LoadError> {
        let key = String::from("clip.vision.feature_layer");
        let layers = self.size("block_count")?;
        let Some(array) = self.0.array(&key)? else {
            return Ok(layers);
        };
        let taken: Vec<i128> = array.integers().into_iter().flatten().collect();
        match taken[..] {
            [layer] if (1..=layers as i128).contains(&layer) => Ok(layer as usize),
            _ => Err(LoadError::BadValue {
                key,
                value: array.len() as f64,
                needs: "one of the layers: results of several are not supported",
            }),
        }
    }

    /// Height and width of pictures of square tiles. Flat files have one tile only.
    fn pinpoints(&self, tile: usize) -> Result<Vec<(usize, usize)>, LoadError> {
        let key = String::from("clip.vision.image_grid_pinpoints");
        let merge = self.0.str("clip.vision.mm_patch_merge_type")?;
        let Some(array) = self.0.array(&key)?.filter(|_| merge != Some("flat")) else {
            return Ok(Vec::new());
        };
        let numbers: Vec<i128> = array.integers().into_iter().flatten().collect();
        let whole = |size: &i128| {
            let sides = tile as i128..=MOST_SIDE;
            sides.contains(size) && size % tile as i128 == 0
        };
        let count = numbers.len();
        if count != array.len() || !count.is_multiple_of(2) || !numbers.iter().all(whole) {
            return Err(LoadError::BadValue {
                key,
                value: array.len() as f64,
                needs: "pairs of sides of whole tiles, up to 16384 pixels",
            });
        }
        let pairs = numbers.chunks_exact(2);
        Ok(pairs
            .map(|pair| (pair[0] as usize, pair[1] as usize))
            .collect())
    }
}

impl TowerConfig {
    /// Reads the metadata; gives the family too.
    pub(super) fn new(metadata: &Metadata<'_>) -> Result<(Self, &'static TowerSpec), LoadError> {
        let keys = Keys(metadata);
        let arch = metadata.str("general.architecture")?.unwrap_or_default();
        if arch != "clip" {
            return Err(LoadError::NotATower { arch: arch.into() });
        }
        let name = match metadata.str("clip.projector_type")? {
            Some(name) => Some(name),
            None => metadata.str("clip.vision.projector_type")?,
        };
        let key = "clip.projector_type";
        let name = name.ok_or_else(|| LoadError::MissingKey { key: key.into() })?;
        let spec = TowerSpec::find(name).ok_or_else(|| {
            let known: Vec<&str> = TowerSpec::names().collect();
            LoadError::Projector {
                name: name.into(),
                known: known.join(", "),
            }
        })?;
        let (image_size, patch_size) = (keys.size("image_size")?, keys.size("patch_size")?);
        let (width, heads) = (
            keys.size("embedding_length")?,
            keys.size("attention.head_count")?,
        );
        if !width.is_multiple_of(heads) || (width / heads) % 4 != 0 {
            return Err(LoadError::BadValue {
                key: "clip.vision.attention.head_count".into(),
                value: heads as f64,
                needs: "so many that heads have a multiple of four dimensions",
            });
        }
        let key = String::from("clip.vision.attention.layer_norm_epsilon");
        let epsilon = metadata.f32(&key)?.unwrap_or(1e-6);
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            return Err(LoadError::BadValue {
                key,
                value: f64::from(epsilon),
                needs: "finite and not negative",
            });
        }
        let scale = keys.optional("projector.scale_factor")?;
        let block = keys.optional("spatial_merge_size")?;
        let merge = match spec.merge {
            Merge::Each | Merge::Queries => 1,
            Merge::Mean(side) | Merge::RootMean(side) | Merge::Shuffle(side) => {
                scale.unwrap_or(side)
            }
            Merge::Blocks => block.unwrap_or(2),
            Merge::Unfold => block.unwrap_or(1),
        };
        let fixed = spec.table == PlaceTable::Square;
        if fixed && !(image_size / patch_size).is_multiple_of(merge) {
            return Err(LoadError::BadValue {
                key: "clip.vision.image_size".into(),
                value: image_size as f64,
                needs: "whole positions of merged patches",
            });
        }
        let (mut mean, mut deviation) = (keys.channels("image_mean")?, keys.channels("image_std")?);
        if spec.colors == Colors::Centered {
            deviation = deviation.map(|deviation| deviation / 2.0);
            mean = [0, 1, 2].map(|channel| mean[channel] + deviation[channel]);
        }
        let config = Self {
            family: spec.name,
            image_size,
            patch_size,
            width,
            ffn: keys.size("feed_forward_length")?,
            layers: keys.layers()?,
            heads,
            epsilon,
            activation: if keys.truth("clip.use_gelu")? {
                spec.gelu
            } else if keys.truth("clip.use_silu")? {
                Activation::Silu
            } else {
                spec.activation
            },
            merge,
            text_width: 0,
            deepstack: 0,
            queries: None,
            query_heads: keys.optional("projector.head_count")?,
            minicpmv: metadata.u32("clip.minicpmv_version")?.unwrap_or(3) as usize,
            mean,
            deviation,
            windows: if spec.windows {
                let every = keys.size("n_wa_pattern")?;
                let side = keys.optional("window_size")?.unwrap_or(112);
                Some(((side / patch_size).max(merge), every))
            } else {
                None
            },
            pinpoints: keys.pinpoints(image_size)?,
            longest: keys.optional("preproc_image_size")?,
            most_tiles: keys.optional("preproc_max_tiles")?,
            pixels: (
                keys.optional("image_min_pixels")?,
                metadata
                    .u32("clip.vision.image_max_pixels")?
                    .map(|pixels| pixels as usize),
            ),
            budget: match spec.table {
                PlaceTable::Axes => {
                    let square = patch_size * merge;
                    let most = metadata.u32("clip.vision.image_max_pixels")?;
                    let most = most.map(|pixels| pixels as usize / (square * square));
                    Some(most.unwrap_or(GEMMA4_POSITIONS).max(1))
                }
                _ => None,
            },
            rope_base: spec.rope_base,
            fixed,
            mutual: spec.mutual,
            axes: spec.axes,
        };
        Ok((config, spec))
    }

    /// The size of a head.
    pub(super) fn head_size(&self) -> usize {
        self.width / self.heads
    }

    /// How many numbers a position has: those of the text model, and as many again for each of its first layers that are
    /// given some.
    pub fn row(&self) -> usize {
        self.text_width * (1 + self.deepstack)
    }

    /// Whether an image's positions see each other in this text model.
    pub fn mutual_in(&self, text: &Config) -> bool {
        match self.mutual {
            Mutual::Never => false,
            Mutual::Always => true,
            Mutual::WithoutLayerInputs => text.layer_input.is_none(),
        }
    }

    /// Positions that a square image of the usual size takes, or any image at most where that is bounded.
    pub fn positions(&self) -> usize {
        if let Some(queries) = self.queries {
            return queries;
        }
        if let Some(budget) = self.budget {
            return budget;
        }
        let side = self.image_size / self.patch_size / self.merge;
        side * side
    }
}
