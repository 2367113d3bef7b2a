//! The eyes of a model that also sees, as a file of their own: a tower and its projector, under the names and keys of
//! llama.cpp's converter.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value};
use strata_weights::CheckpointTensor;
use strata_weights::gguf::{Builder, Name};

use crate::config::{HfConfig, bad};
use crate::error::ConvertError;
use crate::eyes::{ALL, Eyes};
use crate::minicpmv;
use crate::mix::Mix;
use crate::names::{full_name, numbers};
use crate::plan::Plan;
use crate::ways::{Way, planned};

/// What checkpoints put in front of the names of a tower's tensors.
const PREFIXES: &[&str] = &[
    "model.",
    "vision_tower.",
    "vision_model.",
    "visual.",
    "vpm.",
];

/// Where a checkpoint's names belong to its eyes.
const SEEING: &[&str] = &[
    "vision_tower.",
    "vision_model.",
    "visual.",
    "multi_modal_projector.",
    "embed_vision.",
    "connector.",
    "image_newline",
    "vpm.",
    "resampler.",
];

/// What the names of tensors end with.
const ENDS: &[&str] = &[
    "weight",
    "bias",
    "input_min",
    "input_max",
    "output_min",
    "output_max",
];

impl Eyes {
    /// What a name becomes; `None` for what is no part of the eyes, or not needed.
    fn find(&self, name: &str) -> Result<Option<(String, Way)>, ConvertError> {
        let inner = name.strip_prefix("model.").unwrap_or(name);
        if !SEEING.iter().any(|prefix| inner.starts_with(prefix)) {
            return Ok(None);
        }
        let mut short = name;
        while let Some(rest) = PREFIXES
            .iter()
            .find_map(|prefix| short.strip_prefix(prefix))
        {
            short = rest;
        }
        // SigLIP's own way of pooling patches, and places that are computed.
        if short.starts_with("head.") || short == "resampler.pos_embed" {
            return Ok(None);
        }
        let rules = || self.rules.iter().flat_map(|rules| rules.iter());
        let (stem, suffix) = match short.rsplit_once('.') {
            Some((stem, end)) if ENDS.contains(&end) => (stem, &short[stem.len()..]),
            _ => (short, ""),
        };
        // Gemma 4's matrices are inside of what keeps them within bounds.
        let stem = stem
            .strip_suffix("_proj.linear")
            .map_or_else(|| stem.into(), |stem| String::from(stem) + "_proj");
        let found = rules().find_map(|&(from, to, way)| {
            let (layer, _) = numbers(from, &stem)?;
            Some((full_name(to, layer)? + suffix, way))
        });
        let unknown = || ConvertError::UnknownTensor {
            tensor: Name::new(name),
            arch: self.projector,
        };
        found.map(Some).ok_or_else(unknown)
    }
}

/// `vision_config`, and what the preprocessor's file says.
struct Sizes<'c> {
    vision: &'c Map<String, Value>,
    beside: Map<String, Value>,
}

