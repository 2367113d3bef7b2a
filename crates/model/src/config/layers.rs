//! The sizes of each layer.

use super::keys::Keys;
use super::rope::{self, RopeConfig};
use super::{MAX_HEADS, MAX_SIZE};
use crate::error::LoadError;
use crate::mixer::attention::paged::GROUP_FLOATS;
use crate::mixer::short_conv::MAX_TAPS;
use crate::spec::{
    Activation, ArchSpec, AttnScale, FfnLength, Nope, Position, Presence, Recurrence, Temperature,
    TemperatureScale, Window,
};
use alloc::vec;
use alloc::vec::Vec;

/// One layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerConfig {
    /// What lets tokens see each other.
    pub mixer: MixerConfig,
    /// The inner width of the feed-forward network.
    pub ffn: usize,
    /// Its activation.
    pub activation: Activation,
}

/// What lets a layer's tokens see each other.
#[derive(Clone, Debug, PartialEq)]
pub enum MixerConfig {
    /// Attention.
    Attention(AttentionConfig),
    /// A short convolution.
    ShortConv(ShortConvConfig),
}

impl LayerConfig {
    /// Its attention, if that is its mixer.
    pub fn attention(&self) -> Option<&AttentionConfig> {
        match &self.mixer {
            MixerConfig::Attention(attention) => Some(attention),
            MixerConfig::ShortConv(_) => None,
        }
    }
}

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
    /// What queries are multiplied by at large positions.
    pub temperature: Option<TemperatureScale>,
    /// Queries, keys and values are clamped to ± this.
    pub clamp: Option<f32>,
    /// Whether a gate multiplies what goes into the last matrix.
    pub gated: bool,
}

impl AttentionConfig {
    /// The width of all query heads.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_size
    }

    /// The width of all key heads, or of all value heads.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_size
    }

    /// The width of queries, keys, values and the gate together.
    pub(crate) fn qkv_width(&self) -> usize {
        self.q_width() + 2 * self.kv_width() + self.gate_width()
    }

    /// The width of the gate; 0 if there is none.
    pub(crate) fn gate_width(&self) -> usize {
        if self.gated { self.q_width() } else { 0 }
    }
}

/// One layer's short convolution.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ShortConvConfig {
    /// Channels, each of which is summed by itself.
    pub channels: usize,
    /// Positions that a sum runs over, the token's own included.
    pub taps: usize,
}

/// What the layers share.
pub(super) struct Shared<'a> {
    pub(super) spec: &'a ArchSpec,
    pub(super) layers: usize,
    /// Those in the file: some have more, which predict tokens after the next.
    pub(super) stored_layers: usize,
    pub(super) width: usize,
    pub(super) context: usize,
    /// The inner width of feed-forward networks where the file names none.
    pub(super) ffn: Option<usize>,
}

