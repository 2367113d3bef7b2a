//! Disks that the tests write themselves, whole and damaged.

use super::*;
use crate::machine::lock::Lock;
use alloc::boxed::Box;
use alloc::sync::Arc;
use std::string::ToString;
use strata_platform::Sha256;

/// A disk in memory.
struct Fake {
    bytes: Vec<u8>,
    block: usize,
}

impl BlockDevice for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn block_bytes(&self) -> usize {
        self.block
    }
    fn blocks(&self) -> u64 {
        (self.bytes.len() / self.block) as u64
    }
    fn read(&mut self, block: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        crate::drivers::check_range(self, block, out.len())?;
        let at = block as usize * self.block;
        out.copy_from_slice(&self.bytes[at..at + out.len()]);
        Ok(())
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A file system with its own few files, every other cluster of each skipped, so that runs end.
struct Maker {
    bytes: Vec<u8>,
    wide: bool,
    sector: usize,
    table: usize,
    root: usize,
    data: usize,
    next: u32,
}

const ROOT_ENTRIES: usize = 512;

impl Maker {
    fn new(wide: bool, sector: usize) -> Self {
        let (clusters, reserved) = (if wide { 66_000 } else { 5000 }, 4);
        let width: usize = if wide { 4 } else { 2 };
        let table_sectors = ((clusters + 2) * width).div_ceil(sector);
        let table = reserved * sector;
        let root = table + 2 * table_sectors * sector;
        let data = root + if wide { 0 } else { ROOT_ENTRIES * ENTRY_BYTES };
        let sectors = data / sector + clusters;
        let mut bytes = vec![0; sectors * sector];
        put(&mut bytes, 0, &[0xeb, 0x58, 0x90]);
        put(&mut bytes, 11, &(sector as u16).to_le_bytes());
        put(&mut bytes, 13, &[1, reserved as u8, 0, 2]);
        put(&mut bytes, 32, &(sectors as u32).to_le_bytes());
        if wide {
            put(&mut bytes, 36, &(table_sectors as u32).to_le_bytes());
            put(&mut bytes, 44, &2u32.to_le_bytes());
        } else {
            put(&mut bytes, 17, &(ROOT_ENTRIES as u16).to_le_bytes());
            put(&mut bytes, 22, &(table_sectors as u16).to_le_bytes());
        }
        put(&mut bytes, 510, &[0x55, 0xaa]);
        let mut maker = Self {
            bytes,
            wide,
            sector,
            table,
            root,
            data,
            next: 3,
        };
        maker.link(2, 0x0fff_ffff);
        if wide {
            maker.root = maker.data;
        }
        maker
    }

    fn link(&mut self, cluster: u32, next: u32) {
        if self.wide {
            put(
                &mut self.bytes,
                self.table + cluster as usize * 4,
                &next.to_le_bytes(),
            );
        } else {
            put(
                &mut self.bytes,
                self.table + cluster as usize * 2,
                &(next as u16).to_le_bytes(),
            );
        }
    }

    /// Stores bytes; says where they begin.
    fn store(&mut self, content: &[u8]) -> u32 {
        let first = self.next;
        let count = content.chunks(self.sector).count();
        for (i, part) in content.chunks(self.sector).enumerate() {
            let cluster = self.next;
            let at = self.data + (cluster as usize - 2) * self.sector;
            put(&mut self.bytes, at, part);
            self.next += if i % 7 == 3 { 2 } else { 1 };
            let last = i + 1 == count;
            self.link(cluster, if last { 0x0fff_ffff } else { self.next });
        }
        first
    }

    fn add_to_root(&mut self, entries: &[u8]) {
        let used = self.bytes[self.root..]
            .chunks(ENTRY_BYTES)
            .position(|entry| entry[0] == 0);
        let at = self.root + used.unwrap() * ENTRY_BYTES;
        put(&mut self.bytes, at, entries);
    }
}

const ENTRY_BYTES: usize = 32;

fn entry(short: &[u8; 11], long: &str, kind: u8, first: u32, bytes: usize) -> Vec<u8> {
    let sum = short
        .iter()
        .fold(0u8, |sum, &byte| sum.rotate_right(1).wrapping_add(byte));
    let mut units: Vec<u16> = long.encode_utf16().collect();
    if !units.len().is_multiple_of(13) {
        units.push(0);
        units.resize(units.len().next_multiple_of(13), 0xffff);
    }
    let mut out = Vec::new();
    for (i, part) in units.chunks(13).enumerate().rev() {
        let mut one = [0; ENTRY_BYTES];
        one[0] = (i as u8 + 1) | if (i + 1) * 13 == units.len() { 0x40 } else { 0 };
        one[11] = 0x0f;
        one[13] = sum;
        let places = (1..11)
            .step_by(2)
            .chain((14..26).step_by(2))
            .chain([28, 30]);
        for (at, unit) in places.zip(part) {
            one[at..at + 2].copy_from_slice(&unit.to_le_bytes());
        }
        out.extend(one);
    }
    let mut one = [0; ENTRY_BYTES];
    one[..11].copy_from_slice(short);
    one[11] = kind;
    one[20..22].copy_from_slice(&((first >> 16) as u16).to_le_bytes());
    one[26..28].copy_from_slice(&(first as u16).to_le_bytes());
    one[28..].copy_from_slice(&(bytes as u32).to_le_bytes());
    out.extend(one);
    out
}

fn model() -> Vec<u8> {
    let noise = (0..100_001u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8);
    b"GGUF".iter().copied().chain(noise).collect()
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// `strata/model.gguf` with its sum, and `strata.toml`.
fn file_system(wide: bool, sector: usize) -> Vec<u8> {
    let mut maker = Maker::new(wide, sector);
    let model = model();
    let file = maker.store(&model);
    let sum = format!("{}  model.gguf\n", hex(&model));
    let sum_at = maker.store(sum.as_bytes());
    let mut folder = entry(b"GONE    TXT", "", 0, 9, 9);
    folder[0] = 0xe5;
    folder.extend(entry(b"MODEL~1 GGU", "model.gguf", 0x20, file, model.len()));
    folder.extend(entry(
        b"MODEL~1 SHA",
        "model.gguf.sha256",
        0x20,
        sum_at,
        sum.len(),
    ));
    let folder = maker.store(&folder);
    let toml = b"ip = \"dhcp\"\n";
    let toml_at = maker.store(toml);
    maker.add_to_root(&entry(b"STRATA     ", "", 0x08, 0, 0));
    maker.add_to_root(&entry(b"STRATA     ", "strata", 0x10, folder, 0));
    maker.add_to_root(&entry(
        b"STRAT~1 TOM",
        "strata.toml",
        0x20,
        toml_at,
        toml.len(),
    ));
    maker.bytes
}

fn mbr(partition: &[u8], block: usize) -> Vec<u8> {
    let mut bytes = vec![0; 64 * block];
    bytes.extend(partition);
    let mut one = [0; 16];
    one[4] = 0x0c;
    one[8..12].copy_from_slice(&64u32.to_le_bytes());
    one[12..].copy_from_slice(&((partition.len() / block) as u32).to_le_bytes());
    put(&mut bytes, 446 + 16, &one);
    put(&mut bytes, 510, &[0x55, 0xaa]);
    bytes
}

fn gpt(partition: &[u8], block: usize) -> Vec<u8> {
    let mut bytes = vec![0; 64 * block];
    bytes.extend(partition);
    bytes[446 + 4] = 0xee;
    put(&mut bytes, 510, &[0x55, 0xaa]);
    put(&mut bytes, block, b"EFI PART");
    put(&mut bytes, block + 72, &2u64.to_le_bytes());
    put(&mut bytes, block + 80, &128u32.to_le_bytes());
    put(&mut bytes, block + 84, &128u32.to_le_bytes());
    let last = 63 + (partition.len() / block) as u64;
    let second = 2 * block + 128;
    put(&mut bytes, second, &[7; 16]);
    put(&mut bytes, second + 32, &64u64.to_le_bytes());
    put(&mut bytes, second + 40, &last.to_le_bytes());
    bytes
}

fn disk(bytes: Vec<u8>, block: usize) -> Vec<Disk> {
    vec![Arc::new(Lock::new(Fake { bytes, block }))]
}

/// Whether bytes that come in pieces have a sum at one of the ends.
fn check(bytes: &[u8], ends: [usize; 3], wanted: [u8; 32]) -> Result<(), DigestError> {
    let mut sum = Sum::new(wanted, ends);
    bytes.chunks(999).for_each(|part| sum.add(part));
    sum.finish()
}

/// The model on a disk, where it is, and everything that was told.
fn look(bytes: Vec<u8>, block: usize, path: Option<&str>) -> (Option<(Found, Vec<u8>)>, String) {
    let disks = disk(bytes, block);
    let mut told = String::new();
    let found = find(&disks, path, &mut |text| {
        told.push_str(&text.to_string());
    });
    let found = found.map(|found| {
        let mut out = vec![0; found.bytes as usize];
        // In two parts, neither of which ends where a run does.
        let third = out.len() / 3;
        let (first, second) = out.split_at_mut(third);
        let disk = &mut *disks[0].lock();
        found.read(disk, 0, first).unwrap();
        found.read(disk, first.len() as u64, second).unwrap();
        let past = found.read(disk, found.bytes, &mut [0]);
        assert!(matches!(past, Err(StorageError::PastEnd { .. })));
        (found, out)
    });
    (found, told)
}

#[test]
fn models_are_found_wherever_they_may_be() {
    for (wide, sector) in [(false, 512), (true, 512), (false, 4096)] {
        let plain = file_system(wide, sector);
        let block = if sector == 4096 { 4096 } else { 512 };
        for (bytes, place) in [
            (
                mbr(&plain, block),
                "strata/model.gguf on disk 0 partition 1",
            ),
            (
                gpt(&plain, block),
                "strata/model.gguf on disk 0 partition 1",
            ),
            (plain, "strata/model.gguf on disk 0"),
        ] {
            let text = settings(&disk(bytes.clone(), block), &mut |_| {});
            assert_eq!(text.as_deref(), Some(&b"ip = \"dhcp\"\n"[..]));
            let (found, told) = look(bytes, block, None);
            let (found, read) = found.unwrap_or_else(|| panic!("{place}: {told}"));
            assert_eq!(found.place, place);
            assert!(read == model() && found.runs.len() > 3);
            check(&read, [5, 7, read.len()], found.sha256.unwrap()).unwrap();
        }
    }
}

#[test]
fn raw_models_are_found_and_others_are_not() {
    let mut raw = model();
    raw.resize(raw.len().next_multiple_of(512), 0);
    for (bytes, place) in [
        (raw.clone(), "disk 0"),
        (gpt(&raw, 512), "disk 0 partition 1"),
    ] {
        let (found, _) = look(bytes, 512, None);
        let (found, read) = found.unwrap();
        assert_eq!((&*found.place, read.len()), (place, raw.len()));
        let sum = digest_from(hex(&model()).as_bytes()).unwrap();
        let ends = [100, model().len(), raw.len()];
        check(&read, ends, sum).unwrap();
        let wrong = check(&read, [100, 100, 100], sum).unwrap_err();
        assert_eq!(wrong.found, hex(&read));
    }
    assert!(look(vec![0; 1 << 20], 512, None).0.is_none());
    assert!(look(Vec::new(), 512, None).0.is_none());
    let bytes = file_system(false, 512);
    assert!(look(bytes.clone(), 512, Some("other.gguf")).0.is_none());
    assert!(
        look(bytes.clone(), 512, Some("strata/model.gguf/x"))
            .0
            .is_none()
    );
    assert!(look(bytes.clone(), 512, Some("strata")).0.is_none());
    let (found, _) = look(bytes, 512, Some("\\STRATA\\Model~1.ggu"));
    assert_eq!(found.unwrap().1, model());
}

#[test]
fn digests_are_read_as_sha256sum_writes_them() {
    let text = hex(b"x");
    assert_eq!(
        digest_from(format!("{text}  x").as_bytes()).unwrap()[..],
        Sha256::digest(b"x")[..]
    );
    assert_eq!(digest_from(&text.as_bytes()[..63]), None);
    assert_eq!(
        digest_from(text.replace('0', "+").replace('1', "g").as_bytes()),
        None
    );
    assert_eq!(digest_from("é".repeat(40).as_bytes()), None);
}

#[test]
fn damaged_disks_do_no_harm() {
    let mut state = 3u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    for whole in [
        file_system(false, 512),
        mbr(&file_system(false, 512), 512),
        gpt(&file_system(false, 512), 512),
    ] {
        let mut maker;
        // What is neither table nor folder makes no difference.
        let (head, rest) = (40_000, whole.len());
        for round in 0..3000 {
            let mut bytes = whole.clone();
            for _ in 0..=random(4) {
                let at = if round % 4 == 0 {
                    random(600)
                } else {
                    random(head.min(rest))
                };
                bytes[at] = [0, 1, 0x7f, 0x80, 0xff, random(256) as u8][random(6)];
            }
            if round % 50 == 0 {
                bytes.truncate(random(rest) / 512 * 512);
            }
            maker = disk(bytes, 512);
            let _ = settings(&maker, &mut |_| {});
            let found = find(&maker, None, &mut |_| {});
            if let Some(found) = found.filter(|found| found.bytes < 1 << 24) {
                let mut out = vec![0; found.bytes as usize];
                let _ = found.read(&mut *maker[0].lock(), 0, &mut out);
            }
        }
    }
}

#[test]
fn a_chain_that_bites_its_tail_ends() {
    for wide in [false, true] {
        let mut maker = Maker::new(wide, 512);
        let full: Vec<u8> = entry(b"FILLER  TXT", "", 0x20, 0, 0).repeat(16);
        let folder = maker.store(&full);
        maker.link(folder, folder);
        maker.add_to_root(&entry(b"STRATA     ", "", 0x10, folder, 0));
        let file = maker.store(&[1; 600]);
        maker.link(file, file);
        maker.add_to_root(&entry(b"MODEL   GGU", "model.gguf", 0x20, file, 1 << 20));
        let (found, told) = look(maker.bytes, 512, None);
        assert!(found.is_none() && told.contains("does not end"), "{told}");
    }
}

/// A model of five pages and a bit, as a file with its sum.
fn paged() -> (Vec<u8>, Pages) {
    let bytes: Vec<u8> = (0..5 * PAGE as u32 + 512)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8)
        .collect();
    let disk = disk(bytes.clone(), 512).remove(0);
    let file = Found {
        place: "here".into(),
        disk: 0,
        bytes: bytes.len() as u64,
        runs: vec![0..PAGE as u64 + 512, PAGE as u64 + 512..bytes.len() as u64],
        sha256: None,
    };
    let pages = Pages::new(disk, file, |bytes| Ok(Box::new(Owned(vec![0; bytes]))));
    (bytes, pages)
}

struct Owned(Vec<u8>);
impl strata_platform::Region for Owned {}
impl core::ops::Deref for Owned {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
impl core::ops::DerefMut for Owned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[test]
fn pages_come_and_go_and_are_summed_up_once() {
    for order in [[0, 1, 2, 3, 4, 5], [0, 5, 1, 2, 3, 4], [5, 4, 3, 2, 1, 0]] {
        let (bytes, mut pages) = paged();
        assert_eq!(pages.count(), 6);
        let sum = digest_from(hex(&bytes).as_bytes()).unwrap();
        pages.expect(Sum::new(sum, [17, bytes.len(), bytes.len()]));
        for page in order {
            let there = pages.fetch(page).unwrap().unwrap();
            let wanted = &bytes[page * PAGE..bytes.len().min((page + 1) * PAGE)];
            assert!(there[..wanted.len()] == *wanted);
            assert!(there[wanted.len()..].iter().all(|&byte| byte == 0));
            assert!(pages.fetch(page).unwrap().is_none());
            let gone = pages.release(page..page + 1);
            assert_eq!(gone.len(), 1);
            pages.reuse(gone);
        }
        assert!(pages.release(0..9).is_empty());
        let verified = pages.verify(&mut |_| {}).unwrap();
        assert!(verified.summed && verified.read <= 2 * bytes.len() as u64);
        if order == [0, 1, 2, 3, 4, 5] {
            assert_eq!(verified.read, bytes.len() as u64, "in order, once");
        }
    }
}

#[test]
fn a_file_that_is_another_or_ends_early_is_noticed() {
    let (_, mut pages) = paged();
    pages.expect(Sum::new([7; 32], [17, 18, 19]));
    assert!(matches!(
        pages.verify(&mut |_| {}),
        Err(VerifyError::Digest(_))
    ));
    let (_, mut pages) = paged();
    assert_eq!(pages.verify(&mut |_| {}).map(|s| s.summed), Ok(false));
    // Beyond the end there is nothing but zeros.
    let there = pages.fetch(1 << 40).unwrap().unwrap();
    assert!(there.iter().all(|&byte| byte == 0));
    let (bytes, pages) = paged();
    let short = disk(bytes[..PAGE].to_vec(), 512).remove(0);
    let mut pages = pages.on(short);
    let there = pages.fetch(3).unwrap().unwrap();
    assert!(there.iter().all(|&byte| byte == 0));
    assert!(matches!(
        pages.verify(&mut |_| {}),
        Err(VerifyError::Storage(StorageError::PastEnd { .. }))
    ));
}