impl Sizes<'_> {
    fn optional(&self, keys: &[&'static str]) -> Option<u32> {
        let value = keys.iter().find_map(|key| self.vision.get(*key))?;
        // Some have a pair of alike sides.
        let value = value.get(0).unwrap_or(value);
        value.as_u64().and_then(|number| u32::try_from(number).ok())
    }

    fn size(&self, keys: &[&'static str]) -> Result<u32, ConvertError> {
        let key = keys.first().copied().unwrap_or_default();
        self.optional(keys).ok_or(ConvertError::Missing { key })
    }

    fn word(&self, key: &str) -> Option<&str> {
        self.vision.get(key)?.as_str()
    }

    /// The layers behind which something for the text model is made.
    fn stacked(&self) -> Vec<usize> {
        let list = self.vision.get("deepstack_visual_indexes");
        let list = list.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|layer| usize::try_from(layer.as_u64()?).ok())
            .collect()
    }

    /// The name of a tensor that has the number of a merger, with the number of its layer.
    fn behind_layer(&self, rest: &str) -> Result<String, ConvertError> {
        let missing = || ConvertError::Missing {
            key: "deepstack_visual_indexes",
        };
        let (number, part) = rest.split_once('.').ok_or_else(missing)?;
        let number: Option<usize> = number.parse().ok();
        let layers = self.stacked();
        let layer = number.and_then(|number| layers.get(number));
        let layer = layer.ok_or_else(missing)?;
        Ok(alloc::format!("v.deepstack.{layer}.{part}"))
    }

    fn colors(&self, key: &str, otherwise: [f32; 3]) -> Vec<f32> {
        let list = self.beside.get(key).and_then(Value::as_array);
        let numbers = list.map(|list| list.iter().filter_map(Value::as_f64));
        let numbers = numbers.map(|numbers| numbers.map(|n| n as f32).collect::<Vec<f32>>());
        numbers
            .filter(|numbers| numbers.len() == 3)
            .unwrap_or_else(|| otherwise.to_vec())
    }

    /// How many of the tower's layers are used; the result of the last of them is taken.
    fn used(&self, config: &HfConfig) -> Result<u32, ConvertError> {
        let all = self.size(&["num_hidden_layers"])?;
        let key = "vision_feature_layer";
        let Some((_, value)) = config.get(&[key]) else {
            return Ok(all.saturating_sub(1));
        };
        // 0 are the patches, and -1 is the last layer.
        let layer = value.as_i64().ok_or_else(|| bad(key, value))?;
        let used = if layer < 0 {
            i64::from(all) + 1 + layer
        } else {
            layer
        };
        let used = u32::try_from(used).ok();
        let used = used.filter(|used| (1..=all).contains(used));
        used.ok_or_else(|| bad(key, value))
    }

    /// A number beside the weights, or in a map of sizes there.
    fn pixels(&self, key: &str, side: &str) -> Option<u32> {
        let whole = self.beside.get(key);
        let inner = self.beside.get("size").and_then(|size| size.get(side));
        let number = whole.or(inner)?.as_u64()?;
        u32::try_from(number).ok()
    }
}

impl<'t, 'a> Plan<'t, 'a> {
    /// The file of the eyes of a model that also sees; `None` for one that does not, or whose eyes are not known.
    /// `beside` is its `preprocessor_config.json`. Matrices are f32 or f16 as the checkpoint has them.
    pub fn projector(
        config: &HfConfig,
        checkpoint: &'t [CheckpointTensor<'a>],
        beside: Option<&[u8]>,
        name: Option<&str>,
    ) -> Result<Option<Self>, ConvertError> {
        if let Some(plan) = Self::ears(config, checkpoint, name)? {
            return Ok(Some(plan));
        }
        let Some(vision) = config.vision() else {
            return Ok(None);
        };
        let kind = vision.get("model_type").and_then(Value::as_str);
        let fits = |eyes: &&Eyes| {
            eyes.classes.contains(&config.class()) && eyes.tower.is_none_or(|it| kind == Some(it))
        };
        let Some(eyes) = ALL.iter().find(fits) else {
            return Ok(None);
        };
        let beside = beside.and_then(|json| serde_json::from_slice(json).ok());
        let sizes = Sizes {
            vision,
            beside: beside.unwrap_or_default(),
        };
        let heads = sizes.size(&["num_attention_heads", "num_heads"])?;
        let used = match eyes.projector {
            "mlp" => Some(sizes.used(config)?),
            _ => None,
        };
        let mut tensors = Vec::new();
        let mut layers = 0;
        for (source, tensor) in checkpoint.iter().enumerate() {
            let Some((mut name, way)) = eyes.find(&tensor.name)? else {
                continue;
            };
            if let Some(rest) = name.strip_prefix("v.deepstack.") {
                name = sizes.behind_layer(rest)?;
            }
            let layer = name
                .strip_prefix("v.blk.")
                .and_then(|rest| rest.split('.').next());
            let layer: Option<u32> = layer.and_then(|layer| layer.parse().ok());
            // What comes after the layer that is taken.
            let after = layer.is_some_and(|layer| used.is_some_and(|used| layer >= used));
            if after || used.is_some() && name.starts_with("v.post_ln.") {
                continue;
            }
            layers = layers.max(layer.map_or(0, |layer| layer + 1));
            tensors.extend(planned(tensor, source, name, (way, heads))?);
        }
        if tensors.is_empty() {
            return Ok(None);
        }
        let ffn = tensors
            .iter()
            .find(|tensor| tensor.name == "v.blk.0.ffn_up.weight");
        let ffn = ffn.and_then(|tensor| tensor.dims.get(1)).copied();
        let mut builder = Builder::new();
        builder.set("general.architecture", "clip")?;
        builder.set("general.type", "mmproj")?;
        if let Some(name) = name {
            builder.set("general.name", name)?;
        }
        builder.set("clip.has_vision_encoder", true)?;
        builder.set("clip.projector_type", eyes.projector)?;
        let gelu = eyes.projector == "mlp" && sizes.word("hidden_act") == Some("gelu");
        if let Some(key) = eyes.activation.or(gelu.then_some("clip.use_gelu")) {
            builder.set(key, true)?;
        }
        eyes.describe(&mut builder, &sizes, config)?;
        builder.set("clip.vision.block_count", layers)?;
        builder.set("clip.vision.attention.head_count", heads)?;
        builder.set("clip.vision.feed_forward_length", ffn.unwrap_or(0) as u32)?;
        let metadata = builder.finish()?.header;
        for tensor in &tensors {
            builder.tensor(&tensor.name, tensor.ty, &tensor.dims)?;
        }
        let layout = builder.finish()?;
        Ok(Some(Self::of_parts(
            checkpoint,
            tensors,
            layout,
            metadata,
            Mix::F16,
        )))
    }
}

