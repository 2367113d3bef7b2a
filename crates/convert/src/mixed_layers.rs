//! Families whose layers differ in more than their windows: leading dense networks, query heads, rotated dimensions.

use alloc::format;
use alloc::vec::Vec;

use serde_json::Value;
use strata_weights::gguf::Builder;

use crate::config::{HfConfig, bad, number, quoted};
use crate::error::ConvertError;
use crate::family::{ExpertGate, Extras, Family};

/// Writes what the family's config says of its layers.
pub(crate) fn write(
    builder: &mut Builder,
    config: &HfConfig,
    family: &Family,
) -> Result<(), ConvertError> {
    let Extras::MixedLayers { gate } = family.extras else {
        return Ok(());
    };
    let arch = family.arch;
    let dense = leading_dense(config)?;
    builder.set(&format!("{arch}.leading_dense_block_count"), dense)?;
    let heads = format!("{arch}.attention.head_count");
    let by_layer = config.numbers("num_attention_heads_per_layer")?;
    let first = by_layer.first();
    if by_layer.iter().all(|heads| Some(heads) == first) {
        builder.set(&heads, config.required_u32(&["num_attention_heads"])?)?;
    } else {
        let by_layer: Vec<i32> = by_layer.into_iter().map(|heads| heads as i32).collect();
        builder.set_array(&heads, by_layer)?;
    }
    let rope = config.get(&["rope_parameters"]);
    if let Some(sliding) = rope.and_then(|(_, rope)| rope.get("sliding_attention")) {
        let share = match sliding.get("partial_rotary_factor") {
            Some(share) => number("partial_rotary_factor", share)?,
            None => 1.0,
        };
        let dimensions = (config.head_size()? as f32 * share) as u32;
        builder.set(&format!("{arch}.rope.dimension_count_swa"), dimensions)?;
    }
    let stated = config.get(&["expert_selection_fn"]);
    let gate = match (stated.and_then(|(_, value)| value.as_str()), gate) {
        (Some("sigmoid"), _) => ExpertGate::Sigmoid,
        (Some("softmax"), _) => ExpertGate::SoftmaxOfChosen,
        (None, gate) if stated.is_none() => gate,
        _ => {
            let (key, value) = stated.unwrap_or(("expert_selection_fn", &Value::Null));
            return Err(bad(key, value));
        }
    };
    builder.set(&format!("{arch}.expert_gating_func"), gate as u32)?;
    Ok(())
}

/// How many layers at the beginning have a dense network; all others have experts.
fn leading_dense(config: &HfConfig) -> Result<u32, ConvertError> {
    let Some((key, value)) = config.get(&["mlp_layer_types"]) else {
        return config.required_u32(&["first_k_dense_replace"]);
    };
    let list = value.as_array().ok_or_else(|| bad(key, value))?;
    let dense = |kind: &&Value| kind.as_str() == Some("dense");
    let leading = list.iter().take_while(dense).count();
    if leading != list.iter().filter(dense).count() {
        return Err(ConvertError::Unsupported {
            key,
            found: quoted(value),
        });
    }
    Ok(leading as u32)
}
