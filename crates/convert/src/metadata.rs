//! A config's numbers under GGUF's keys.

use alloc::format;

use serde_json::Value;
use strata_weights::gguf::Builder;

use crate::config::{HfConfig, LayerKind, bad, quoted};
use crate::error::ConvertError;
use crate::family::{
    Absent, COMMON, Demand, Extras, Family, FfnWidth, HeadSize, Kind, KvHeads, Latent, Literal,
    Pair, Reading, Window,
};
use crate::gemma;
use crate::mixed_layers;
use crate::rope::{self, RopeTensors};
use crate::row_order::HeadCounts;
use crate::states;

/// GGUF's number for the pooling of models with a classifier.
const RANK: u32 = 4;

/// How many experts there are.
const EXPERT_COUNT: &[&str] = &[
    "n_routed_experts",
    "num_local_experts",
    "num_experts",
    "moe_num_experts",
];

/// Checks what a config demands of a model.
pub(crate) fn check(config: &HfConfig, family: &Family) -> Result<(), ConvertError> {
    for &Demand { key, allowed } in family.demands {
        if let Some((_, value)) = config.get(&[key])
            && !allowed.iter().any(|literal| is(literal, value))
        {
            return Err(ConvertError::Unsupported {
                key,
                found: quoted(value),
            });
        }
    }
    Ok(())
}

fn is(literal: &Literal, value: &Value) -> bool {
    match literal {
        Literal::Bool(truth) => value.as_bool() == Some(*truth),
        Literal::Number(number) => value.as_f64() == Some(*number),
        Literal::Text(text) => value.as_str() == Some(text),
        Literal::EmptyList => value.as_array().is_some_and(|list| list.is_empty()),
    }
}

/// Heads of queries, and of keys and values.
pub(crate) fn heads(config: &HfConfig, family: &Family) -> Result<HeadCounts, ConvertError> {
    let queries = match family.kv_heads {
        KvHeads::Never => 0,
        _ => config.required_u32(&["num_attention_heads", "n_head", "n_heads", "num_heads"])?,
    };
    let keys = match family.kv_heads {
        KvHeads::Never => 0,
        KvHeads::Stated | KvHeads::AttentionLayers => {
            let keys = config.u32(&["num_key_value_heads", "kv_n_heads"])?;
            keys.unwrap_or(queries)
        }
        KvHeads::AsQueries => queries,
        KvHeads::Falcon => {
            let grouped = config.bool(&["new_decoder_architecture"])?;
            if grouped.unwrap_or(false) {
                config.required_u32(&["num_kv_heads", "n_head_kv"])?
            } else if config.bool(&["multi_query"])?.unwrap_or(true) {
                1
            } else {
                queries
            }
        }
    };
    Ok(HeadCounts {
        queries: queries as usize,
        keys: keys as usize,
        padding: match family.reading {
            Reading::Forward | Reading::Source => 0,
            Reading::Whole { padding, .. } => padding as usize,
        },
        experts: config.u32(EXPERT_COUNT)?.unwrap_or(0) as usize,
        states: states::counts(config, family)?,
        latent: states::latent(config, family)?,
    })
}

/// Writes the sampling settings of `generation_config.json` under llama.cpp's keys. 1 turns a temperature, a `top_p` or a
/// penalty off, and is a setting like any other.
fn sampling(builder: &mut Builder, config: &HfConfig) -> Result<(), ConvertError> {
    for (from, to) in [
        ("temperature", "temp"),
        ("top_p", "top_p"),
        ("min_p", "min_p"),
        ("repetition_penalty", "penalty_repeat"),
    ] {
        if let Some(value) = config.generation(from) {
            builder.set(&format!("general.sampling.{to}"), value as f32)?;
        }
    }
    if let Some(top_k) = config.generation("top_k") {
        builder.set("general.sampling.top_k", top_k as i32)?;
    }
    Ok(())
}