impl Eyes {
    /// Writes sizes and scales.
    fn describe(
        &self,
        builder: &mut Builder,
        sizes: &Sizes<'_>,
        config: &HfConfig,
    ) -> Result<(), ConvertError> {
        let key = |name: &str| alloc::format!("clip.vision.{name}");
        let patch = sizes.size(&["patch_size"])?;
        // Qwen's towers read images of any size.
        let side = match self.projector {
            // That of slices; the tower's own is the side of its places' table.
            "resampler" => config.u32(&["image_size"])?,
            _ => sizes.optional(&["image_size"]),
        };
        let side = side.unwrap_or(40 * patch);
        let width: &[&'static str] = &["embed_dim", "hidden_size"];
        builder.set(&key("image_size"), side)?;
        builder.set(&key("patch_size"), patch)?;
        builder.set(&key("embedding_length"), sizes.size(width)?)?;
        let epsilon = ["layer_norm_eps", "rms_norm_eps", "norm_eps"];
        let epsilon = epsilon
            .iter()
            .find_map(|key| sizes.vision.get(*key)?.as_f64());
        let epsilon = epsilon.map_or(self.epsilon, |epsilon| epsilon as f32);
        builder.set(&key("attention.layer_norm_epsilon"), epsilon)?;
        let [mean, deviation] = self.colors;
        builder.set_array(&key("image_mean"), sizes.colors("image_mean", mean))?;
        builder.set_array(&key("image_std"), sizes.colors("image_std", deviation))?;
        match self.projector {
            "gemma3" => {
                let tokens = config.u32(&["mm_tokens_per_image"])?.unwrap_or(256);
                let positions = (1..=side / patch).find(|n| n * n == tokens);
                let value = || ConvertError::Missing {
                    key: "mm_tokens_per_image",
                };
                let positions = positions.ok_or_else(value)?;
                builder.set(&key("projector.scale_factor"), side / patch / positions)?;
            }
            "llama4" => {
                let ratio = sizes.vision.get("pixel_shuffle_ratio");
                let ratio = ratio.and_then(Value::as_f64).unwrap_or(0.5);
                let side = libm::rint(1.0 / ratio) as u32;
                builder.set(&key("projector.scale_factor"), side)?;
                if let Some(tiles) = sizes.pixels("max_patches", "") {
                    builder.set(&key("preproc_max_tiles"), tiles)?;
                }
            }
            "gemma4v" => {
                let side = sizes.optional(&["pooling_kernel_size"]).unwrap_or(3);
                builder.set(&key("projector.scale_factor"), side)?;
                if let Some(most) = sizes.pixels("max_soft_tokens", "") {
                    let square = patch.saturating_mul(side);
                    let pixels = most.saturating_mul(square.saturating_mul(square));
                    builder.set(&key("image_max_pixels"), pixels)?;
                }
            }
            "pixtral" => {
                // Files without a merger have no side of squares.
                if let Some(merge) = config.u32(&["spatial_merge_size"])? {
                    builder.set(&key("spatial_merge_size"), merge)?;
                }
            }
            "mlp" => llava(builder, config)?,
            "resampler" => minicpmv::describe(builder, config)?,
            "idefics3" => {
                let side = config.u32(&["scale_factor"])?.unwrap_or(2);
                builder.set(&key("projector.scale_factor"), side)?;
                if let Some(longest) = sizes.pixels("", "longest_edge") {
                    builder.set(&key("preproc_image_size"), longest)?;
                }
            }
            "internvl" => {
                let ratio = config.f32(&["downsample_ratio"])?.unwrap_or(0.5);
                let side = libm::rintf(1.0 / ratio) as u32;
                builder.set(&key("projector.scale_factor"), side)?;
                if let Some(tiles) = sizes.pixels("max_patches", "") {
                    builder.set(&key("preproc_max_tiles"), tiles)?;
                }
            }
            _ => {
                let merge = sizes.optional(&["spatial_merge_size"]).unwrap_or(2);
                builder.set(&key("spatial_merge_size"), merge)?;
                let pixels = [
                    ("image_min_pixels", "min_pixels", "shortest_edge"),
                    ("image_max_pixels", "max_pixels", "longest_edge"),
                ];
                for (to, from, side) in pixels {
                    if let Some(pixels) = sizes.pixels(from, side) {
                        builder.set(&key(to), pixels)?;
                    }
                }
            }
        }
        if self.projector == "qwen3vl_merger" {
            let layers = sizes.size(&["depth"])? as usize;
            let stacked = sizes.stacked();
            let all = (0..layers).map(|layer| stacked.contains(&layer));
            let all: Vec<bool> = all.collect();
            builder.set_array(&key("is_deepstack_layers"), all)?;
        }
        if self.projector == "qwen2.5vl_merger" {
            let full = sizes.vision.get("fullatt_block_indexes");
            let first = full.and_then(|list| list.get(0)?.as_u64()).unwrap_or(7);
            builder.set(&key("n_wa_pattern"), first as u32 + 1)?;
            let window = sizes.optional(&["window_size"]).unwrap_or(112);
            builder.set(&key("window_size"), window)?;
        }
        Ok(())
    }
}

/// Writes how LLaVA's images become positions.
fn llava(builder: &mut Builder, config: &HfConfig) -> Result<(), ConvertError> {
    let key = "vision_feature_select_strategy";
    if let Some((_, value)) = config.get(&[key])
        && value.as_str() != Some("default")
    {
        return Err(bad(key, value));
    }
    let key = "image_grid_pinpoints";
    let Some((_, sizes)) = config.get(&[key]) else {
        return Ok(());
    };
    let sides = sizes.as_array().into_iter().flatten();
    let sides = sides.flat_map(|size| size.as_array().into_iter().flatten());
    let sides: Option<Vec<i32>> = sides
        .map(|side| i32::try_from(side.as_u64()?).ok())
        .collect();
    let sides = sides.ok_or_else(|| bad(key, sizes))?;
    if !sides.is_empty() {
        builder.set_array("clip.vision.image_grid_pinpoints", sides)?;
        builder.set("clip.vision.mm_patch_merge_type", "spatial_unpad")?;
    }
    Ok(())
}
