//! The log on a disk that loses, reorders and tears what was not flushed.

use super::format::{HEADER, UNIT};
use super::*;
use crate::drivers::{BlockDevice, DeviceError, Disk, check_range};
use crate::storage::StorageError;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use std::collections::BTreeMap;
use strata_image::DATA_PARTITION;
use strata_image::reader::Partition;

const SECTOR: usize = 512;
/// Sectors before the partition and behind it.
const AROUND: usize = 8;
/// What is there, and must stay.
const OTHERS: u8 = 0xa5;

/// What a disk was asked.
enum Asked {
    Write(usize, Vec<u8>),
    Flush,
}

/// A disk that remembers all that was asked.
pub(crate) struct Recorder {
    pub(crate) bytes: Vec<u8>,
    asked: Vec<Asked>,
    /// Writes until one fails.
    lasts: usize,
}

const FAILED: DeviceError = DeviceError::Failed {
    device: "fake",
    status: 7,
};

impl BlockDevice for Recorder {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn block_bytes(&self) -> usize {
        SECTOR
    }
    fn blocks(&self) -> u64 {
        (self.bytes.len() / SECTOR) as u64
    }
    fn read(&mut self, block: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        check_range(self, block, out.len())?;
        let at = block as usize * SECTOR;
        out.copy_from_slice(&self.bytes[at..at + out.len()]);
        Ok(())
    }
    fn write(&mut self, block: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        check_range(self, block, bytes.len())?;
        self.lasts = self.lasts.checked_sub(1).ok_or(FAILED)?;
        let at = block as usize * SECTOR;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.asked.push(Asked::Write(at, bytes.to_vec()));
        Ok(())
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        self.asked.push(Asked::Flush);
        Ok(())
    }
}

/// A log, and whether it is new.
type Opened = Result<(RecordLog, bool), DataError>;

/// A disk with a data partition of so many units.
pub(crate) fn blank(units: usize) -> Vec<u8> {
    let mut bytes = vec![OTHERS; 2 * AROUND * SECTOR + units * UNIT];
    bytes[AROUND * SECTOR..][..units * UNIT].fill(0);
    bytes
}

pub(crate) fn open(bytes: Vec<u8>) -> (Arc<Lock<Recorder>>, Opened) {
    let start = (AROUND * SECTOR) as u64;
    let part = Partition {
        kind: DATA_PARTITION,
        start,
        bytes: bytes.len() as u64 - 2 * start,
    };
    let disk = Arc::new(Lock::new(Recorder {
        bytes,
        asked: Vec::new(),
        lasts: usize::MAX,
    }));
    let shared: Disk = disk.clone();
    let log = RecordLog::open(Area::new(shared, part).unwrap(), 77);
    (disk, log)
}

struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// What a power cut may leave of a disk.
#[derive(Copy, Clone, PartialEq)]
enum Left {
    /// What was flushed.
    Flushed,
    /// Everything.
    All,
    /// Of what was not flushed some sectors, in any order, of which some are neither what was there nor what was written.
    Some,
}

/// Writes what a cut leaves of writes that were not flushed.
fn tear(bytes: &mut [u8], unflushed: &[Asked], left: Left, dice: &mut Dice) {
    let mut sectors: Vec<(usize, &[u8])> = Vec::new();
    for asked in unflushed {
        if let Asked::Write(at, written) = asked {
            let parts = written.chunks(SECTOR).enumerate();
            sectors.extend(parts.map(|(i, sector)| (at + i * SECTOR, sector)));
        }
    }
    match left {
        Left::Flushed => sectors.clear(),
        Left::All => {}
        Left::Some => {
            let share = dice.throw(9) + 1;
            sectors.retain(|_| dice.throw(10) < share);
            for i in (1..sectors.len()).rev() {
                sectors.swap(i, dice.throw(i + 1));
            }
        }
    }
    for (at, sector) in sectors {
        let place = &mut bytes[at..at + SECTOR];
        place.copy_from_slice(sector);
        if left == Left::Some && dice.throw(8) == 0 {
            let from = dice.throw(SECTOR);
            place[from..].fill_with(|| dice.throw(256) as u8);
        }
    }
}

/// The disk after a cut that follows so many of its requests.
fn cut(start: &[u8], asked: &[Asked], left: Left, dice: &mut Dice) -> Vec<u8> {
    let flush = asked
        .iter()
        .rposition(|asked| matches!(asked, Asked::Flush));
    let (flushed, rest) = asked.split_at(flush.map_or(0, |at| at + 1));
    let mut bytes = start.to_vec();
    tear(&mut bytes, flushed, Left::All, dice);
    tear(&mut bytes, rest, left, dice);
    bytes
}

