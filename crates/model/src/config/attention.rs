//! The sizes of each layer's attention.

use super::buckets::{BucketConfig, buckets};
use super::keys::Keys;
use super::layers::Shared;
use super::rope::{self, RopeConfig, RopeScaling};
use super::{MAX_HEADS, MAX_SIZE};
use crate::error::LoadError;
use crate::mixer::attention::paged::GROUP_FLOATS;
use crate::spec::{
    AttnGate, AttnScale, KeySource, Nope, Position, Recurrence, Temperature, TemperatureScale,
    Window,
};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// One layer's attention.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct AttentionConfig {
    /// Query heads.
    pub heads: usize,
    /// Key heads, and value heads.
    pub kv_heads: usize,
    /// A head's size: of queries, keys and values alike.
    pub head_size: usize,
    /// Positions that a token sees, its own included; all up to its own if there is no window.
    pub window: Option<usize>,
    /// Whether a token sees only those from the last multiple of `window` on.
    pub chunked: bool,
    /// Which of [`Config::ropes`](super::Config::ropes) rotates queries and keys, if one does.
    pub rope: Option<usize>,
    /// What scores are multiplied by.
    pub scale: f32,
    /// Scores pass cap · tanh(x / cap).
    pub soft_cap: Option<f32>,
    /// ALiBi's largest bias, if scores shrink with the distance.
    pub alibi: Option<f32>,
    /// The buckets of distances, if each has a number that is added to scores.
    pub buckets: Option<BucketConfig>,
    /// What queries are multiplied by at large positions.
    pub temperature: Option<TemperatureScale>,
    /// Queries, keys and values are clamped to ± this.
    pub clamp: Option<f32>,
    /// What multiplies what goes into the last matrix.
    pub gate: AttnGate,
    /// Whether keys and values are made from a short vector.
    pub latent: Option<LatentConfig>,
    /// The layer whose keys and values it reads, if it has none of its own.
    pub shares: Option<usize>,
}

/// Keys and values that are made from a short vector.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LatentConfig {
    /// The width of the vector that queries are made from, if there is one.
    pub query_rank: Option<usize>,
    /// The width of the vector that keys and values are made from.
    pub rank: usize,
    /// What of a head is rotated. All heads have the same rotated key.
    pub rotated: usize,
    /// What of a head's queries and keys is not.
    pub plain: usize,
    /// A value head's size.
    pub value: usize,
    /// Whether the vector itself is kept, not each head's keys and values.
    pub compressed: bool,
}

impl AttentionConfig {
    /// The width of all query heads.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_size
    }

    /// The width of what goes into the last matrix.
    pub(crate) fn mixed_width(&self) -> usize {
        match &self.latent {
            Some(latent) => self.heads * latent.value,
            None => self.q_width(),
        }
    }

    /// The width of all key heads, or of all value heads.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_size
    }

    /// The width of queries, keys, values and the gate together.
    pub(crate) fn qkv_width(&self) -> usize {
        let own = if self.shares.is_some() { 0 } else { 2 };
        self.q_width() + own * self.kv_width() + self.gate_width()
    }

    /// The width of the gate; 0 if there is none.
    pub(crate) fn gate_width(&self) -> usize {
        match self.gate {
            AttnGate::Never => 0,
            gate if gate.by_head() => self.heads,
            _ => self.q_width(),
        }
    }
}

/// What the metadata says of the attention of all layers.
pub(super) struct AttentionKeys {
    heads: Vec<usize>,
    kv_heads: Vec<usize>,
    head_sizes: Option<Vec<usize>>,
    value_sizes: Option<Vec<usize>>,
    /// Of layers with windows.
    window_sizes: [Option<usize>; 2],
    /// The layers without keys and values of their own: the last ones.
    sharing: Range<usize>,
    windows: Vec<Option<usize>>,
    rotated: Vec<bool>,
    soft_cap: Option<f32>,
    clamp: Option<f32>,
    alibi: Option<f32>,
}

