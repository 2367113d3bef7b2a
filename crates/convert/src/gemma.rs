//! What configs of Gemma 3n and 4 say by layer, under GGUF's keys.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use strata_weights::gguf::Builder;

use crate::config::HfConfig;
use crate::error::ConvertError;
use crate::family::{Extras, Family};
use crate::rope::RopeTensors;

/// A frequency that is divided by this stands still.
const HUGE: f32 = 1e30;

/// Writes the keys of widths, heads and gates.
pub(crate) fn write(
    builder: &mut Builder,
    config: &HfConfig,
    family: &Family,
) -> Result<RopeTensors, ConvertError> {
    match family.extras {
        Extras::Never | Extras::MixedLayers { .. } => Ok(RopeTensors::default()),
        Extras::Gemma3n => three_n(builder, config, family.arch),
        Extras::Gemma4 => four(builder, config, family.arch),
    }
}

fn three_n(
    builder: &mut Builder,
    config: &HfConfig,
    arch: &str,
) -> Result<RopeTensors, ConvertError> {
    let layers = config.layers()?;
    let list = config.get(&["intermediate_size"]);
    let widths: Vec<i32> = match list.and_then(|(_, value)| value.as_array()) {
        Some(_) => {
            let widths = config.numbers("intermediate_size")?;
            widths.iter().map(|&width| width as i32).collect()
        }
        None => vec![config.required_u32(&["intermediate_size"])? as i32; layers],
    };
    builder.set_array(&format!("{arch}.feed_forward_length"), widths)?;
    // The share of gates that are 0, as standard deviations of a normal distribution.
    let shares = config.numbers("activation_sparsity_pattern")?;
    if !shares.is_empty() {
        let deviations: Vec<f32> = shares.into_iter().map(quantile).collect();
        let key = format!("{arch}.activation_sparsity_scale");
        builder.set_array(&key, deviations)?;
    }
    Ok(RopeTensors::default())
}

fn four(builder: &mut Builder, config: &HfConfig, arch: &str) -> Result<RopeTensors, ConvertError> {
    let sliding = config.sliding_layers()?;
    let layers = sliding.len();
    let set = |builder: &mut Builder, name: &str, value: u32| {
        let set = builder.set(&format!("{arch}.{name}"), value);
        set.map(|_| ())
    };
    let head = config.required_u32(&["head_dim"])?;
    let full = config.layer_number("head_dim", &sliding)?;
    let full = full.or(config.u32(&["global_head_dim"])?).unwrap_or(512);
    for (name, value) in [
        ("attention.key_length", full),
        ("attention.value_length", full),
        ("attention.key_length_swa", head),
        ("attention.value_length_swa", head),
        ("rope.dimension_count", full),
        ("rope.dimension_count_swa", head),
    ] {
        set(builder, name, value)?;
    }
    let keys = config.required_u32(&["num_key_value_heads"])?;
    let shared = config.bool(&["attention_k_eq_v"])?.unwrap_or(false);
    let full_keys = config.layer_number("num_key_value_heads", &sliding)?;
    let stated = config.u32(&["num_global_key_value_heads"])?;
    let full_keys = full_keys.or(stated.filter(|_| shared)).unwrap_or(keys);
    let key = format!("{arch}.attention.head_count_kv");
    if full_keys == keys {
        builder.set(&key, keys)?;
    } else {
        let heads = sliding.iter();
        let heads = heads.map(|&slides| if slides { keys } else { full_keys } as i32);
        builder.set_array(&key, heads.collect::<Vec<_>>())?;
    }

    let width = config.required_u32(&["intermediate_size"])?;
    let sharing = config.u32(&["num_kv_shared_layers"])?.unwrap_or(0) as usize;
    let wide = config.bool(&["use_double_wide_mlp"])?.unwrap_or(false);
    let widths = (0..layers).map(|layer| {
        let doubled = wide && sharing > 0 && layer + sharing >= layers;
        width.saturating_mul(1 + u32::from(doubled)) as i32
    });
    let widths: Vec<i32> = widths.collect();
    builder.set_array(&format!("{arch}.feed_forward_length"), widths)?;

    // Only a part of each head of full layers is rotated.
    let share = config.full_rope("partial_rotary_factor")?.unwrap_or(1.0);
    let pairs = full as usize / 2;
    let turning = ((share * full as f32) as usize / 2).min(pairs);
    let mut factors = vec![1.0; turning];
    factors.resize(pairs.min(1 << 16), HUGE);
    Ok(RopeTensors {
        tensors: [("rope_freqs.weight", factors)].into(),
    })
}

/// The point below which this share of a normal distribution lies, found by halving an interval.
fn quantile(share: f32) -> f32 {
    if share <= 0.0 {
        return f32::NEG_INFINITY;
    }
    let share = f64::from(share);
    let below = |x: f64| 0.5 * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2);
    // The function rises.
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..48 {
        let middle = 0.5 * (low + high);
        if below(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    high as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (share, expected) in [(0.95, 1.644_853_6), (0.5, 0.0), (0.1, -1.281_551_6)] {
            assert!((quantile(share) - expected).abs() < 1e-6, "{share}");
        }
        assert_eq!(quantile(0.0), f32::NEG_INFINITY);
    }
}
