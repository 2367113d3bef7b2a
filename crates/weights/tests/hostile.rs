//! Hostile files: each is refused with the right error at the right place, in little time and memory.

mod content;
mod peak_memory;
mod raw_file;

use std::time::{Duration, Instant};

use content::sample;
use peak_memory::peak_of;
use raw_file::Raw;
use strata_weights::gguf::{Gguf, GgufError, MAX_KEYS, MAX_TENSORS, Name, Place, ShapeError};
use strata_weights::{GgmlType, ValueType};

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
fn key_lengths() {
    for len in [0, 65_536, 1 << 40, u64::MAX] {
        let file = Raw::new(0, 1).u64(len).bytes(&[b'k'; 100]).0;
        assert_eq!(
            refused(&file),
            GgufError::KeyLength {
                offset: HEADER,
                len
            }
        );
    }
    let file = Raw::new(0, 1).u64(65_535).bytes(&[b'k'; 100]).0;
    let place = Place::Key(0);
    let (offset, needed, remaining) = (HEADER + 8, 65_535, 100);
    assert_eq!(
        refused(&file),
        GgufError::Truncated {
            offset,
            needed,
            remaining,
            place
        }
    );
}

#[test]
fn string_lengths() {
    for needed in [4, 1 << 32, i64::MAX as u64, u64::MAX - 7, u64::MAX] {
        let file = Raw::new(0, 1)
            .pair("k", STR, &needed.to_le_bytes())
            .bytes(b"abc")
            .0;
        let (offset, remaining, place) = (HEADER + 21, 3, Place::Value(name("k")));
        assert_eq!(
            refused(&file),
            GgufError::Truncated {
                offset,
                needed,
                remaining,
                place
            }
        );
    }
}

#[test]
fn array_lengths_near_the_end_of_u64_do_not_wrap() {
    for element in [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12] {
        let size = ValueType::from_id(element)
            .expect("a type")
            .fixed_len()
            .unwrap_or(8);
        let wraps = (u64::MAX / size).wrapping_add(1).max(17);
        for len in [17, 1 << 32, 1 << 61, 1 << 62, wraps, u64::MAX - 1, u64::MAX] {
            let file = Raw::new(0, 1)
                .array("tokenizer.ggml.tokens", element, len, &[1; 16])
                .0;
            let (offset, key, remaining) = (HEADER + 37, name("tokenizer.ggml.tokens"), 16);
            assert_eq!(
                refused(&file),
                GgufError::ArrayLength {
                    offset,
                    key,
                    len,
                    remaining
                }
            );
        }
    }
}

#[test]
fn hostile_vocabularies() {
    let key = "tokenizer.ggml.tokens";
    let value = || Place::Value(name(key));
    let two = |second: Raw| {
        Raw::new(0, 1)
            .array(key, STR, 2, &Raw(vec![]).text(b"a").0)
            .bytes(&second.0)
            .0
    };
    let at = HEADER + 45 + 9;
    for needed in [10, u64::MAX] {
        let file = two(Raw(vec![]).u64(needed).bytes(b"123456789"));
        let (offset, remaining) = (at + 8, 9);
        assert_eq!(
            refused(&file),
            GgufError::Truncated {
                offset,
                needed,
                remaining,
                place: value()
            }
        );
    }
    let file = two(Raw(vec![]).text(b"ab\xff"));
    assert_eq!(
        refused(&file),
        GgufError::NotUtf8 {
            offset: at + 10,
            place: value()
        }
    );
    let file = two(Raw(vec![]).text(b"\xed\xa0\x80"));
    assert_eq!(
        refused(&file),
        GgufError::NotUtf8 {
            offset: at + 8,
            place: value()
        }
    );
}

#[test]
fn value_types() {
    for id in [13, 255, u32::MAX] {
        let file = Raw::new(0, 1).pair("k", id, &[0; 16]).0;
        assert_eq!(
            refused(&file),
            GgufError::UnknownValueType {
                offset: HEADER + 9,
                key: name("k"),
                id
            }
        );
        let file = Raw::new(0, 1).array("k", id, 0, &[]).0;
        assert_eq!(
            refused(&file),
            GgufError::UnknownValueType {
                offset: HEADER + 13,
                key: name("k"),
                id
            }
        );
    }
    let mut nested = Raw::new(0, 1).pair("k", 9, &[]);
    for _ in 0..100_000 {
        nested = nested.u32(9).u64(1);
    }
    assert_eq!(
        refused(&nested.0),
        GgufError::NestedArray {
            offset: HEADER + 13,
            key: name("k")
        }
    );
}