/// Writes what every reader of the architecture needs, and gives the tensors that rotary positions want. So many layers after the
/// last predict the token after the next.
pub(crate) fn write(
    builder: &mut Builder,
    config: &HfConfig,
    family: &Family,
    nextn: usize,
) -> Result<RopeTensors, ConvertError> {
    sampling(builder, config)?;
    let arch = family.arch;
    let pairs = || family.pairs.iter().flat_map(|pairs| pairs.iter());
    let HeadCounts {
        queries,
        keys,
        padding,
        ..
    } = heads(config, family)?;
    // A family's own pair comes before that of all.
    let common = COMMON.iter().filter(|pair| {
        let mut own = pairs();
        !own.any(|own| own.to == pair.to)
    });
    for pair in common.chain(pairs()) {
        let counted = nextn > 0 && pair.to == "block_count";
        if !counted && (padding == 0 || pair.to != "context_length") {
            write_pair(builder, config, arch, pair)?;
        }
    }
    if nextn > 0 {
        let all = config.layers()? + nextn;
        builder.set(&format!("{arch}.block_count"), all as u32)?;
        builder.set(&format!("{arch}.nextn_predict_layers"), nextn as u32)?;
    }
    if config.classifies() && family.reading == Reading::Forward {
        builder.set(&format!("{arch}.pooling_type"), RANK)?;
        let labels = config.labels();
        if !labels.is_empty() {
            let key = format!("{arch}.classifier.output_labels");
            builder.set_array(&key, labels.iter().map(|label| label.as_str()))?;
        }
    }
    if let Reading::Whole { pooling, .. } = family.reading {
        whole(builder, config, arch, pooling, padding as u32)?;
    }
    feed_forward(builder, config, family)?;
    shared_experts(builder, config, family)?;
    let kv_heads = format!("{arch}.attention.head_count_kv");
    match family.kv_heads {
        _ if family.latent != Latent::Never => states::write_latent(builder, config, family)?,
        _ if family.extras == Extras::Gemma4 => {}
        KvHeads::AsQueries | KvHeads::Never => {}
        KvHeads::Stated | KvHeads::Falcon => {
            builder.set(&kv_heads, keys as u32)?;
        }
        KvHeads::AttentionLayers => {
            let layers = config.attention_layers()?;
            let keys = layers
                .iter()
                .map(|&attends| keys as i32 * i32::from(attends));
            builder.set_array(&kv_heads, keys)?;
        }
    }
    let stacked = config.vision().and_then(|eyes| {
        let layers = eyes.get("deepstack_visual_indexes")?.as_array()?;
        u32::try_from(layers.len()).ok()
    });
    if let Some(stacked) = stacked.filter(|_| arch.starts_with("qwen3vl")) {
        builder.set(&format!("{arch}.n_deepstack_layers"), stacked)?;
    }
    let extra = gemma::write(builder, config, family)?;
    mixed_layers::write(builder, config, family)?;
    states::write(builder, config, family, nextn)?;
    if family.kv_heads == KvHeads::Never {
        return Ok(RopeTensors::default());
    }
    if family.latent != Latent::Never {
        return rope::write(builder, config, family);
    }
    let width = config.required_u32(&["hidden_size", "n_embd", "d_model"])?;
    let size = config.head_size()?;
    let odd = u64::from(size) * queries as u64 != u64::from(width);
    let always = family.head_size == HeadSize::Always;
    if (odd || always) && family.extras != Extras::Gemma4 {
        builder.set(&format!("{arch}.attention.key_length"), size)?;
        builder.set(&format!("{arch}.attention.value_length"), size)?;
    }
    // Gemma's scale, where it is not that of the head's size.
    if let Some(scalar) = config.f32(&["query_pre_attn_scalar"])?
        && scalar != size as f32
        && scalar > 0.0
    {
        let scale = 1.0 / libm::sqrtf(scalar);
        builder.set(&format!("{arch}.attention.scale"), scale)?;
    }
    window(builder, config, family)?;
    for (key, text) in family.texts {
        builder.set(&format!("{arch}.{key}"), *text)?;
    }
    let mut rope = rope::write(builder, config, family)?;
    rope.tensors.extend(extra.tensors);
    Ok(rope)
}

/// The inner width of the feed-forward network.
fn feed_forward(
    builder: &mut Builder,
    config: &HfConfig,
    family: &Family,
) -> Result<(), ConvertError> {
    let key = format!("{}.feed_forward_length", family.arch);
    if family.ffn == FfnWidth::Paired {
        return Ok(());
    }
    if family.ffn == FfnWidth::Halved {
        builder.set(&key, config.required_u32(&["intermediate_size"])? / 2)?;
        return Ok(());
    }
    if family.ffn == FfnWidth::NetworkLayers {
        let kinds = config.layer_kinds()?.ok_or(ConvertError::Missing {
            key: "layers_block_type",
        })?;
        let dense = config.u32(&["intermediate_size"])?.unwrap_or(0);
        let experts = config.u32(&["moe_intermediate_size"])?.unwrap_or(0);
        let lengths = kinds.into_iter().map(|kind| match kind {
            LayerKind::Network => dense as i32,
            LayerKind::Experts => experts as i32,
            LayerKind::Attention | LayerKind::Recurrent => 0,
        });
        builder.set_array(&key, lengths)?;
        return Ok(());
    }
    if family.ffn == FfnWidth::Stated {
        let stated = ["intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim"];
        if config.get(&stated).is_none() {
            let width = config.required_u32(&["hidden_size", "n_embd", "d_model"])?;
            builder.set(&key, 4 * width)?;
        }
        return Ok(());
    }
    let mut width = config.required_u32(&["block_ff_dim", "intermediate_size"])?;
    let adjusts = config.bool(&["block_auto_adjust_ff_dim"])?;
    if adjusts.unwrap_or(true) {
        let factor = config.f32(&["block_ffn_dim_multiplier"])?.unwrap_or(1.0);
        let multiple = config.u32(&["block_multiple_of"])?.unwrap_or(256);
        let exact = f64::from(factor) * (u64::from(width) * 2 / 3) as f64;
        let wide = (exact as u32).checked_next_multiple_of(multiple);
        width = wide.ok_or(ConvertError::Missing {
            key: "block_multiple_of",
        })?;
    }
    builder.set(&key, width)?;
    Ok(())
}

