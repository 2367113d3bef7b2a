//! Sizes of models with CTC, from the metadata under their architecture's name.

use crate::error::LoadError;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_weights::Metadata;

/// No size is larger.
const MAX_SIZE: u32 = 1 << 20;
/// No model has more convolutions, and none that are wider.
const MAX_CONVOLUTIONS: usize = 16;
const MAX_KERNEL: usize = 4096;
/// Samples from row to row: fewer would need too much memory for a chunk of sound.
const STEPS: core::ops::RangeInclusive<usize> = 16..=65_536;
/// Architectures, which differ in nothing but their names.
const ARCHITECTURES: [&str; 2] = ["wav2vec2", "hubert"];

/// A convolution over sound.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CtcConvolution {
    /// What comes out.
    pub channels: usize,
    /// Rows that it looks at.
    pub kernel: usize,
    /// Rows from one place to the next.
    pub stride: usize,
}

/// The norms of convolutions.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CtcNorm {
    /// The first one's channels, each over the whole of a sound.
    Group,
    /// All channels of each row, after every convolution.
    Layer,
}

/// Sizes of a model with CTC.
#[derive(Clone, Debug, PartialEq)]
pub struct CtcConfig {
    /// `wav2vec2` or `hubert`.
    pub arch: &'static str,
    /// Letters, with those that stand for none.
    pub vocabulary: usize,
    /// The width of states.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads.
    pub heads: usize,
    /// The inner width of the feed-forward networks.
    pub ffn: usize,
    /// The epsilon of the layers' norms.
    pub epsilon: f32,
    /// From sound to rows, in order.
    pub convolutions: Vec<CtcConvolution>,
    /// Their norms.
    pub norm: CtcNorm,
    /// Whether layers are normed before they are computed, and not after.
    pub norm_first: bool,
    /// Rows that the convolution for positions looks at.
    pub position_kernel: usize,
    /// Into how many groups it parts the states.
    pub position_groups: usize,
    /// Whether sound is brought to a mean of 0 and a variance of 1.
    pub normalizes: bool,
}

fn bad(key: String, value: usize, needs: &'static str) -> LoadError {
    LoadError::BadValue {
        key,
        value: value as f64,
        needs,
    }
}

/// Reads keys under the architecture's name.
struct Keys<'m, 'a> {
    metadata: &'m Metadata<'a>,
    arch: &'static str,
}

impl Keys<'_, '_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }

    fn size(&self, name: &str) -> Result<usize, LoadError> {
        let key = self.key(name);
        match self.metadata.u32(&key)? {
            Some(size) if (1..=MAX_SIZE).contains(&size) => Ok(size as usize),
            Some(size) => Err(bad(key, size as usize, "between 1 and 1048576")),
            None => Err(LoadError::MissingKey { key }),
        }
    }

    fn yes(&self, name: &str) -> Result<bool, LoadError> {
        Ok(self.metadata.bool(&self.key(name))?.unwrap_or(false))
    }

    fn sizes(&self, name: &str) -> Result<Vec<usize>, LoadError> {
        let key = self.key(name);
        let array = self.metadata.array(&key)?;
        let numbers = array.and_then(|array| array.integers());
        let numbers = numbers.ok_or_else(|| LoadError::MissingKey { key: key.clone() })?;
        numbers
            .take(MAX_CONVOLUTIONS + 1)
            .map(|number| {
                let size = usize::try_from(number).unwrap_or(0);
                let fits = (1..=MAX_SIZE as usize).contains(&size);
                fits.then_some(size)
                    .ok_or_else(|| bad(key.clone(), size, "between 1 and 1048576"))
            })
            .collect()
    }

    fn convolutions(&self) -> Result<Vec<CtcConvolution>, LoadError> {
        let channels = self.sizes("feature_extractor.channels")?;
        let kernels = self.sizes("feature_extractor.kernels")?;
        let strides = self.sizes("feature_extractor.strides")?;
        let count = channels.len();
        let name = |name: &str| self.key(&format!("feature_extractor.{name}"));
        if !(1..=MAX_CONVOLUTIONS).contains(&count) {
            return Err(bad(name("channels"), count, "1 to 16 numbers"));
        }
        for (part, list) in [("kernels", &kernels), ("strides", &strides)] {
            if list.len() != count {
                return Err(bad(name(part), list.len(), "as many numbers as channels"));
            }
        }
        let mut step = 1usize;
        for (&kernel, &stride) in kernels.iter().zip(&strides) {
            if kernel > MAX_KERNEL || stride > kernel {
                return Err(bad(
                    name("kernels"),
                    kernel,
                    "at most 4096, and not less than the stride",
                ));
            }
            step = step.saturating_mul(stride);
        }
        if !STEPS.contains(&step) {
            return Err(bad(name("strides"), step, "a product between 16 and 65536"));
        }
        let sizes = channels.into_iter().zip(kernels).zip(strides);
        Ok(sizes
            .map(|((channels, kernel), stride)| CtcConvolution {
                channels,
                kernel,
                stride,
            })
            .collect())
    }
}