impl AttentionKeys {
    pub(super) fn new(keys: &Keys<'_, '_>, shared: &Shared<'_>) -> Result<Self, LoadError> {
        let count = shared.stored_layers;
        let fewest = u32::from(shared.spec.recurrence == Recurrence::Never);
        let heads = keys.sizes("attention.head_count", count, fewest..=MAX_HEADS)?;
        let heads = keys.required("attention.head_count", heads)?;
        let kv_heads = keys.sizes("attention.head_count_kv", count, fewest..=MAX_HEADS)?;
        let kv_heads = kv_heads.unwrap_or_else(|| heads.clone());
        let windows = windows(keys, shared)?;
        let soft_cap = keys.above_zero("attn_logit_softcapping")?;
        let alibi = alibi(keys, shared)?;
        Ok(Self {
            heads,
            kv_heads,
            head_sizes: keys.sizes("attention.key_length", count, 1..=MAX_SIZE)?,
            value_sizes: keys.sizes("attention.value_length", count, 1..=MAX_SIZE)?,
            window_sizes: [
                keys.size("attention.key_length_swa", MAX_SIZE)?,
                keys.size("attention.value_length_swa", MAX_SIZE)?,
            ],
            sharing: {
                let sharing = keys.u32("attention.shared_kv_layers")?.unwrap_or(0) as usize;
                shared.layers.saturating_sub(sharing)..shared.layers
            },
            rotated: rotated(keys, shared, &windows, alibi.is_some())?,
            windows,
            soft_cap: soft_cap.or(shared.spec.attn_soft_cap),
            clamp: keys.above_zero("attention.clamp_kqv")?,
            alibi,
        })
    }

    /// One layer's.
    pub(super) fn layer(
        &self,
        keys: &Keys<'_, '_>,
        shared: &Shared<'_>,
        layer: usize,
        ropes: &mut Vec<RopeConfig>,
    ) -> Result<AttentionConfig, LoadError> {
        let (heads, kv_heads) = (self.heads[layer], self.kv_heads[layer]);
        if shared.spec.keys == KeySource::Latent {
            return self.latent_layer(keys, shared, layer, ropes);
        }
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(LoadError::Heads { heads, kv_heads });
        }
        let sliding = self.windows[layer].is_some();
        let [key_size, value_size] = self.window_sizes.map(|size| size.filter(|_| sliding));
        let head_size = match &self.head_sizes {
            _ if key_size.is_some() => key_size.unwrap_or(0),
            Some(sizes) => sizes[layer],
            None if shared.width.is_multiple_of(heads) => shared.width / heads,
            None => {
                return Err(LoadError::MissingKey {
                    key: keys.key("attention.key_length"),
                });
            }
        };
        let stated = self.value_sizes.as_ref().map(|sizes| sizes[layer]);
        let value_size = value_size.or(stated);
        check_head_size(keys, head_size, value_size)?;
        let (rotated, window) = (self.rotated[layer], self.windows[layer]);
        let rope = if rotated {
            let rope = rope::rope(keys, shared.spec, head_size, shared.context, sliding)?;
            Some(number(ropes, rope))
        } else {
            None
        };
        Ok(AttentionConfig {
            heads,
            kv_heads,
            head_size,
            window,
            chunked: matches!(shared.spec.window, Window::ChunksAllButEvery(..)),
            rope,
            scale: scale(keys, shared, heads, head_size)?,
            soft_cap: self.soft_cap,
            alibi: self.alibi,
            buckets: buckets(keys, shared)?,
            temperature: temperature(keys, shared, rotated)?,
            clamp: self.clamp,
            gate: shared.spec.attn_gate,
            latent: None,
            shares: self.shares(layer)?,
        })
    }

    /// One layer's, where keys and values are made from a short vector.
    fn latent_layer(
        &self,
        keys: &Keys<'_, '_>,
        shared: &Shared<'_>,
        layer: usize,
        ropes: &mut Vec<RopeConfig>,
    ) -> Result<AttentionConfig, LoadError> {
        let heads = self.heads[layer];
        let rank = keys.required_size("attention.kv_lora_rank", MAX_SIZE)?;
        let rotated = keys.required_size("rope.dimension_count", MAX_SIZE)?;
        // Files that keep the short vector call its size the heads', and the heads' another.
        let compressed = keys.u32("attention.key_length_mla")?.is_some();
        let suffix = if compressed { "_mla" } else { "" };
        let size = |name: &str| keys.required_size(&alloc::format!("{name}{suffix}"), MAX_SIZE);
        let query = size("attention.key_length")?;
        let value = size("attention.value_length")?;
        let Some(plain) = query.checked_sub(rotated).filter(|&plain| plain > 0) else {
            return Err(LoadError::BadValue {
                key: keys.key("rope.dimension_count"),
                value: rotated as f64,
                needs: "less than a key head",
            });
        };
        if value > query {
            return Err(LoadError::ValueLength { key: query, value });
        }
        let head_size = if compressed { rank + rotated } else { query };
        check_head_size(keys, head_size, None)?;
        let mut rope = rope::rope(keys, shared.spec, head_size, shared.context, false)?;
        let mut scale = 1.0 / libm::sqrtf(query as f32);
        // Where the file says by how much scores grow, rotations do not.
        let growth = keys.above_zero("rope.scaling.yarn_log_multiplier")?;
        if let (Some(growth), RopeScaling::Yarn { factor, .. }) = (growth, rope.scaling) {
            let factor = 1.0 + growth * libm::logf(factor.max(1.0));
            scale *= factor * factor;
            rope.magnitude = 1.0;
        }
        Ok(AttentionConfig {
            heads,
            kv_heads: if compressed { 1 } else { heads },
            head_size,
            window: None,
            chunked: false,
            rope: match shared.spec.position {
                Position::None => None,
                _ => Some(number(ropes, rope)),
            },
            scale,
            soft_cap: self.soft_cap,
            alibi: None,
            buckets: None,
            temperature: temperature(keys, shared, true)?,
            clamp: None,
            gate: AttnGate::Never,
            latent: Some(LatentConfig {
                query_rank: keys.size("attention.q_lora_rank", MAX_SIZE)?,
                rank,
                rotated,
                plain,
                value,
                compressed,
            }),
            shares: None,
        })
    }

    /// The layer whose keys and values a layer reads: the last with its own that slides as this one does.
    fn shares(&self, layer: usize) -> Result<Option<usize>, LoadError> {
        if !self.sharing.contains(&layer) || self.sharing.start == 0 {
            return Ok(None);
        }
        let slides = |layer: usize| self.windows[layer].is_some();
        let alike = |&other: &usize| slides(other) == slides(layer);
        let found = (0..self.sharing.start).rev().find(alike);
        found.map(Some).ok_or(LoadError::NothingToShare { layer })
    }
}

