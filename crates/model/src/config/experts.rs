//! Mixtures of experts in the metadata.

use super::MAX_SIZE;
use super::keys::Keys;
use crate::error::LoadError;
use crate::spec::{ArchSpec, ExpertGate, Experts, Routing};

/// Experts.
#[derive(Copy, Clone, Debug)]
pub struct ExpertConfig {
    /// How many there are.
    pub count: usize,
    /// How many see a token.
    pub used: usize,
    /// The width of one, in the layer where they are widest.
    pub ffn: usize,
    /// Groups that they are chosen from, and how many of those.
    pub groups: Option<(usize, usize)>,
    /// How they are weighed.
    pub routing: Routing,
    /// What their sum is multiplied by.
    pub scale: f32,
}

pub(super) fn experts(
    keys: &Keys<'_, '_>,
    spec: &ArchSpec,
    layers: usize,
) -> Result<Option<ExpertConfig>, LoadError> {
    let count = match keys.u32("expert_count")? {
        None | Some(0) => None,
        Some(count) => Some(count as usize),
    };
    let (routing, count) = match (spec.experts, count) {
        (Experts::IfCounted(routing) | Experts::Always(routing), Some(count)) => (routing, count),
        (Experts::Always(_), None) => {
            return Err(LoadError::MissingKey {
                key: keys.key("expert_count"),
            });
        }
        (Experts::IfCounted(_) | Experts::Never, None) => return Ok(None),
        (Experts::Never, Some(count)) => {
            return Err(LoadError::BadValue {
                key: keys.key("expert_count"),
                value: count as f64,
                needs: "absent in this architecture",
            });
        }
    };
    let used = keys.required_size("expert_used_count", 64)?;
    if used > count || count > 4096 {
        return Err(LoadError::BadValue {
            key: keys.key("expert_count"),
            value: count as f64,
            needs: "at least expert_used_count and at most 4096",
        });
    }
    let ffn = match widths(keys, layers)? {
        // Layers without experts may have a width of 0.
        Some(widths) => widths.into_iter().max().unwrap_or(0).max(1),
        None => {
            let ffn = keys.uniform_size("feed_forward_length", layers, MAX_SIZE)?;
            keys.required("expert_feed_forward_length", ffn)?
        }
    };
    let renormalize = keys
        .metadata
        .bool(&keys.key("expert_weights_norm"))?
        .unwrap_or(routing.renormalize);
    let gate = match keys.u32("expert_gating_func")? {
        None | Some(0) => routing.gate,
        Some(1) => ExpertGate::Softmax,
        Some(2) => ExpertGate::Sigmoid,
        Some(3) => ExpertGate::SoftmaxOfChosen,
        Some(other) => {
            return Err(LoadError::BadValue {
                key: keys.key("expert_gating_func"),
                value: f64::from(other),
                needs: "1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen)",
            });
        }
    };
    let soft_cap = keys.above_zero("router_logit_softcapping")?;
    Ok(Some(ExpertConfig {
        count,
        used,
        ffn,
        groups: groups(keys, count, used)?,
        routing: Routing {
            gate,
            renormalize,
            soft_cap: soft_cap.or(routing.soft_cap),
            ..routing
        },
        scale: keys.above_zero("expert_weights_scale")?.unwrap_or(1.0),
    }))
}

/// The widths of all layers' experts, where the file has them.
pub(super) fn widths(
    keys: &Keys<'_, '_>,
    layers: usize,
) -> Result<Option<alloc::vec::Vec<usize>>, LoadError> {
    keys.sizes("expert_feed_forward_length", layers, 0..=MAX_SIZE)
}

/// The groups that experts are chosen from, where there are several.
fn groups(
    keys: &Keys<'_, '_>,
    experts: usize,
    chosen: usize,
) -> Result<Option<(usize, usize)>, LoadError> {
    let name = "expert_group_count";
    let count = keys.u32(name)?.unwrap_or(0) as usize;
    if count < 2 {
        return Ok(None);
    }
    let used = keys.required_size("expert_group_used_count", 4096)?;
    let size = experts / count;
    if size * count != experts || size < 2 || used > count || used * size < chosen {
        return Err(LoadError::BadValue {
            key: keys.key(name),
            value: count as f64,
            needs: "even shares of the experts, enough of which are used",
        });
    }
    Ok(Some((count, used)))
}