#[test]
fn bools_are_0_or_1() {
    let file = Raw::new(0, 1).pair("k", 7, &[2]).0;
    assert_eq!(
        refused(&file),
        GgufError::BadBool {
            offset: HEADER + 13,
            key: name("k"),
            found: 2
        }
    );
    let file = Raw::new(0, 1).array("k", 7, 3, &[1, 0, 255]).0;
    assert_eq!(
        refused(&file),
        GgufError::BadBool {
            offset: HEADER + 27,
            key: name("k"),
            found: 255
        }
    );
}

#[test]
fn text_is_utf_8() {
    let file = Raw::new(0, 1).text(b"ke\xc3\x28").u32(U32).u32(1).0;
    assert_eq!(
        refused(&file),
        GgufError::NotUtf8 {
            offset: HEADER + 10,
            place: Place::Key(0)
        }
    );
    let file = Raw::new(0, 1).pair("k", STR, &[]).text(b"\x80").0;
    let place = Place::Value(name("k"));
    assert_eq!(
        refused(&file),
        GgufError::NotUtf8 {
            offset: HEADER + 21,
            place
        }
    );
    let file = Raw::new(1, 0).text(b"t\xfe").bytes(&[0; 64]).0;
    assert_eq!(
        refused(&file),
        GgufError::NotUtf8 {
            offset: HEADER + 9,
            place: Place::TensorName(0)
        }
    );
}

#[test]
fn duplicate_keys_and_names() {
    let file = Raw::new(0, 3)
        .pair("a", 0, &[1])
        .pair("b", 0, &[1])
        .pair("a", 0, &[1])
        .0;
    assert_eq!(
        refused(&file),
        GgufError::DuplicateKey {
            offset: HEADER + 28,
            key: name("a")
        }
    );
    let file = Raw::new(2, 0)
        .tensor("t", &[8], F32, 0)
        .tensor("t", &[8], F32, 32)
        .data(32, 64);
    assert_eq!(
        refused(&file),
        GgufError::DuplicateTensor {
            offset: HEADER + 33,
            tensor: name("t")
        }
    );
}

#[test]
fn alignments() {
    for found in [0, 1, 2, 4, 12, 24, 33, 48, 1 << 21, 1 << 31, u32::MAX] {
        let file = Raw::new(1, 1).pair("general.alignment", U32, &found.to_le_bytes());
        let file = file.tensor("t", &[1], F32, 0).data(32, 4);
        assert_eq!(
            refused(&file),
            GgufError::Alignment {
                offset: HEADER,
                found: found.into()
            }
        );
    }
    for (id, found) in [
        (10, ValueType::U64),
        (STR, ValueType::Str),
        (0, ValueType::U8),
    ] {
        let file = Raw::new(0, 1)
            .pair("general.alignment", id, &0u64.to_le_bytes())
            .0;
        let key = name("general.alignment");
        assert_eq!(
            refused(&file),
            GgufError::WrongType {
                key,
                expected: ValueType::U32,
                found
            }
        );
    }
    let file = Raw::new(0, 1)
        .pair("general.alignment", U32, &(1u32 << 20).to_le_bytes())
        .0;
    assert_eq!(
        Gguf::parse(&file)
            .expect("no tensor needs the padding")
            .alignment(),
        1 << 20
    );
}

/// The error for one tensor with these dimensions.
fn shape_error(dims: &[u64], ty: u32) -> ShapeError {
    match refused(&Raw::new(1, 0).tensor("t", dims, ty, 0).data(32, 4096)) {
        GgufError::Shape {
            offset: HEADER,
            tensor,
            source,
        } if tensor == name("t") => source,
        other => panic!("{dims:?}: {other}"),
    }
}

#[test]
fn dimensions() {
    assert_eq!(shape_error(&[], F32), ShapeError::DimCount { count: 0 });
    assert_eq!(shape_error(&[1; 5], F32), ShapeError::DimCount { count: 5 });
    let file = Raw::new(1, 0).text(b"t").u32(u32::MAX).data(32, 4096);
    let source = ShapeError::DimCount {
        count: u32::MAX.into(),
    };
    assert_eq!(
        refused(&file),
        GgufError::Shape {
            offset: HEADER,
            tensor: name("t"),
            source
        }
    );
    for axis in 0..4u8 {
        let mut dims = [32; 4];
        dims[usize::from(axis)] = 0;
        for ty in [F32, Q4_0] {
            assert_eq!(shape_error(&dims, ty), ShapeError::ZeroDim { axis });
        }
    }
    assert_eq!(
        shape_error(&[33, 2], Q4_0),
        ShapeError::PartialBlock {
            ty: GgmlType::Q4_0,
            cols: 33
        }
    );
    assert_eq!(
        shape_error(&[16, 2], Q4_0),
        ShapeError::PartialBlock {
            ty: GgmlType::Q4_0,
            cols: 16
        }
    );
}