fn page_key(number: usize) -> PageKey {
    Sha256::digest(format!("page {number}"))
}

/// A content that says whose it is.
fn content(name: &str, version: usize, bytes: usize) -> Vec<u8> {
    let text = format!("{name}, version {version}; ");
    let mut content = text.repeat(bytes / text.len() + 1).into_bytes();
    content.truncate(bytes);
    content
}

fn page(number: usize) -> Vec<u8> {
    content(&format!("page {number}"), 0, 300 + number * 1777 % 9000)
}

/// Somebody who uses a log, and knows what must be in it.
#[derive(Clone, Default)]
struct Ledger {
    /// The versions that a text may have: the one that was saved last, and one that is being saved.
    texts: BTreeMap<String, Vec<Vec<u8>>>,
    /// Pages that were committed.
    pages: Vec<usize>,
}

impl Ledger {
    /// Looks at all there is.
    fn check(&self, log: &mut RecordLog, all_pages: bool) {
        for (name, versions) in &self.texts {
            let mut found = Vec::new();
            let there = log.get(&saved(name), &mut found);
            let fine = if there {
                versions.contains(&found)
            } else {
                versions.iter().any(Vec::is_empty)
            };
            assert!(fine, "{name}: {} bytes, of {}", found.len(), versions.len());
        }
        let pages: Vec<usize> = if all_pages {
            self.pages.clone()
        } else {
            (0..400).filter(|&n| log.contains(&page_key(n))).collect()
        };
        for number in pages {
            let mut found = Vec::new();
            assert!(log.get(&page_key(number), &mut found), "page {number}");
            assert!(found == page(number), "page {number}");
        }
    }
}

/// What is done, what the disk was asked meanwhile, and what must be there after so many of these requests.
struct Story {
    asked: Vec<Asked>,
    /// From which request on.
    ledgers: Vec<(usize, Ledger)>,
}

/// Pages that come and go, and texts that are saved again and again.
fn story(units: usize, rounds: usize, dice: &mut Dice) -> Story {
    let (disk, log) = open(blank(units));
    let (mut log, new) = log.unwrap();
    assert!(new);
    let (mut ledger, mut ledgers) = (Ledger::default(), Vec::new());
    let mut waiting = Vec::new();
    let now = |disk: &Arc<Lock<Recorder>>| disk.lock().asked.len();
    ledgers.push((now(&disk), ledger.clone()));
    for round in 0..rounds {
        log.put(&page_key(round), &page(round)).unwrap();
        waiting.push(round);
        // Some are of use, and stay.
        log.get(&page_key(round / 3 * 2), &mut Vec::new());
        if round % 5 == 1 {
            let name = format!("text {}", round % 3);
            let text = content(&name, round, 1 + dice.throw(9000));
            let versions = ledger.texts.entry(name.clone()).or_insert(vec![Vec::new()]);
            versions.push(text.clone());
            ledgers.push((now(&disk), ledger.clone()));
            log.save(&saved(&name), &text).unwrap();
            ledger.texts.insert(name, vec![text]);
            ledger.pages.append(&mut waiting);
            ledgers.push((now(&disk), ledger.clone()));
        } else if round % 7 == 3 {
            log.commit().unwrap();
            ledger.pages.append(&mut waiting);
            ledgers.push((now(&disk), ledger.clone()));
        }
        ledger.check(&mut log, false);
    }
    let asked = core::mem::take(&mut disk.lock().asked);
    Story { asked, ledgers }
}