/// All layers, and the RoPEs that they use.
pub(super) fn layers(
    keys: &Keys<'_, '_>,
    shared: &Shared<'_>,
) -> Result<(Vec<LayerConfig>, Vec<RopeConfig>), LoadError> {
    let count = shared.stored_layers;
    let heads = keys.sizes("attention.head_count", count, 1..=MAX_HEADS)?;
    let heads = keys.required("attention.head_count", heads)?;
    let fewest = match shared.spec.recurrence {
        Recurrence::Never => 1,
        Recurrence::ShortConv => 0,
    };
    let kv_heads = keys.sizes("attention.head_count_kv", count, fewest..=MAX_HEADS)?;
    let kv_heads = kv_heads.unwrap_or_else(|| heads.clone());
    let head_sizes = keys.sizes("attention.key_length", count, 1..=MAX_SIZE)?;
    let value_sizes = keys.sizes("attention.value_length", count, 1..=MAX_SIZE)?;
    let ffn = keys.sizes("feed_forward_length", count, 1..=MAX_SIZE)?;
    let ffn = ffn.or_else(|| shared.ffn.map(|ffn| vec![ffn; count]));
    let mut ffn = keys.required("feed_forward_length", ffn)?;
    if shared.spec.ffn_length == FfnLength::GateAndUp {
        ffn.iter_mut().for_each(|ffn| *ffn /= 2);
    }
    let activations = activations(keys, shared)?;
    let windows = windows(keys, shared)?;
    let chunked = matches!(shared.spec.window, Window::ChunksAllButEvery(..));
    let soft_cap = keys.above_zero("attn_logit_softcapping")?;
    let soft_cap = soft_cap.or(shared.spec.attn_soft_cap);
    let clamp = keys.above_zero("attention.clamp_kqv")?;
    let alibi = alibi(keys, shared)?;
    let rotated = rotated(keys, shared, &windows, alibi.is_some())?;

    let mut ropes = Vec::new();
    let layers = (0..shared.layers).map(|layer| {
        let (heads, kv_heads) = (heads[layer], kv_heads[layer]);
        if kv_heads == 0 {
            return Ok(LayerConfig {
                mixer: MixerConfig::ShortConv(short_conv(keys, shared.width)?),
                ffn: ffn[layer],
                activation: activations[layer],
            });
        }
        if heads % kv_heads != 0 {
            return Err(LoadError::Heads { heads, kv_heads });
        }
        let head_size = match &head_sizes {
            Some(sizes) => sizes[layer],
            None if shared.width.is_multiple_of(heads) => shared.width / heads,
            None => {
                return Err(LoadError::MissingKey {
                    key: keys.key("attention.key_length"),
                });
            }
        };
        check_head_size(keys, head_size, value_sizes.as_ref().map(|s| s[layer]))?;
        let rope = if rotated[layer] {
            let sliding = windows[layer].is_some();
            let rope = rope::rope(keys, shared.spec, head_size, shared.context, sliding)?;
            Some(number(&mut ropes, rope))
        } else {
            None
        };
        Ok(LayerConfig {
            mixer: MixerConfig::Attention(AttentionConfig {
                heads,
                kv_heads,
                head_size,
                window: windows[layer],
                chunked,
                rope,
                scale: scale(keys, shared, heads, head_size)?,
                soft_cap,
                alibi,
                temperature: temperature(keys, shared, rotated[layer])?,
                clamp,
                gated: shared.spec.attn_gate == Presence::Always,
            }),
            ffn: ffn[layer],
            activation: activations[layer],
        })
    });
    Ok((layers.collect::<Result<_, _>>()?, ropes))
}

fn short_conv(keys: &Keys<'_, '_>, width: usize) -> Result<ShortConvConfig, LoadError> {
    let name = "shortconv.l_cache";
    let taps = keys.required_size(name, MAX_SIZE)?;
    if !(2..=MAX_TAPS).contains(&taps) {
        return Err(LoadError::BadValue {
            key: keys.key(name),
            value: taps as f64,
            needs: "2 to 16",
        });
    }
    Ok(ShortConvConfig {
        channels: width,
        taps,
    })
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

/// Each layer's activation: xIELU has numbers of its own in every layer.
fn activations(keys: &Keys<'_, '_>, shared: &Shared<'_>) -> Result<Vec<Activation>, LoadError> {
    let activation = shared.spec.activation;
    let Activation::Xielu { .. } = activation else {
        return Ok(vec![activation; shared.stored_layers]);
    };
    let softplus = |x: f32| libm::log1pf(libm::expf(x));
    let floats = |name| keys.floats(name, shared.stored_layers);
    let (positive, negative) = (floats("xielu.alpha_p")?, floats("xielu.alpha_n")?);
    let slopes = floats("xielu.beta")?;
    let layers = positive.into_iter().zip(negative).zip(slopes);
    Ok(layers
        .map(|((positive, negative), slope)| Activation::Xielu {
            positive: softplus(positive),
            negative: slope + softplus(negative),
            slope,
        })
        .collect())
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
        Position::Learned | Position::Alibi | Position::AlibiOrLearned => false,
    };
    let pattern = pattern(keys, "attention.rope_pattern", shared.stored_layers)?;
    let finetuned = keys.metadata.bool(&keys.key("rope.scaling.finetuned"))?;
    let slides = windows.iter().any(|window| window.is_some());
    let layers = windows.iter().enumerate().map(|(layer, window)| {
        rotary
            && match shared.spec.nope {
                Nope::Never => true,
                Nope::Every(n) => !(layer + 1).is_multiple_of(n as usize),
                Nope::FullLayers => window.is_some() || !slides,
                Nope::UnlessFinetuned => finetuned != Some(false),
                Nope::Pattern => pattern.as_ref().is_none_or(|pattern| pattern[layer]),
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
    Ok(windows.take(shared.layers).collect())
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
        (_, None, Some(_)) => Ok(all_but_every(keys.u32(name)?.unwrap_or(0) as usize)),
    }
}

/// An array of truths, one for each layer, if the key has one.
fn pattern(keys: &Keys<'_, '_>, name: &str, layers: usize) -> Result<Option<Vec<bool>>, LoadError> {
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
