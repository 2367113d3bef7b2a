//! Relative positions in buckets (<https://arxiv.org/abs/1910.10683>): a learned number for each head and bucket of distances
//! is added to scores. Small distances have a bucket each, larger ones share them, wider and wider.

use crate::config::BucketConfig;
use crate::error::LoadError;
use crate::spec::Role;
use crate::tensors::{Tensors, block_name};
use alloc::vec::Vec;

/// A layer's numbers.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    /// The bucket of each distance from a token, −`distance` to `distance`.
    of: Vec<u16>,
    distance: usize,
    /// (heads, buckets).
    numbers: Vec<f32>,
    count: usize,
}

impl Buckets {
    /// A layer's own, or those of the first layer, which others share.
    pub(super) fn load(
        tensors: &mut Tensors<'_, '_>,
        role: Role,
        config: BucketConfig,
        (heads, layer): (usize, usize),
    ) -> Result<Self, LoadError> {
        let BucketConfig { count, distance } = config;
        let own = block_name(layer, "attn_rel_b", "weight");
        let name = if tensors.has(&own) {
            own
        } else {
            block_name(0, "attn_rel_b", "weight")
        };
        let stored = tensors.vector(&name, &[heads as u64, count as u64])?;
        let by_head = (0..heads).flat_map(|head| stored.iter().skip(head).step_by(heads));
        let reach = distance as i64;
        Ok(Self {
            of: (-reach..=reach)
                .map(|offset| bucket(role, config, offset) as u16)
                .collect(),
            distance,
            numbers: by_head.copied().collect(),
            count,
        })
    }

    /// Adds to a head's scores of a token for keys from position `first` on.
    pub(super) fn add(&self, head: usize, position: usize, first: usize, scores: &mut [f32]) {
        let numbers = &self.numbers[head * self.count..][..self.count];
        for (j, score) in scores.iter_mut().enumerate() {
            let offset = (first + j + self.distance).saturating_sub(position);
            let bucket = self.of[offset.min(2 * self.distance)];
            *score += numbers[usize::from(bucket)];
        }
    }
}

/// The bucket of keys that are `offset` positions after a token.
fn bucket(role: Role, config: BucketConfig, offset: i64) -> usize {
    // What reads in both directions has half of the buckets for each.
    let (count, first) = match role {
        Role::Encoder if offset > 0 => (config.count / 2, config.count / 2),
        Role::Encoder => (config.count / 2, 0),
        Role::Decoder => (config.count, 0),
    };
    let away = match role {
        Role::Encoder => offset.unsigned_abs() as usize,
        Role::Decoder => offset.min(0).unsigned_abs() as usize,
    };
    let exact = count / 2;
    if away < exact {
        return first + away;
    }
    let all = libm::log(config.distance as f64 / exact as f64) as f32;
    let part = libm::logf(away as f32 / exact as f32) / all;
    let shared = (part * (count - exact) as f32) as usize;
    first + (exact + shared).min(count - 1)
}

#[cfg(test)]
mod tests {
    use super::bucket;
    use crate::config::BucketConfig;
    use crate::spec::Role;

    #[test]
    fn far_distances_share_buckets() {
        let config = BucketConfig {
            count: 32,
            distance: 128,
        };
        let of = |role, offset| bucket(role, config, offset);
        let both = [-1000, -128, -64, -16, -8, -1, 0, 1, 8, 16, 64, 1000];
        let buckets = both.map(|offset| of(Role::Encoder, offset));
        assert_eq!(buckets, [15, 15, 14, 10, 8, 1, 0, 17, 24, 26, 30, 31]);
        let back = [5, 0, -1, -15, -16, -32, -127, -128, -1000];
        let buckets = back.map(|offset| of(Role::Decoder, offset));
        assert_eq!(buckets, [0, 0, 1, 15, 16, 21, 31, 31, 31]);
    }
}
