//! Pages in files between two engines: what is not whole, not ours or too much is not there, and never wrong.

use crate::tale::{ExecutorSetup, Tale, run_one};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strata_engine::{Engine, EngineOptions, ModelDigest, Request};
use strata_host::PageFiles;
use strata_model::{KvType, PAGE};

const DIGEST: ModelDigest = ModelDigest([3; 32]);
const PLENTY: u64 = 1 << 30;
/// Where the version stands in a file, and how long its checksum is.
const VERSION: usize = 8;
const CHECKSUM: usize = 32;

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("strata-engine-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    /// Its pages, in the order of their names.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    fn bytes(&self) -> u64 {
        let files = self.files();
        files
            .iter()
            .map(|file| file.metadata().unwrap().len())
            .sum()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn engine(tale: &Tale, folder: &Path, limit: u64, kind: KvType) -> Engine {
    let options = EngineOptions {
        context: 256,
        ..EngineOptions::default()
    };
    let setup = ExecutorSetup {
        kind,
        pages: 16,
        ..ExecutorSetup::default()
    };
    let executor = setup.executor(&tale.model, &options);
    let files = PageFiles::open(folder, limit).unwrap();
    Engine::new(executor, Arc::clone(&tale.tokenizer), options).with_store(Box::new(files), DIGEST)
}

fn request(tale: &Tale) -> Request {
    let prompt = "There was once a miller who had three sons. ".repeat(12);
    let mut request = tale.request(&prompt, Some(9));
    request.prompt.truncate(4 * PAGE + 5);
    assert_eq!(request.prompt.len(), 4 * PAGE + 5);
    request.max_tokens = Some(8);
    request
}

/// A folder with the pages of the request's prompt, and the answer.
fn filled(tale: &Tale, name: &str) -> (Folder, Vec<u32>) {
    let folder = Folder::new(name);
    let mut engine = engine(tale, &folder.0, PLENTY, KvType::F16);
    let answer = run_one(&mut engine, request(tale));
    engine.persist();
    assert_eq!(folder.files().len(), 4);
    (folder, answer.tokens)
}

/// Changes a file's bytes and makes its checksum right again.
fn resealed(file: &Path, change: impl FnOnce(&mut [u8])) {
    let mut bytes = fs::read(file).unwrap();
    let body = bytes.len() - CHECKSUM;
    change(&mut bytes[..body]);
    let checksum = Sha256::digest(&bytes[..body]);
    bytes[body..].copy_from_slice(&checksum);
    fs::write(file, bytes).unwrap();
}

#[test]
fn files_that_are_not_what_was_written_are_computed_again_and_replaced() {
    let tale = Tale::load();
    let (folder, tokens) = filled(&tale, "damaged");
    let good: Vec<Vec<u8>> = folder
        .files()
        .iter()
        .map(|file| fs::read(file).unwrap())
        .collect();
    let files = folder.files();
    // The first page's is not known by its name, so each kind of damage is done to all.
    type Damage = fn(&Path, &[u8]);
    let damages: [(&str, Damage); 8] = [
        ("a bit in the middle", |file, good| {
            let mut bytes = good.to_vec();
            bytes[good.len() / 2] ^= 1;
            fs::write(file, bytes).unwrap();
        }),
        ("the checksum", |file, good| {
            let mut bytes = good.to_vec();
            *bytes.last_mut().unwrap() ^= 0x80;
            fs::write(file, bytes).unwrap();
        }),
        ("half of it", |file, good| {
            fs::write(file, &good[..good.len() / 2]).unwrap();
        }),
        ("nothing", |file, _| fs::write(file, []).unwrap()),
        ("a byte more", |file, good| {
            fs::write(file, [good, &[0]].concat()).unwrap();
        }),
        ("another version", |file, _| {
            resealed(file, |bytes| bytes[VERSION] += 1);
        }),
        ("another key", |file, _| {
            resealed(file, |bytes| bytes[VERSION + 4] ^= 1);
        }),
        ("another format", |file, _| {
            resealed(file, |bytes| bytes[0] = b'X');
        }),
    ];
    for (what, damage) in damages {
        for (file, good) in files.iter().zip(&good) {
            fs::write(file, good).unwrap();
            damage(file, good);
        }
        let mut engine = engine(&tale, &folder.0, PLENTY, KvType::F16);
        let answer = run_one(&mut engine, request(&tale));
        assert_eq!(answer.tokens, tokens, "{what}");
        assert_eq!(answer.usage().cached_tokens, 0, "{what}");
        assert_eq!(engine.counters().restored_pages, 0, "{what}");
        engine.persist();
        drop(engine);
        let mut again = self::engine(&tale, &folder.0, PLENTY, KvType::F16);
        let answer = run_one(&mut again, request(&tale));
        assert_eq!(answer.tokens, tokens, "{what}");
        assert_eq!(answer.usage().cached_tokens, 4 * PAGE, "{what}: replaced");
    }
    // Pages under each other's names: right by their checksums, and of another text.
    for (i, file) in files.iter().enumerate() {
        fs::write(file, &good[(i + 1) % good.len()]).unwrap();
    }
    let mut engine = engine(&tale, &folder.0, PLENTY, KvType::F16);
    let answer = run_one(&mut engine, request(&tale));
    assert_eq!(
        (answer.tokens.as_slice(), answer.usage().cached_tokens),
        (&tokens[..], 0)
    );
}

#[test]
fn what_goes_while_an_engine_runs_is_only_gone() {
    let tale = Tale::load();
    let (folder, tokens) = filled(&tale, "gone");
    let mut engine = engine(&tale, &folder.0, PLENTY, KvType::F16);
    fs::remove_dir_all(&folder.0).unwrap();
    let answer = run_one(&mut engine, request(&tale));
    assert_eq!(
        (answer.tokens.as_slice(), answer.usage().cached_tokens),
        (&tokens[..], 0)
    );
    // Nothing can be written either.
    engine.persist();
    let answer = run_one(&mut engine, request(&tale));
    assert_eq!(answer.tokens, tokens);
}

#[test]
fn another_model_or_another_type_of_pages_finds_nothing() {
    let tale = Tale::load();
    let (folder, tokens) = filled(&tale, "others");
    let mut other = engine(&tale, &folder.0, PLENTY, KvType::F16);
    let files = PageFiles::open(&folder.0, PLENTY).unwrap();
    other = other.with_store(Box::new(files), ModelDigest([4; 32]));
    let answer = run_one(&mut other, request(&tale));
    assert_eq!(
        (answer.tokens.as_slice(), answer.usage().cached_tokens),
        (&tokens[..], 0)
    );
    let mut wider = engine(&tale, &folder.0, PLENTY, KvType::F32);
    assert_eq!(run_one(&mut wider, request(&tale)).usage().cached_tokens, 0);
    let mut same = engine(&tale, &folder.0, PLENTY, KvType::F16);
    let answer = run_one(&mut same, request(&tale));
    assert_eq!(answer.usage().cached_tokens, 4 * PAGE);
}

#[test]
fn the_folder_stays_within_its_size() {
    let tale = Tale::load();
    let (folder, tokens) = filled(&tale, "bounded");
    let page = folder.bytes() / 4;
    // Room for two pages and a half: the two used last stay.
    let limit = 2 * page + page / 2;
    let mut small = engine(&tale, &folder.0, limit, KvType::F16);
    assert!(folder.bytes() <= limit, "a smaller bound holds at once");
    let answer = run_one(&mut small, request(&tale));
    assert_eq!(answer.tokens, tokens);
    for seed in 0..3 {
        let mut other = request(&tale);
        other.prompt.rotate_left(7 * seed + 1);
        run_one(&mut small, other);
        small.persist();
        assert!(
            folder.bytes() <= limit,
            "{} of {limit} bytes",
            folder.bytes()
        );
        assert!(!folder.files().is_empty());
    }
    let mut none = engine(&tale, &folder.0, 0, KvType::F16);
    let answer = run_one(&mut none, request(&tale));
    none.persist();
    assert_eq!(answer.tokens, tokens);
    assert!(folder.files().is_empty());
}