fn check_head_size(
    keys: &Keys<'_, '_>,
    head_size: usize,
    value_size: Option<usize>,
) -> Result<(), LoadError> {
    if head_size > GROUP_FLOATS {
        return Err(LoadError::BadValue {
            key: keys.key("attention.key_length"),
            value: head_size as f64,
            needs: "at most 2048",
        });
    }
    match value_size.filter(|&size| size != head_size) {
        None => Ok(()),
        Some(value) => Err(LoadError::ValueLength {
            key: head_size,
            value,
        }),
    }
}

/// What a layer's scores are multiplied by.
fn scale(
    keys: &Keys<'_, '_>,
    shared: &Shared<'_>,
    heads: usize,
    head_size: usize,
) -> Result<f32, LoadError> {
    Ok(
        match (keys.above_zero("attention.scale")?, shared.spec.attn_scale) {
            (Some(scale), _) => scale,
            (None, AttnScale::WidthPerHeadAtLayers(n)) if n as usize == shared.layers => {
                1.0 / libm::sqrtf((shared.width / heads) as f32)
            }
            (None, AttnScale::OverHeadSize) => 1.0 / head_size as f32,
            (None, AttnScale::One) => 1.0,
            (None, AttnScale::OutputScaleOr(scale)) => {
                keys.above_zero("attention.output_scale")?.unwrap_or(scale)
            }
            (None, _) => 1.0 / libm::sqrtf(head_size as f32),
        },
    )
}

/// The number of an item among those seen so far.
fn number<T: PartialEq>(seen: &mut Vec<T>, item: T) -> usize {
    let known = seen.iter().position(|other| *other == item);
    known.unwrap_or_else(|| {
        seen.push(item);
        seen.len() - 1
    })
}

/// The largest bias of ALiBi, if the model has it.
fn alibi(keys: &Keys<'_, '_>, shared: &Shared<'_>) -> Result<Option<f32>, LoadError> {
    const USUAL: f32 = 8.0;
    let stated = keys.above_zero("attention.max_alibi_bias")?;
    Ok(match shared.spec.position {
        Position::Alibi => Some(stated.unwrap_or(USUAL)),
        Position::AlibiAtLayers(n) if n as usize == shared.layers => Some(USUAL),
        Position::AlibiOrLearned => stated,
        _ => None,
    })
}

