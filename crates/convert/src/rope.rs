//! Rotary positions: `rope_parameters`, or `rope_theta` and `rope_scaling` as they were before.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value};
use strata_weights::gguf::Builder;

use crate::config::{HfConfig, bad, number, quoted};
use crate::error::ConvertError;
use crate::family::{Extras, Family, Latent, Rotary};

/// The most factors of a scaling: one for each pair of a head's dimensions.
const MAX_FACTORS: usize = 4096;

/// What rotary positions add to a file beside metadata.
#[derive(Debug, Default)]
pub(crate) struct RopeTensors {
    /// Names and values.
    pub(crate) tensors: Vec<(&'static str, Vec<f32>)>,
}

/// The config's parameters, wherever they are.
struct Parameters<'c> {
    config: &'c HfConfig,
    map: Option<&'c Map<String, Value>>,
}

impl Parameters<'_> {
    fn get(&self, key: &'static str) -> Result<Option<f32>, ConvertError> {
        let here = self.map.and_then(|map| map.get(key));
        match here.filter(|value| !value.is_null()) {
            Some(value) => number(key, value).map(Some),
            None => Ok(None),
        }
    }

    fn required(&self, key: &'static str) -> Result<f32, ConvertError> {
        self.get(key)?.ok_or(ConvertError::Missing { key })
    }

    /// In the parameters or in the config itself.
    fn anywhere(&self, key: &'static str) -> Result<Option<f32>, ConvertError> {
        match self.get(key)? {
            Some(value) => Ok(Some(value)),
            None => self.config.f32(&[key]),
        }
    }

    fn kind(&self) -> &str {
        let map = self.map;
        let kind = map.and_then(|map| map.get("rope_type").or_else(|| map.get("type")));
        kind.and_then(Value::as_str).unwrap_or("default")
    }

    fn factors(&self, key: &'static str) -> Result<Vec<f32>, ConvertError> {
        let value = self.map.and_then(|map| map.get(key));
        let value = value.ok_or(ConvertError::Missing { key })?;
        let list = value.as_array().filter(|list| list.len() <= MAX_FACTORS);
        let list = list.ok_or_else(|| bad(key, value))?;
        list.iter().map(|factor| number(key, factor)).collect()
    }
}

/// Writes the keys of rotary positions.
pub(crate) fn write(
    builder: &mut Builder,
    config: &HfConfig,
    family: &Family,
) -> Result<RopeTensors, ConvertError> {
    let arch = family.arch;
    let share = match family.rotary {
        Rotary::None => return Ok(RopeTensors::default()),
        Rotary::Share(share) => share,
        Rotary::ByLayer => 1.0,
        Rotary::UnlessNope => {
            let kind = config.get(&["position_embedding_type"]);
            if kind.and_then(|(_, kind)| kind.as_str()) != Some("rope") {
                builder.set(&alloc::format!("{arch}.rope.scaling.finetuned"), false)?;
            }
            1.0
        }
    };
    let key = |name: &str| alloc::format!("{arch}.rope.{name}");
    let whole = config.get(&["rope_parameters", "rope_scaling"]);
    let whole = whole.and_then(|(_, value)| value.as_object());
    let full = whole.and_then(|map| map.get("full_attention")?.as_object());
    let parameters = Parameters {
        config,
        map: full.or(whole),
    };
    let head = match family.latent {
        Latent::Never => config.head_size()?,
        Latent::Compressed | Latent::Expanded => config.required_u32(&["qk_rope_head_dim"])?,
    };
    let share = match parameters.anywhere("partial_rotary_factor")? {
        Some(share) => share,
        None => config.f32(&["rotary_pct", "rope_pct"])?.unwrap_or(share),
    };
    let share = match family.latent {
        Latent::Never => share,
        Latent::Compressed | Latent::Expanded => 1.0,
    };
    let dimensions = match config.u32(&["rotary_dim"])? {
        Some(dimensions) => dimensions,
        None => (head as f32 * share) as u32,
    };
    let base = match parameters.anywhere("rope_theta")? {
        Some(base) => base,
        None => config.f32(&["rotary_emb_base"])?.unwrap_or(10_000.0),
    };
    // A base for each layer, or 0 where nothing turns.
    let bases = match family.rotary {
        Rotary::ByLayer => config.numbers("layer_rope_theta")?,
        _ => Vec::new(),
    };
    let turning = bases.iter().copied().find(|&base| base > 0.0);
    let base = turning.unwrap_or(base);
    if let Some(other) = bases.iter().find(|&&other| other > 0.0 && other != base) {
        return Err(bad("layer_rope_theta", &Value::from(*other)));
    }
    if !bases.is_empty() {
        let pattern: Vec<bool> = bases.iter().map(|&base| base > 0.0).collect();
        builder.set_array(&alloc::format!("{arch}.attention.rope_pattern"), pattern)?;
    }
    // Gemma 4's differ by layer.
    if family.extras != Extras::Gemma4 {
        builder.set(&key("dimension_count"), dimensions)?;
    }
    builder.set(&key("freq_base"), base)?;
    // Pairs that turn with time, height and width; the fourth is never used.
    let sections = whole.and_then(|map| map.get("mrope_section")?.as_array());
    if let Some(sections) = sections {
        let sections = sections
            .iter()
            .map(|size| size.as_i64().unwrap_or(0) as i32);
        let sections: Vec<i32> = sections.chain([0, 0, 0, 0]).take(4).collect();
        builder.set_array(&key("dimension_sections"), sections)?;
    }
    let sliding = whole.and_then(|map| map.get("sliding_attention")?.get("rope_theta"));
    let sliding = match sliding {
        Some(value) => Some(number("rope_theta", value)?),
        None => config.f32(&["rope_local_base_freq"])?,
    };
    if let Some(base) = sliding {
        builder.set(&key("freq_base_swa"), base)?;
    }
    if let Some(scale) = parameters.get("llama_4_scaling_beta")? {
        builder.set(&alloc::format!("{arch}.attention.temperature_scale"), scale)?;
    }
    let latent = family.latent != Latent::Never;
    scaling(builder, &parameters, &key, (base, dimensions, latent))
}

