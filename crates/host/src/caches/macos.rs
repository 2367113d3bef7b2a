//! Caches as macOS tells of them. Where there are two kinds of cores, those of the fast ones are told.

use super::Cache;
use crate::macos::number;

/// All caches of the first processor, the nearest first.
pub(super) fn read() -> Vec<Cache> {
    let found = [
        (
            1,
            "Data",
            [c"hw.perflevel0.l1dcachesize", c"hw.l1dcachesize"],
        ),
        (
            1,
            "Instruction",
            [c"hw.perflevel0.l1icachesize", c"hw.l1icachesize"],
        ),
        (
            2,
            "Unified",
            [c"hw.perflevel0.l2cachesize", c"hw.l2cachesize"],
        ),
        (
            3,
            "Unified",
            [c"hw.perflevel0.l3cachesize", c"hw.l3cachesize"],
        ),
    ];
    let cache = |(level, kind, names): (u8, &str, [_; 2])| {
        let bytes = names.into_iter().find_map(number);
        Some(Cache {
            level,
            kind: kind.into(),
            bytes: bytes.filter(|&bytes| bytes > 0)?,
            shared_by: String::new(),
        })
    };
    found.into_iter().filter_map(cache).collect()
}