#[test]
fn products_of_dimensions_do_not_wrap() {
    let wrapping: [&[u64]; 8] = [
        &[1 << 62],
        &[1 << 32, 1 << 32],
        &[1 << 16, 1 << 16, 1 << 16, 1 << 16],
        &[32, 1 << 59],
        &[1 << 63, 2],
        &[(1 << 62) + 32],
        &[u64::MAX],
        &[1 << 61, 1 << 61, 1 << 61, 1 << 61],
    ];
    for dims in wrapping {
        assert_eq!(shape_error(dims, F32), ShapeError::Overflow, "{dims:?}");
    }
    // The bytes would fit in 64 bits, the elements not.
    assert_eq!(shape_error(&[1 << 60, 16], Q4_0), ShapeError::Overflow);
}

#[test]
fn tensor_names() {
    for len in [0, 256, 1 << 20, u64::MAX] {
        let file = Raw::new(1, 0).u64(len).bytes(&[b't'; 300]).0;
        assert_eq!(
            refused(&file),
            GgufError::TensorNameLength {
                offset: HEADER,
                len
            }
        );
    }
}

#[test]
fn tensor_types() {
    for id in [4, 5, 31, 32, 33, 36, 37, 38, 1000, u32::MAX] {
        let file = Raw::new(1, 0).tensor("t", &[256], id, 0).data(32, 4096);
        let tensor = name("t");
        assert_eq!(
            refused(&file),
            GgufError::UnknownTensorType {
                offset: HEADER + 21,
                tensor,
                id
            }
        );
    }
}

#[test]
fn extents_lie_in_the_file() {
    let file = |dims: &[u64], start| Raw::new(1, 0).tensor("t", dims, F32, start).data(32, 64);
    assert!(Gguf::parse(&file(&[16], 0)).is_ok());
    assert!(Gguf::parse(&file(&[8], 32)).is_ok());
    for start in [1, 4, 31, 33, u64::MAX] {
        let (offset, tensor, alignment) = (HEADER, name("t"), 32);
        assert_eq!(
            refused(&file(&[8], start)),
            GgufError::Unaligned {
                offset,
                tensor,
                start,
                alignment
            }
        );
    }
    let outside = |dims: &[u64], start, len| {
        let (offset, tensor, section) = (HEADER, name("t"), 64);
        let expected = GgufError::OutsideFile {
            offset,
            tensor,
            start,
            len,
            section,
        };
        assert_eq!(refused(&file(dims, start)), expected);
    };
    outside(&[17], 0, 68);
    outside(&[9], 32, 36);
    outside(&[1], 64, 4);
    outside(&[1], 1 << 40, 4);
    outside(&[1 << 61], 32, 1 << 63);
    // Offset and length wrap to a range inside the file.
    outside(&[16], u64::MAX - 31, 64);
    outside(&[(1 << 62) - 1], 64, u64::MAX - 3);

    // One byte short.
    let mut cut = file(&[16], 0);
    cut.pop();
    assert!(matches!(
        refused(&cut),
        GgufError::OutsideFile { section: 63, .. }
    ));
    // The file ends before its data section.
    let cut = Raw::new(1, 0).tensor("t", &[1], F32, 0).0;
    assert!(matches!(
        refused(&cut),
        GgufError::OutsideFile { section: 0, .. }
    ));
}

#[test]
fn no_byte_belongs_to_two_tensors() {
    let file = |a, b| {
        let raw = Raw::new(2, 0)
            .tensor("a", &[16], F32, a)
            .tensor("b", &[16], F32, b);
        raw.data(32, 256)
    };
    assert!(Gguf::parse(&file(64, 0)).is_ok());
    let (offset, tensor, other) = (HEADER + 33, name("b"), name("a"));
    let expected = GgufError::Overlap {
        offset,
        tensor,
        other,
    };
    assert_eq!(refused(&file(0, 0)), expected);
    assert_eq!(refused(&file(0, 32)), expected);
    let (offset, tensor, other) = (HEADER, name("a"), name("b"));
    assert_eq!(
        refused(&file(32, 0)),
        GgufError::Overlap {
            offset,
            tensor,
            other
        }
    );
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

#[test]
fn long_keys_that_differ_at_the_end_sort_in_time() {
    let prefix = "k".repeat(65_530);
    let mut raw = Raw::new(0, 1000);
    for key in 0..999 {
        raw = raw.pair(&format!("{prefix}{key:05}"), 0, &[0]);
    }
    let file = raw.pair(&format!("{prefix}00000"), 0, &[0]).0;
    assert!(matches!(refused(&file), GgufError::DuplicateKey { .. }));
}
