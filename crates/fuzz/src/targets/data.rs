//! Data partitions, on which the bare machine keeps pages and texts.

use crate::outcome::magnitude;
use crate::{Outcome, Target};
use std::sync::Arc;
use strata_image::DATA_PARTITION;
use strata_image::reader::Partition;
use strata_unikernel::drivers::{BlockDevice, DeviceError, Disk};
use strata_unikernel::machine::lock::Lock;
use strata_unikernel::storage::data::{Area, RecordLog};
use strata_weights::crc32;

const SECTOR: usize = 512;
const UNIT: usize = 4096;
/// Units of the partition; what is not in the input is zero.
const UNITS: usize = 140;
/// Keys of which what they hold is read.
const KEYS: usize = 64;

pub(super) const DATA: Target = Target {
    made_seeds: partitions,
    words: &["STRATLOG", "STRATREC"],
    ..Target::new(
        "data",
        "a data partition to the bare machine's log of records, which is read, added to and read again",
        data,
    )
};

struct Memory {
    bytes: Vec<u8>,
}

impl Memory {
    fn range(&self, block: u64, bytes: usize) -> Result<std::ops::Range<usize>, DeviceError> {
        let start = (block as usize).saturating_mul(SECTOR);
        let end = start.saturating_add(bytes);
        let inside = end <= self.bytes.len();
        inside
            .then_some(start..end)
            .ok_or(DeviceError::Range { block, bytes })
    }
}

impl BlockDevice for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }
    fn block_bytes(&self) -> usize {
        SECTOR
    }
    fn blocks(&self) -> u64 {
        (self.bytes.len() / SECTOR) as u64
    }
    fn read(&mut self, block: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let range = self.range(block, out.len())?;
        out.copy_from_slice(&self.bytes[range]);
        Ok(())
    }
    fn write(&mut self, block: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let range = self.range(block, bytes.len())?;
        self.bytes[range].copy_from_slice(bytes);
        Ok(())
    }
}

fn open(disk: &Arc<Lock<Memory>>) -> Result<RecordLog, String> {
    let bytes = (UNITS * UNIT) as u64;
    let part = Partition {
        kind: DATA_PARTITION,
        start: 0,
        bytes,
    };
    let shared: Disk = Arc::<Lock<Memory>>::clone(disk);
    let area = Area::new(shared, part).ok_or("no area")?;
    let (log, _) = RecordLog::open(area, 1).map_err(|error| error.to_string())?;
    Ok(log)
}

/// Makes sums right, and has each record name the one before it, so that what is behind them is reached.
fn mend(bytes: &mut [u8]) {
    let mut previous = 0u32;
    for unit in bytes.chunks_exact_mut(UNIT) {
        let sum = match &unit[..8] {
            b"STRATLOG" => 56,
            b"STRATREC" => {
                unit[32..36].copy_from_slice(&previous.to_le_bytes());
                80
            }
            _ => continue,
        };
        let made = crc32(&unit[..sum]);
        unit[sum..sum + 4].copy_from_slice(&made.to_le_bytes());
        if sum == 80 {
            previous = made;
        }
    }
}

fn data(bytes: &[u8]) -> Outcome {
    let mut content = bytes.to_vec();
    content.resize(UNITS * UNIT, 0);
    mend(&mut content);
    let disk = Arc::new(Lock::new(Memory { bytes: content }));
    let mut log = match open(&disk) {
        Ok(log) => log,
        Err(error) => return Outcome::refused(&error),
    };
    let keys: Vec<_> = log.keys().copied().take(KEYS).collect();
    let mut whole = 0;
    for key in &keys {
        let mut out = Vec::new();
        whole += usize::from(log.get(key, &mut out));
    }
    let text = [3; 5000];
    let saved = log.save(&[1; 32], &text).is_ok();
    for number in 2..20u8 {
        // There may be no room, if somebody says that all of it was saved.
        let _ = log.put(&[number; 32], &[number; 20_000]);
    }
    let committed = log.commit().is_ok();
    assert!(committed, "the disk does not fail");
    drop(log);
    let mut out = Vec::new();
    let found = open(&disk).is_ok_and(|mut log| log.get(&[1; 32], &mut out));
    assert_eq!(found, saved, "what was saved is there");
    assert!(!saved || out == text);
    Outcome::taken((magnitude(keys.len()), magnitude(whole), saved))
}

/// Partitions with some records, of which the last were not committed.
fn partitions() -> Vec<Vec<u8>> {
    let disk = Arc::new(Lock::new(Memory {
        bytes: vec![0; UNITS * UNIT],
    }));
    let mut seeds = Vec::new();
    if let Ok(mut log) = open(&disk) {
        for number in 0..6u8 {
            let _ = log.put(
                &[number + 40; 32],
                &vec![number; 3000 * usize::from(number)],
            );
            let _ = log.save(&[number % 2; 32], &[number; 300]);
        }
        let _ = log.put(&[90; 32], &[9; 100]);
        seeds.push(disk.lock().bytes[..48 * UNIT].to_vec());
    }
    seeds.push(disk.lock().bytes[..6 * UNIT].to_vec());
    seeds
}