impl CtcConfig {
    /// Whether an architecture is one of these.
    pub fn is_named(arch: &str) -> bool {
        ARCHITECTURES.contains(&arch)
    }

    /// Reads the metadata; the vocabulary is that of the output.
    pub(super) fn new(metadata: &Metadata<'_>, vocabulary: usize) -> Result<Self, LoadError> {
        let found = metadata.str("general.architecture")?.unwrap_or_default();
        let arch = ARCHITECTURES.into_iter().find(|arch| *arch == found);
        let arch = arch.ok_or_else(|| LoadError::NotSpeech { arch: found.into() })?;
        let keys = Keys { metadata, arch };
        let norm_key = keys.key("feature_extractor.norm");
        let norm = match metadata.str(&norm_key)? {
            Some("group") => CtcNorm::Group,
            Some("layer") => CtcNorm::Layer,
            Some(_) => return Err(bad(norm_key, 0, "\"group\" or \"layer\"")),
            None => return Err(LoadError::MissingKey { key: norm_key }),
        };
        let epsilon_key = keys.key("attention.layer_norm_epsilon");
        let config = Self {
            arch,
            vocabulary,
            width: keys.size("embedding_length")?,
            layers: keys.size("block_count")?,
            heads: keys.size("attention.head_count")?,
            ffn: keys.size("feed_forward_length")?,
            epsilon: metadata.f32(&epsilon_key)?.unwrap_or(1e-5),
            convolutions: keys.convolutions()?,
            norm,
            norm_first: keys.yes("norm_first")?,
            position_kernel: keys.size("position.kernel")?,
            position_groups: keys.size("position.groups")?,
            normalizes: keys.yes("normalize")?,
        };
        let (width, heads, groups) = (config.width, config.heads, config.position_groups);
        if !width.is_multiple_of(heads) || !(width / heads).is_multiple_of(4) {
            let needs = "so many that heads have a multiple of four dimensions";
            return Err(bad(keys.key("attention.head_count"), heads, needs));
        }
        if !width.is_multiple_of(groups) {
            let needs = "a divisor of the width";
            return Err(bad(keys.key("position.groups"), groups, needs));
        }
        if config.position_kernel > MAX_KERNEL {
            let needs = "at most 4096";
            return Err(bad(
                keys.key("position.kernel"),
                config.position_kernel,
                needs,
            ));
        }
        Ok(config)
    }

    /// Samples from one row to the next.
    pub fn step(&self) -> usize {
        self.convolutions.iter().map(|layer| layer.stride).product()
    }

    /// Samples that one row looks at.
    pub fn least(&self) -> usize {
        let layers = self.convolutions.iter().rev();
        layers.fold(1, |rows, layer| (rows - 1) * layer.stride + layer.kernel)
    }

    /// Rows of so many samples.
    pub fn rows(&self, samples: usize) -> usize {
        self.convolutions.iter().fold(samples, |rows, layer| {
            rows.checked_sub(layer.kernel)
                .map_or(0, |rest| rest / layer.stride + 1)
        })
    }
}
