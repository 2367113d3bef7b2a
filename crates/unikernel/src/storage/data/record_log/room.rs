//! Making room at the ring's beginning.

use super::{Content, New, RecordLog};
use crate::storage::StorageError;
use crate::storage::data::format::{Kind, SUPERBLOCKS, Superblock};

/// After giving up records so often, which is several times around the ring, there is no room.
const ROUNDS: usize = 64;

impl RecordLog {
    /// Units that can be written. One stays free, so that a full ring is not taken for an empty one.
    pub(super) fn free(&self) -> u64 {
        (self.tail + self.units - self.head - 1) % self.units
    }

    /// Units that a record takes, with those before the ring's end that it does not fit into.
    fn cost(&self, units: u64) -> u64 {
        let rest = self.units - self.head;
        if units > rest { rest + units } else { units }
    }

    /// Gives up old records until there is room for one of so many units, its commit, and to make room once more. Says
    /// whether that could be done.
    pub(super) fn make_room(&mut self, units: u64) -> Result<bool, StorageError> {
        for _ in 0..ROUNDS {
            let wanted = self.cost(units) + 2 * self.largest() + 4;
            let missing = wanted.saturating_sub(self.free());
            if missing == 0 {
                return Ok(true);
            }
            self.give_up(missing.max(self.units / 16))?;
        }
        Ok(false)
    }

    /// Gives up the oldest records, so that some more units are free.
    fn give_up(&mut self, goal: u64) -> Result<(), StorageError> {
        let (mut gained, mut moved) = (0, 0);
        // What is added meanwhile is none of the oldest.
        for _ in 0..self.records.len() {
            let Some(oldest) = self.records.front().filter(|_| gained < goal) else {
                break;
            };
            let (at, units) = (oldest.at, oldest.units);
            let key = oldest.key;
            let entry = key.and_then(|key| self.index.get(&key)).copied();
            if let Some((key, entry)) = key.zip(entry.filter(|entry| entry.at == at)) {
                let again = entry.used && moved < self.units / 8;
                if entry.kind == Kind::Saved || again {
                    if self.cost(units) + 2 > self.free() {
                        break;
                    }
                    // A damaged one is found to be so when somebody wants it.
                    self.append(&New {
                        kind: entry.kind,
                        key,
                        units,
                        bytes: entry.bytes,
                        checksum: entry.checksum,
                        content: Content::Record(at),
                    })?;
                    moved += units;
                } else {
                    self.forget(&key);
                    gained += units;
                }
            } else {
                gained += units;
            }
            self.records.pop_front();
        }
        self.write_commit()?;
        self.mark_tail()
    }

    /// Writes down where the ring begins. Only after that may anything be written before it.
    pub(super) fn mark_tail(&mut self) -> Result<(), StorageError> {
        let here = (self.head, self.sequence);
        let oldest = self.records.front();
        let (tail, sequence) = oldest.map_or(here, |oldest| (oldest.at, oldest.sequence));
        self.generation += 1;
        let superblock = Superblock {
            generation: self.generation,
            log: self.log,
            units: self.units,
            tail,
            sequence,
        };
        let place = self.generation % SUPERBLOCKS;
        self.area.write(place, &superblock.write())?;
        self.area.flush()?;
        self.tail = tail;
        Ok(())
    }
}