/// The width of the experts that see every token, where the config counts them.
fn shared_experts(
    builder: &mut Builder,
    config: &HfConfig,
    family: &Family,
) -> Result<(), ConvertError> {
    let find = |key: &str| {
        let mut pairs = family.pairs.iter().flat_map(|pairs| pairs.iter());
        pairs.find(|pair| pair.to == key)
    };
    let stated = find("expert_shared_feed_forward_length");
    let Some(count) = find("expert_shared_count").filter(|_| stated.is_none()) else {
        return Ok(());
    };
    let (count, width) = (
        config.u32(count.from)?,
        config.u32(&["moe_intermediate_size", "intermediate_size"])?,
    );
    if let (Some(count), Some(width)) = (count, width) {
        let key = format!("{}.expert_shared_feed_forward_length", family.arch);
        builder.set(&key, count.saturating_mul(width))?;
    }
    Ok(())
}

/// The keys of models that read a text as a whole.
fn whole(
    builder: &mut Builder,
    config: &HfConfig,
    arch: &str,
    pooling: u32,
    padding: u32,
) -> Result<(), ConvertError> {
    if padding > 0 {
        let positions = config.required_u32(&["max_position_embeddings"])?;
        let context = positions.saturating_sub(padding);
        builder.set(&format!("{arch}.context_length"), context)?;
    }
    builder.set(&format!("{arch}.attention.causal"), false)?;
    let pooling = match pooling {
        RANK => RANK,
        usual => config.pooling().unwrap_or(usual),
    };
    builder.set(&format!("{arch}.pooling_type"), pooling)?;
    if let Some(types) = config.u32(&["type_vocab_size"])? {
        builder.set("tokenizer.ggml.token_type_count", types)?;
    }
    Ok(())
}

/// What logits are scaled by in models that answer sources, where that does not follow from whether the output is the
/// embedding.
pub(crate) fn output_scale(
    builder: &mut Builder,
    config: &HfConfig,
    family: &Family,
    has_output: bool,
) -> Result<(), ConvertError> {
    if family.reading != Reading::Source {
        return Ok(());
    }
    let scales = match config.bool(&["scale_decoder_outputs"])? {
        Some(scales) => scales,
        None => config.bool(&["tie_word_embeddings"])?.unwrap_or(true),
    };
    if scales == has_output {
        let width = config.required_u32(&["d_model"])?;
        let scale = if scales {
            1.0 / libm::sqrtf(width as f32)
        } else {
            1.0
        };
        builder.set(&format!("{}.logit_scale", family.arch), scale)?;
    }
    Ok(())
}

fn write_pair(
    builder: &mut Builder,
    config: &HfConfig,
    arch: &str,
    pair: &Pair,
) -> Result<(), ConvertError> {
    let key = format!("{arch}.{}", pair.to);
    let default = match (config.get(pair.from), pair.absent) {
        (Some(_), _) => 0.0,
        (None, Absent::Default(default)) => default,
        (None, Absent::Layers) => config.layers()? as f64,
        (None, Absent::Skip) => return Ok(()),
        (None, Absent::Error) => {
            let key = pair.from.first().copied().unwrap_or("");
            return Err(ConvertError::Missing { key });
        }
    };
    match pair.kind {
        Kind::U32 => {
            let number = config.u32(pair.from)?;
            builder.set(&key, number.unwrap_or(default as u32))?;
        }
        Kind::F32 => {
            let number = config.f32(pair.from)?;
            builder.set(&key, number.unwrap_or(default as f32))?;
        }
        Kind::Bool => {
            let truth = config.bool(pair.from)?;
            builder.set(&key, truth.unwrap_or(default != 0.0))?;
        }
    }
    Ok(())
}

fn window(builder: &mut Builder, config: &HfConfig, family: &Family) -> Result<(), ConvertError> {
    let used = match family.window {
        Window::Never => false,
        Window::Stated | Window::Layers => true,
        Window::Used => config.bool(&["use_sliding_window"])?.unwrap_or(false),
    };
    let Some(window) = config.u32(&["sliding_window"])?.filter(|_| used) else {
        return Ok(());
    };
    // Some configs let only the layers from this one on slide, which GGUF cannot say.
    if family.window == Window::Used
        && let Some((key, value)) = config.get(&["max_window_layers"])
        && value.as_u64().ok_or_else(|| bad(key, value))? != 0
    {
        return Err(ConvertError::Unsupported {
            key,
            found: quoted(value),
        });
    }
    let key = format!("{}.attention.sliding_window", family.arch);
    let layers = config.sliding_layers();
    // A window that no layer has, which llama.cpp does not take.
    let mixed = matches!(family.extras, Extras::MixedLayers { .. });
    if mixed && layers.as_ref().is_ok_and(|layers| !layers.contains(&true)) {
        return Ok(());
    }
    builder.set(&key, window)?;
    if family.window == Window::Layers {
        let layers = layers?;
        builder.set_array(&format!("{key}_pattern"), layers)?;
    }
    Ok(())
}