/// Whether each layer's queries and keys are rotated.
fn rotated(
    keys: &Keys<'_, '_>,
    shared: &Shared<'_>,
    windows: &[Option<usize>],
    alibi: bool,
) -> Result<Vec<bool>, LoadError> {
    let rotary = match shared.spec.position {
        Position::RopeInterleaved | Position::RopeHalfSplit => true,
        Position::AlibiAtLayers(_) => !alibi,
        Position::None
        | Position::Learned
        | Position::Alibi
        | Position::AlibiOrLearned
        | Position::Buckets => false,
    };
    let pattern = pattern(keys, "attention.rope_pattern", shared.stored_layers)?;
    let finetuned = keys.metadata.bool(&keys.key("rope.scaling.finetuned"))?;
    let slides = windows.iter().any(|window| window.is_some());
    let dense = keys.u32("leading_dense_block_count")?.unwrap_or(0) as usize;
    let layers = windows.iter().enumerate().map(|(layer, window)| {
        rotary
            && match shared.spec.nope {
                Nope::Never => true,
                Nope::Every(n) => !(layer + 1).is_multiple_of(n as usize),
                Nope::FullLayers => window.is_some() || !slides,
                Nope::UnlessFinetuned => finetuned != Some(false),
                Nope::Pattern => pattern.as_ref().is_none_or(|pattern| pattern[layer]),
                Nope::FullLayersWithExperts => window.is_some() || layer < dense,
            }
    });
    Ok(layers.collect())
}

/// What a layer's queries are multiplied by at large positions.
fn temperature(
    keys: &Keys<'_, '_>,
    shared: &Shared<'_>,
    rotated: bool,
) -> Result<Option<TemperatureScale>, LoadError> {
    Ok(match shared.spec.temperature {
        Temperature::Never => None,
        Temperature::NopeLayers(scale) => (!rotated).then_some(scale),
        Temperature::Metadata => {
            let scale = keys.above_zero("attention.temperature_scale")?;
            let length = keys.size("rope.scaling.original_context_length", u32::MAX)?;
            scale.map(|scale| TemperatureScale {
                scale,
                length: length.unwrap_or(shared.context) as f32,
                offset: 0.0,
            })
        }
    })
}

/// The sliding window, if any, of each layer.
fn windows(keys: &Keys<'_, '_>, shared: &Shared<'_>) -> Result<Vec<Option<usize>>, LoadError> {
    // Some converters write 0 for "none".
    let window = match (keys.u32("attention.sliding_window")?, shared.spec.window) {
        (None, Window::ChunksAllButEvery(_, chunk)) => Some(chunk as usize),
        (None | Some(0), _) => None,
        (Some(window), _) => Some(window as usize),
    };
    let slides = slides(keys, shared.spec.window, shared.stored_layers)?;
    let windows = slides.into_iter().map(|slides| window.filter(|_| slides));
    Ok(windows.collect())
}

/// Whether each layer slides: as `attention.sliding_window_pattern` says, or else as the architecture does.
///
/// The pattern is an array with an element for each layer, or the number of layers of which the last sees everything; 0
/// if none does.
fn slides(keys: &Keys<'_, '_>, window: Window, layers: usize) -> Result<Vec<bool>, LoadError> {
    let name = "attention.sliding_window_pattern";
    let all_but_every =
        |n: usize| -> Vec<bool> { (0..layers).map(|i| n == 0 || i % n != n - 1).collect() };
    let value = keys.metadata.get(&keys.key(name));
    let pattern = pattern(keys, name, layers)?;
    match (window, pattern, value) {
        (Window::Never, _, _) => Ok(vec![false; layers]),
        (_, Some(pattern), _) => Ok(pattern),
        (Window::Always, None, None) => Ok(vec![true; layers]),
        (Window::AllButEvery(n) | Window::ChunksAllButEvery(n, _), None, None) => {
            Ok(all_but_every(n as usize))
        }
        (Window::AllButFirstOf(n), None, value) => {
            let n = match value {
                Some(_) => keys.u32(name)?.unwrap_or(0),
                None => n,
            } as usize;
            Ok((0..layers).map(|i| n == 0 || i % n != 0).collect())
        }
        (_, None, Some(_)) => Ok(all_but_every(keys.u32(name)?.unwrap_or(0) as usize)),
    }
}

/// An array of truths, one for each layer, if the key has one.
pub(super) fn pattern(
    keys: &Keys<'_, '_>,
    name: &str,
    layers: usize,
) -> Result<Option<Vec<bool>>, LoadError> {
    let key = keys.key(name);
    let array = keys.metadata.get(&key).and_then(|value| value.as_array());
    let pattern: Option<Vec<bool>> = array.and_then(|array| match array.bools() {
        Some(bools) => Some(bools.collect()),
        None => Some(array.integers()?.map(|i| i != 0).collect()),
    });
    match pattern {
        Some(pattern) if pattern.len() != layers => Err(LoadError::LayerArray {
            key,
            found: pattern.len(),
            layers,
        }),
        pattern => Ok(pattern),
    }
}
