//! Positions as learned numbers for buckets of distances, as T5 has them.

use super::keys::Keys;
use super::layers::Shared;
use crate::error::LoadError;
use crate::spec::Position;

/// A table by distance stays small.
const MAX_BUCKETS: u32 = 1 << 12;
const MAX_DISTANCE: u32 = 1 << 16;

/// Buckets of distances between positions.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BucketConfig {
    /// How many there are.
    pub count: usize,
    /// The distance from which on all are in the last.
    pub distance: usize,
}

/// The buckets of distances, if the model has them.
pub(super) fn buckets(
    keys: &Keys<'_, '_>,
    shared: &Shared<'_>,
) -> Result<Option<BucketConfig>, LoadError> {
    /// Where the metadata says nothing, as no converter but ours does.
    const DISTANCE: usize = 128;
    if shared.spec.position != Position::Buckets {
        return Ok(None);
    }
    let name = "attention.relative_buckets_count";
    let count = keys.required_size(name, MAX_BUCKETS)?;
    let distance = keys.size("attention.relative_max_distance", MAX_DISTANCE)?;
    let distance = distance.unwrap_or(DISTANCE);
    if count < 4 || distance <= count {
        return Err(LoadError::BadValue {
            key: keys.key(name),
            value: count as f64,
            needs: "at least 4 and below the largest distance",
        });
    }
    Ok(Some(BucketConfig { count, distance }))
}