/// Cuts after each request, several ways, and looks at what is left.
fn cut_everywhere(units: usize, rounds: usize, fits: bool) -> usize {
    let mut dice = Dice(units as u64);
    let story = story(units, rounds, &mut dice);
    let mut cuts = 0;
    let (mut start, mut flushed) = (blank(units), 0);
    for end in 0..=story.asked.len() {
        let (from, ledger) = match story.ledgers.iter().rev().find(|(from, _)| *from <= end) {
            Some((from, ledger)) => (*from, ledger.clone()),
            None => (0, Ledger::default()),
        };
        for round in 0..6 {
            let left = [Left::Flushed, Left::All, Left::Some][round.min(2)];
            let bytes = cut(&start, &story.asked[flushed..end], left, &mut dice);
            let (disk, log) = open(bytes);
            let (mut log, new) = log.unwrap();
            assert!(!new || from == 0, "cut after {end}");
            ledger.check(&mut log, fits);
            assert!(log.keys().count() <= 400);
            // It goes on from there.
            if round == 2 && end % 3 == 0 {
                log.save(&saved("late"), b"later").unwrap();
                log.put(&page_key(399), &page(399)).unwrap();
                log.commit().unwrap();
                let bytes = disk.lock().bytes.clone();
                let (_, log) = open(bytes);
                let mut ledger = ledger.clone();
                ledger.texts.insert("late".into(), vec![b"later".to_vec()]);
                ledger.pages.push(399);
                ledger.check(&mut log.unwrap().0, fits);
            }
            let (disk, around) = (disk.lock(), AROUND * SECTOR);
            let (before, after) = (&disk.bytes[..around], disk.bytes.len() - around);
            let others = before.iter().chain(&disk.bytes[after..]);
            assert!(others.into_iter().all(|&byte| byte == OTHERS));
            cuts += 1;
        }
        if let Some(Asked::Flush) = story.asked.get(end) {
            tear(&mut start, &story.asked[flushed..end], Left::All, &mut dice);
            flushed = end + 1;
        }
    }
    cuts
}

#[test]
fn a_cut_at_any_request_leaves_all_that_was_committed() {
    // In the first nothing has to make way.
    let cuts = cut_everywhere(256, 30, true) + cut_everywhere(132, 130, false);
    assert!(cuts > 3000, "{cuts} cuts");
}

#[test]
fn a_life_of_cuts_loses_nothing_that_was_saved() {
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let mut bytes = blank(130 + dice.throw(60));
        let mut ledger = Ledger::default();
        for life in 0..30 {
            let start = bytes.clone();
            let (disk, log) = open(bytes);
            let (mut log, _) = log.unwrap();
            ledger.check(&mut log, false);
            // What was found is what there is: a version that was in doubt is in doubt no more.
            for (name, versions) in &mut ledger.texts {
                let mut found = Vec::new();
                log.get(&saved(name), &mut found);
                *versions = vec![found];
            }
            for round in 0..dice.throw(12) {
                let number = dice.throw(60);
                log.put(&page_key(number), &page(number)).unwrap();
                if dice.throw(3) == 0 {
                    let name = format!("text {}", dice.throw(3));
                    let text = content(&name, life * 100 + round, 1 + dice.throw(9000));
                    log.save(&saved(&name), &text).unwrap();
                    ledger.texts.insert(name, vec![text]);
                }
            }
            // The last thing that is begun may come to nothing, or not.
            let doubtful = content("text 0", life, 5000);
            let done = disk.lock().asked.len();
            log.save(&saved("text 0"), &doubtful).unwrap();
            let disk = disk.lock();
            let end = done + dice.throw(disk.asked.len() - done + 1);
            let versions = ledger.texts.entry("text 0".into());
            versions.or_insert(vec![Vec::new()]).push(doubtful);
            bytes = cut(&start, &disk.asked[..end], Left::Some, &mut dice);
        }
    }
}

#[test]
fn the_longest_unused_goes_and_what_was_saved_stays() {
    let (disk, log) = open(blank(260));
    let (mut log, _) = log.unwrap();
    let text = content("text", 0, 90_000);
    log.save(&saved("text"), &text).unwrap();
    for number in 0..300 {
        log.put(&page_key(number), &page(number)).unwrap();
        // The first is of use all the time.
        assert!(log.get(&page_key(0), &mut Vec::new()), "{number}");
    }
    assert!(!log.contains(&page_key(1)) && log.contains(&page_key(299)));
    log.commit().unwrap();
    let (ring, held) = log.bytes();
    assert!(
        ring == 258 * UNIT as u64 && held > ring / 3,
        "{held} of {ring}"
    );
    let bytes = disk.lock().bytes.clone();
    let (mut log, new) = open(bytes).1.unwrap();
    let mut found = Vec::new();
    assert!(!new && log.get(&saved("text"), &mut found) && found == text);
    assert!(log.contains(&page_key(0)) && log.contains(&page_key(299)));
    assert_eq!(log.bytes(), (ring, held));
}