fn scaling(
    builder: &mut Builder,
    parameters: &Parameters<'_>,
    key: &dyn Fn(&str) -> String,
    (base, dimensions, latent): (f32, u32, bool),
) -> Result<RopeTensors, ConvertError> {
    let mut extra = RopeTensors::default();
    match parameters.kind() {
        "default" | "mrope" | "proportional" => {}
        "linear" => {
            builder.set(&key("scaling.type"), "linear")?;
            builder.set(&key("scaling.factor"), parameters.required("factor")?)?;
        }
        "yarn" => yarn(builder, parameters, key, latent)?,
        "llama3" => {
            let values = llama3(parameters, base, dimensions)?;
            extra.tensors.push(("rope_freqs.weight", values));
        }
        "longrope" | "su" => {
            let config = parameters.config;
            let original = match parameters.get("original_max_position_embeddings")? {
                Some(original) => original,
                None => config.f32(&["original_max_position_embeddings"])?.ok_or(
                    ConvertError::Missing {
                        key: "original_max_position_embeddings",
                    },
                )?,
            };
            let context = config.required_u32(&["max_position_embeddings"])?;
            let scale = context as f32 / original;
            let factor = match parameters.get("attention_factor")? {
                Some(factor) => factor,
                None if scale <= 1.0 => 1.0,
                None => libm::sqrtf(1.0 + libm::logf(scale) / libm::logf(original)),
            };
            builder.set(&key("scaling.type"), "longrope")?;
            let stated = config.get(&["original_max_position_embeddings"]).is_some();
            if !stated {
                builder.set(&key("scaling.original_context_length"), original as u32)?;
            }
            builder.set(&key("scaling.attn_factor"), factor)?;
            extra.tensors = [
                (
                    "rope_factors_long.weight",
                    parameters.factors("long_factor")?,
                ),
                (
                    "rope_factors_short.weight",
                    parameters.factors("short_factor")?,
                ),
            ]
            .into();
        }
        kind => {
            return Err(ConvertError::Unsupported {
                key: "rope_type",
                found: quoted(&Value::from(kind)),
            });
        }
    }
    Ok(extra)
}

fn yarn(
    builder: &mut Builder,
    parameters: &Parameters<'_>,
    key: &dyn Fn(&str) -> String,
    latent: bool,
) -> Result<(), ConvertError> {
    let factor = parameters.required("factor")?;
    builder.set(&key("scaling.type"), "yarn")?;
    builder.set(&key("scaling.factor"), factor)?;
    let original = match parameters.anywhere("original_max_position_embeddings")? {
        Some(original) => original as u32,
        None => parameters
            .config
            .required_u32(&["max_position_embeddings"])?,
    };
    builder.set(&key("scaling.original_context_length"), original)?;
    for (name, to) in [
        ("beta_fast", "scaling.yarn_beta_fast"),
        ("beta_slow", "scaling.yarn_beta_slow"),
    ] {
        if let Some(beta) = parameters.get(name)? {
            builder.set(&key(to), beta)?;
        }
    }
    // GGUF's readers sharpen by what YaRN's paper says, and multiply by the key.
    let mscale = |scale: f32| 1.0 + 0.1 * scale * libm::logf(factor.max(1.0));
    let (one, all) = (parameters.get("mscale")?, parameters.get("mscale_all_dim")?);
    if let (true, Some(all)) = (latent, all) {
        // Scores grow, and rotations do not.
        if one != Some(all) {
            return Err(ConvertError::Unsupported {
                key: "mscale",
                found: quoted(&Value::from(one)),
            });
        }
        builder.set(&key("scaling.yarn_log_multiplier"), 0.1 * all)?;
        return Ok(());
    }
    let stated = match (parameters.get("attention_factor")?, one, all) {
        (Some(stated), _, _) => Some(stated),
        (None, Some(one), Some(all)) => Some(mscale(one) / mscale(all)),
        _ => None,
    };
    if let Some(stated) = stated {
        builder.set(&key("scaling.attn_factor"), stated / mscale(1.0))?;
    }
    Ok(())
}

/// The divisors of Llama 3's frequencies: none for short waves, `factor` for long ones, a ramp between.
fn llama3(
    parameters: &Parameters<'_>,
    base: f32,
    dimensions: u32,
) -> Result<Vec<f32>, ConvertError> {
    let number = |key| parameters.required(key).map(f64::from);
    let (factor, original) = (
        number("factor")?,
        number("original_max_position_embeddings")?,
    );
    let (low, high) = (number("low_freq_factor")?, number("high_freq_factor")?);
    let dimensions = dimensions.min(2 * MAX_FACTORS as u32);
    Ok((0..dimensions / 2)
        .map(|pair| {
            let exponent = -f64::from(2 * pair) / f64::from(dimensions);
            let frequency = libm::pow(f64::from(base), exponent);
            let turns = original * frequency / core::f64::consts::TAU;
            let ramp = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            (1.0 / ((1.0 - ramp) / factor + ramp)) as f32
        })
        .collect())
}
