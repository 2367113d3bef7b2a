//! Hostile metadata: lengths, types, text, duplicates, alignments.

use strata_weights::ValueType;
use strata_weights::gguf::{Gguf, GgufError, GgufSection};

use crate::raw_file::Raw;
use crate::{F32, HEADER, STR, U32, name, refused};

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
    let place = GgufSection::Key(0);
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
        let (offset, remaining, place) = (HEADER + 21, 3, GgufSection::Value(name("k")));
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
    let value = || GgufSection::Value(name(key));
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
            place: GgufSection::Key(0)
        }
    );
    let file = Raw::new(0, 1).pair("k", STR, &[]).text(b"\x80").0;
    let place = GgufSection::Value(name("k"));
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
            place: GgufSection::TensorName(0)
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