#[test]
fn what_has_no_room_is_refused() {
    let (_, log) = open(blank(130));
    let (mut log, _) = log.unwrap();
    let most = 16 * UNIT - HEADER;
    let large = content("x", 0, most + 1);
    let (bytes, most) = (large.len() as u64, most as u64);
    let refused = Err(DataError::TooLarge { bytes, most });
    assert_eq!(log.put(&page_key(0), &large), refused);
    assert_eq!(log.save(&saved("x"), &large), refused);
    log.save(&saved("x"), &large[1..]).unwrap();
    log.save(&saved("y"), &large[1..]).unwrap();
    let full = Err(DataError::Full { bytes: 1 });
    assert_eq!(log.save(&saved("z"), b"z"), full);
    for round in 0..300 {
        // In its own place, and beside the pages of a full ring.
        log.save(&saved("y"), &large[1..]).unwrap();
        log.put(&page_key(round), &page(round)).unwrap();
    }
    let (_, small) = open(blank(129));
    assert!(matches!(small.err(), Some(DataError::TooSmall { .. })));
}

#[test]
fn a_disk_that_fails_is_left_alone() {
    let mut failures = 0;
    for lasts in 0..90 {
        let (disk, log) = open(blank(140));
        let (mut log, _) = log.unwrap();
        log.save(&saved("text"), b"words").unwrap();
        disk.lock().lasts = lasts;
        let failed = (0..90).find_map(|n| log.put(&page_key(n), &page(n)).err());
        failures += usize::from(failed.is_some());
        if failed.is_some() {
            let error = DataError::Storage(StorageError::Device(FAILED));
            assert_eq!(failed, Some(error));
            disk.lock().lasts = usize::MAX;
            let before = disk.lock().bytes.clone();
            assert_eq!(log.save(&saved("text"), b"others"), Err(error));
            assert!(log.has_failed() && disk.lock().bytes == before);
        }
        let mut found = Vec::new();
        assert!(log.get(&saved("text"), &mut found) && found == b"words");
        let bytes = disk.lock().bytes.clone();
        let (mut log, _) = open(bytes).1.unwrap();
        found.clear();
        assert!(log.get(&saved("text"), &mut found) && found == b"words");
    }
    assert!(failures > 30);
}

#[test]
fn what_lies_behind_damage_does_not_come_back() {
    let (disk, log) = open(blank(150));
    let (mut log, _) = log.unwrap();
    for name in ["a", "b", "c"] {
        log.save(&saved(name), b"words").unwrap();
    }
    let mut bytes = disk.lock().bytes.clone();
    let key = saved("b");
    let header = bytes.windows(32).position(|window| window == key);
    bytes[header.unwrap()] ^= 1;
    let (disk, log) = open(bytes);
    let (mut log, _) = log.unwrap();
    assert_eq!(log.keys().count(), 1);
    // In the same place, and of the same length.
    log.save(&saved("d"), b"words").unwrap();
    let bytes = disk.lock().bytes.clone();
    let (log, _) = open(bytes).1.unwrap();
    let there = ["a", "b", "c", "d"].map(|name| log.contains(&saved(name)));
    assert_eq!(there, [true, false, false, true]);
}

#[test]
fn damage_is_noticed_and_another_version_left_alone() {
    let mut dice = Dice(5);
    let (disk, log) = open(blank(150));
    let (mut log, _) = log.unwrap();
    for number in 0..12 {
        log.put(&page_key(number), &page(number)).unwrap();
        log.save(&saved("text"), &content("text", number, 3000))
            .unwrap();
    }
    let whole = disk.lock().bytes.clone();
    let mut lost = 0;
    for _ in 0..2000 {
        let mut bytes = whole.clone();
        for _ in 0..=dice.throw(3) {
            let at = AROUND * SECTOR + dice.throw(60 * UNIT);
            bytes[at] ^= 1 << dice.throw(8);
        }
        let (mut log, _) = open(bytes).1.unwrap();
        for number in 0..12 {
            let mut found = Vec::new();
            if log.get(&page_key(number), &mut found) {
                assert!(found == page(number));
            } else {
                assert!(found.is_empty() && !log.contains(&page_key(number)));
                lost += 1;
            }
        }
        log.put(&page_key(50), &page(50)).unwrap();
    }
    assert!(lost > 0);
    let mut newer = whole;
    for place in 0..2 {
        let unit = &mut newer[AROUND * SECTOR + place * UNIT..][..UNIT];
        unit[8] = 2;
        let sum = strata_weights::crc32(&unit[..56]);
        unit[56..60].copy_from_slice(&sum.to_le_bytes());
    }
    let (disk, log) = open(newer);
    assert_eq!(log.err(), Some(DataError::Version { version: 2 }));
    assert!(disk.lock().asked.is_empty());
}
