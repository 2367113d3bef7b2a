//! Mixtures of experts in the metadata.

use super::MAX_SIZE;
use super::keys::Keys;
use crate::error::LoadError;
use crate::spec::{ArchSpec, Experts, Routing};

/// Experts.
#[derive(Copy, Clone, Debug)]
pub struct ExpertConfig {
    /// How many there are.
    pub count: usize,
    /// How many see a token.
    pub used: usize,
    /// The width of one.
    pub ffn: usize,
    /// The width of the one that sees every token; 0 if there is none.
    pub shared_ffn: usize,
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
    let ffn = match keys.size("expert_feed_forward_length", MAX_SIZE)? {
        Some(ffn) => ffn,
        None => {
            let ffn = keys.uniform_size("feed_forward_length", layers, MAX_SIZE)?;
            keys.required("expert_feed_forward_length", ffn)?
        }
    };
    let renormalize = keys
        .metadata
        .bool(&keys.key("expert_weights_norm"))?
        .unwrap_or(routing.renormalize);
    Ok(Some(ExpertConfig {
        count,
        used,
        ffn,
        shared_ffn: if routing.shared {
            keys.required_size("expert_shared_feed_forward_length", MAX_SIZE)?
        } else {
            0
        },
        routing: Routing {
            renormalize,
            ..routing
        },
        scale: keys.positive("expert_weights_scale")?.unwrap_or(1.0),
    }))
}
