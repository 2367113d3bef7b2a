//! Hostile files: each is refused with the right error at the right place, in little time and memory.

#[path = "../content/mod.rs"]
mod content;
mod metadata;
#[path = "../peak_memory/mod.rs"]
mod peak_memory;
#[path = "../raw_file/mod.rs"]
mod raw_file;
mod tensors;

use std::time::{Duration, Instant};

use content::sample;
use peak_memory::peak_of;
use raw_file::Raw;
use strata_weights::gguf::{Gguf, GgufError, MAX_KEYS, MAX_TENSORS, Name};

const STR: u32 = 8;
const U32: u32 = 4;
const F32: u32 = 0;
const Q4_0: u32 = 2;
/// Where the first metadata pair, or without any the first tensor, begins.
const HEADER: u64 = 24;

/// Parses what must be refused, within a second and, for these small files, within a few KiB.
fn refused(file: &[u8]) -> GgufError {
    let start = Instant::now();
    let (result, peak) = peak_of(|| Gguf::parse(file).map(drop));
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "took {:?}",
        start.elapsed()
    );
    assert!(
        peak <= 16 * file.len() + 1024,
        "took {peak} bytes for a file of {}",
        file.len()
    );
    let error = result.expect_err("a hostile file was accepted");
    let message = error.to_string();
    assert!(message.len() < 400 && !message.contains('\n'), "{message}");
    error
}

fn name(text: &str) -> Name {
    Name::new(text)
}

#[test]
fn what_is_not_gguf_2_or_3_is_named() {
    assert_eq!(
        refused(b"PK\x03\x04...."),
        GgufError::Magic {
            found: *b"PK\x03\x04"
        }
    );
    assert_eq!(
        refused(b"FUGG\0\0\0\x03"),
        GgufError::BigEndian { offset: 0 }
    );
    let version = |version: u32| refused(&Raw(b"GGUF".to_vec()).u32(version).u64(0).u64(0).0);
    assert_eq!(version(1), GgufError::Version1 { offset: 4 });
    assert_eq!(
        version(2u32.swap_bytes()),
        GgufError::BigEndian { offset: 4 }
    );
    assert_eq!(
        version(3u32.swap_bytes()),
        GgufError::BigEndian { offset: 4 }
    );
    for unknown in [0, 4, 0x0300, u32::MAX] {
        assert_eq!(
            version(unknown),
            GgufError::UnknownVersion {
                offset: 4,
                version: unknown
            }
        );
    }
}

#[test]
fn counts_are_held_against_the_bytes_left() {
    for count in [
        1,
        1 << 31,
        1 << 32,
        1 << 60,
        u64::MAX / 14 + 1,
        u64::MAX / 33 + 1,
        u64::MAX,
    ] {
        assert_eq!(
            refused(&Raw::new(count, 0).0),
            GgufError::TensorCount {
                offset: 8,
                count,
                limit: 0
            }
        );
        assert_eq!(
            refused(&Raw::new(0, count).0),
            GgufError::KeyCount {
                offset: 16,
                count,
                limit: 0
            }
        );
    }
    // Both counts fit alone but not together.
    let both = Raw::new(1, 1).bytes(&[0; 40]).0;
    assert_eq!(
        refused(&both),
        GgufError::TensorCount {
            offset: 8,
            count: 1,
            limit: 0
        }
    );
}

#[test]
fn counts_are_limited_however_large_the_file() {
    let file = Raw::new(0, MAX_KEYS + 1).bytes(&vec![0; 2 << 20]).0;
    assert!(matches!(
        refused(&file),
        GgufError::KeyCount {
            limit: MAX_KEYS,
            ..
        }
    ));
    let file = Raw::new(MAX_TENSORS + 1, 0).bytes(&vec![0; 5 << 20]).0;
    assert!(matches!(
        refused(&file),
        GgufError::TensorCount {
            limit: MAX_TENSORS,
            ..
        }
    ));
}

#[test]
fn names_in_messages_are_short_and_escaped() {
    let key = "\x1b[2J\n".repeat(1000);
    let error = refused(&Raw::new(0, 1).pair(&key, 99, &[0; 8]).0);
    let message = error.to_string();
    assert!(
        !message.contains('\x1b') && message.len() < 250,
        "{message}"
    );
}

#[test]
fn a_cut_file_is_a_typed_error_at_every_byte() {
    for sample_name in ["all_types.gguf", "aligned_256.gguf", "vocabulary.gguf"] {
        let bytes = sample(sample_name);
        let whole = Gguf::parse(&bytes).expect("a sample");
        let last = whole
            .tensors()
            .iter()
            .map(|t| t.offset + t.data.len() as u64)
            .max();
        // Padding at the end, and before a data section that holds nothing, may be missing.
        let needed = last.map_or_else(
            || bytes.iter().rposition(|&byte| byte != 0).expect("content") + 1,
            |end| (whole.data_offset() + end) as usize,
        );
        for len in 0..bytes.len() {
            let result = Gguf::parse(&bytes[..len]);
            if len < needed {
                assert!(
                    result.is_err(),
                    "{sample_name} was accepted when cut to {len}"
                );
                refused(&bytes[..len]);
            }
        }
    }
}

#[test]
fn the_largest_directory_takes_under_64_mib() {
    let mut raw = Raw::new(MAX_TENSORS, MAX_KEYS);
    for key in 0..MAX_KEYS {
        raw = raw.pair(&format!("{key:05}"), 0, &[0]);
    }
    for tensor in 0..MAX_TENSORS {
        raw = raw.tensor(&format!("{tensor:06}"), &[1], 24, tensor * 32);
    }
    let file = raw.data(32, MAX_TENSORS as usize * 32);
    let start = Instant::now();
    let (result, peak) = peak_of(|| Gguf::parse(&file));
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "took {:?}",
        start.elapsed()
    );
    assert!(peak < 40 << 20, "took {peak} bytes");
    let gguf = result.expect("a valid file");
    assert!(gguf.tensor("131071").is_some() && gguf.metadata().get("65535").is_some());
}
