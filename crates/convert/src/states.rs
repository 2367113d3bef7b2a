//! The sizes of recurrences and of latent attention: what a config says of them, under GGUF's keys.

use alloc::format;
use alloc::vec::Vec;

use strata_weights::gguf::Builder;

use crate::config::{HfConfig, bad};
use crate::error::ConvertError;
use crate::family::{Family, Latent, States};
use crate::row_order::{LatentCounts, StateCounts};

const WIDTH: &[&str] = &["hidden_size", "d_model"];
const GROUPS: &[&str] = &["n_groups", "mamba_n_groups"];
const STATE: &[&str] = &["state_size", "mamba_d_state", "ssm_state_size"];
const TAPS: &[&str] = &["conv_kernel", "mamba_d_conv", "linear_conv_kernel_dim"];
const STEP_HEADS: &[&str] = &["mamba_n_heads", "mamba_num_heads", "num_heads"];
const STEP_HEAD_SIZE: &[&str] = &["mamba_d_head", "mamba_head_dim", "head_dim"];
const ROTATED: &[&str] = &["qk_rope_head_dim"];
const PLAIN: &[&str] = &["qk_nope_head_dim"];

/// A number that configs may call "auto".
fn stated(config: &HfConfig, keys: &[&'static str]) -> Result<Option<u32>, ConvertError> {
    match config.get(keys) {
        Some((_, value)) if value.as_str() == Some("auto") => Ok(None),
        _ => config.u32(keys),
    }
}

/// What rows of recurrent layers are counted by.
pub(crate) fn counts(config: &HfConfig, family: &Family) -> Result<StateCounts, ConvertError> {
    Ok(match family.states {
        States::Never | States::Mamba | States::KimiDelta | States::Lightning | States::RgLru => {
            StateCounts::default()
        }
        States::Mamba2 => StateCounts {
            groups: config.required_u32(GROUPS)? as usize,
            ..StateCounts::default()
        },
        States::DeltaNet => {
            let key = "linear_num_key_heads";
            let keys = config.required_u32(&[key])?;
            let values = config.required_u32(&["linear_num_value_heads"])?;
            if keys == 0 || !values.is_multiple_of(keys) {
                return Err(bad(key, &keys.into()));
            }
            StateCounts {
                groups: keys as usize,
                each: (values / keys) as usize,
                key_size: config.required_u32(&["linear_key_head_dim"])? as usize,
                value_size: config.required_u32(&["linear_value_head_dim"])? as usize,
            }
        }
    })
}

/// What rows of latent attention are counted by.
pub(crate) fn latent(config: &HfConfig, family: &Family) -> Result<LatentCounts, ConvertError> {
    if family.latent == Latent::Never {
        return Ok(LatentCounts::default());
    }
    Ok(LatentCounts {
        plain: config.required_u32(PLAIN)? as usize,
        value: config.required_u32(&["v_head_dim"])? as usize,
    })
}

/// Channels of a state space.
fn inner(config: &HfConfig, family: &Family) -> Result<u32, ConvertError> {
    if let Some(inner) = config.u32(&["mamba_d_ssm"])? {
        return Ok(inner);
    }
    if family.states == States::Mamba2 {
        let heads = config.required_u32(STEP_HEADS)?;
        return Ok(heads.saturating_mul(config.required_u32(STEP_HEAD_SIZE)?));
    }
    let expand = config.u32(&["mamba_expand", "expand"])?.unwrap_or(2);
    Ok(config.required_u32(WIDTH)?.saturating_mul(expand))
}

/// Writes the keys of recurrent layers.
pub(crate) fn write(
    builder: &mut Builder,
    config: &HfConfig,
    family: &Family,
    nextn: usize,
) -> Result<(), ConvertError> {
    let arch = family.arch;
    let mut set = |name: &str, value: u32| {
        let set = builder.set(&format!("{arch}.ssm.{name}"), value);
        set.map(|_| ())
    };
    match family.states {
        States::Never => return Ok(()),
        States::KimiDelta => {
            let size = config.required_u32(&["linear_head_dim"])?;
            set("conv_kernel", config.u32(TAPS)?.unwrap_or(4))?;
            builder.set(&format!("{arch}.kda.head_dim"), size)?;
            return Ok(());
        }
        States::RgLru => return rg_lru(builder, config, arch),
        States::Lightning => {
            lightning(builder, config, arch)?;
            return interval(builder, config, arch, nextn);
        }
        States::Mamba => {
            let usual = config.required_u32(WIDTH)?.div_ceil(16);
            let rank = stated(config, &["time_step_rank", "mamba_dt_rank"])?;
            set("time_step_rank", rank.unwrap_or(usual))?;
        }
        States::Mamba2 => {
            set("time_step_rank", config.required_u32(STEP_HEADS)?)?;
            set("group_count", config.required_u32(GROUPS)?)?;
        }
        States::DeltaNet => {
            let counts = counts(config, family)?;
            let heads = (counts.groups * counts.each) as u32;
            set("time_step_rank", heads)?;
            set("group_count", counts.groups as u32)?;
            set("inner_size", heads.saturating_mul(counts.value_size as u32))?;
            set("state_size", counts.key_size as u32)?;
        }
    }
    set("conv_kernel", config.u32(TAPS)?.unwrap_or(4))?;
    if family.states != States::DeltaNet {
        set("inner_size", inner(config, family)?)?;
        set("state_size", config.required_u32(STATE)?)?;
        return Ok(());
    }
    interval(builder, config, arch, nextn)
}

/// Writes which layers are recurrent: all but the last of every so many; or a list, where that is not so, in which those after
/// the last attend.
fn interval(
    builder: &mut Builder,
    config: &HfConfig,
    arch: &str,
    nextn: usize,
) -> Result<(), ConvertError> {
    let attends = config.attention_layers()?;
    let every = attends.iter().position(|&attends| attends);
    let every = every.map_or(attends.len() + 1, |first| first + 1);
    let regular = |(layer, &attends): (usize, &bool)| attends == (layer + 1).is_multiple_of(every);
    builder.set(&format!("{arch}.full_attention_interval"), every as u32)?;
    if !attends.iter().enumerate().all(regular) {
        let key = format!("{arch}.attention.recurrent_layers");
        let recurrent = attends.iter().map(|attends| !attends);
        let recurrent: Vec<bool> = recurrent.chain((0..nextn).map(|_| false)).collect();
        builder.set_array(&key, recurrent)?;
    }
    Ok(())
}

/// The keys of linear recurrent units.
fn rg_lru(builder: &mut Builder, config: &HfConfig, arch: &str) -> Result<(), ConvertError> {
    let width = config.required_u32(WIDTH)?;
    let channels = config.u32(&["lru_width"])?.unwrap_or(width);
    let heads = config.required_u32(&["num_attention_heads"])?;
    for (name, value) in [
        ("inner_size", channels),
        ("group_count", heads),
        ("conv_kernel", config.u32(&["conv1d_width"])?.unwrap_or(4)),
    ] {
        builder.set(&format!("{arch}.ssm.{name}"), value)?;
    }
    // Embeddings are multiplied by a root that was rounded to 16 bits.
    let root = libm::sqrtf(width as f32).to_bits();
    let rounded = (root + 0x7fff + (root >> 16 & 1)) & 0xffff_0000;
    let scale = f32::from_bits(rounded);
    builder.set(&format!("{arch}.embedding_scale"), scale)?;
    Ok(())
}

/// What MiniMax-01 multiplies residuals by; GGUF has one number for all.
fn lightning(builder: &mut Builder, config: &HfConfig, arch: &str) -> Result<(), ConvertError> {
    let mut scale = None;
    for keys in [
        &["full_attn_alpha_factor", "layernorm_full_attention_alpha"],
        &[
            "linear_attn_alpha_factor",
            "layernorm_linear_attention_alpha",
        ],
        &["mlp_alpha_factor", "layernorm_mlp_alpha"],
    ] {
        let own = config.f32(keys)?.unwrap_or(1.0);
        if *scale.get_or_insert(own) != own {
            return Err(bad(keys[0], &own.into()));
        }
    }
    builder.set(&format!("{arch}.residual_scale"), scale.unwrap_or(1.0))?;
    Ok(())
}

/// Writes the keys of keys and values that are made from a short vector.
pub(crate) fn write_latent(
    builder: &mut Builder,
    config: &HfConfig,
    family: &Family,
) -> Result<(), ConvertError> {
    let counts = latent(config, family)?;
    let rank = config.required_u32(&["kv_lora_rank"])?;
    let rotated = config.required_u32(ROTATED)?;
    let query = rotated.saturating_add(counts.plain as u32);
    let arch = family.arch;
    let mut set = |name: &str, value: u32| {
        let set = builder.set(&format!("{arch}.attention.{name}"), value);
        set.map(|_| ())
    };
    if let Some(rank) = config.u32(&["q_lora_rank"])? {
        set("q_lora_rank", rank)?;
    }
    set("kv_lora_rank", rank)?;
    match family.latent {
        Latent::Compressed => {
            if family.states == States::Never {
                set("head_count_kv", 1)?;
            }
            set("key_length", rank.saturating_add(rotated))?;
            set("value_length", rank)?;
            set("key_length_mla", query)?;
            set("value_length_mla", counts.value as u32)?;
            if family.states != States::Never {
                let layers = config.attention_layers()?;
                let keys: Vec<i32> = layers.into_iter().map(i32::from).collect();
                let key = format!("{arch}.attention.head_count_kv");
                builder.set_array(&key, keys)?;
            }
        }
        Latent::Expanded | Latent::Never => {
            let heads = config.required_u32(&["num_attention_heads"])?;
            set("head_count_kv", heads)?;
            set("key_length", query)?;
            set("value_length", counts.value as u32)?;
        }
    }
    Ok(())
}

/// The factors of the rows of a state space's first matrix (Falcon-H1): gates, x, B, C and steps.
pub(crate) fn multipliers(config: &HfConfig) -> Result<Vec<(usize, f32)>, ConvertError> {
    let inner = config.required_u32(&["mamba_d_ssm"])? as usize;
    let groups = config.required_u32(GROUPS)? as usize * config.required_u32(STATE)? as usize;
    let heads = config.required_u32(STEP_HEADS)? as usize;
    let all = config.f32(&["ssm_in_multiplier"])?.unwrap_or(1.0);
    let each = config.numbers("ssm_multipliers")?;
    let mut end = 0;
    let sizes = [inner, inner, groups, groups, heads]
        .into_iter()
        .enumerate();
    let factors = sizes.map(|(part, size)| {
        end += size;
        (end, all * each.get(part).copied().unwrap_or(1.0))
    });
    Ok(factors.collect())
}
