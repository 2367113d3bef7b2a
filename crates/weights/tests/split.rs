//! Split sets: names, completeness, and parts that do not belong together.

use crate::content::assemble;
use strata_weights::gguf::{Builder, Gguf, GgufError, GgufSet, Name, SplitError, SplitName};
use strata_weights::{GgmlType, ValueType};

#[test]
fn names_of_parts() {
    let name = SplitName::parse("dir/foo-00002-of-00003.gguf").expect("a part's name");
    assert_eq!(
        (name.prefix.as_str(), name.index, name.count),
        ("dir/foo", 2, 3)
    );
    let names: Vec<String> = name.names().collect();
    let expected = [
        "dir/foo-00001-of-00003.gguf",
        "dir/foo-00002-of-00003.gguf",
        "dir/foo-00003-of-00003.gguf",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        SplitName::parse("a-b-00001-of-00001.gguf").map(|name| name.prefix),
        Some("a-b".into())
    );
    let not_parts = [
        "foo.gguf",
        "foo-00002-of-00005",
        "foo-2-of-5.gguf",
        "foo-00000-of-00005.gguf",
        "foo-00006-of-00005.gguf",
        "foo-00001-of-00000.gguf",
        "foo-00001-of-99999.gguf",
        "foo-+0001-of-00005.gguf",
        "foo-00001-of-0000\u{0665}.gguf",
        "00001-of-00005.gguf",
        "",
    ];
    for name in not_parts {
        assert_eq!(SplitName::parse(name), None, "{name}");
    }
}

/// A part with one tensor.
struct Part {
    number: Option<u16>,
    count: Option<u16>,
    total: i32,
    tensor: &'static str,
    model: &'static str,
}

const PART: Part = Part {
    number: Some(0),
    count: Some(3),
    total: 3,
    tensor: "a",
    model: "m",
};

impl Part {
    fn file(&self) -> Vec<u8> {
        let mut builder = Builder::new();
        builder.set("general.name", self.model).expect("a pair");
        if let Some(number) = self.number {
            builder.set("split.no", number).expect("a pair");
        }
        if let Some(count) = self.count {
            builder.set("split.count", count).expect("a pair");
        }
        builder
            .set("split.tensors.count", self.total)
            .expect("a pair");
        builder
            .tensor(self.tensor, GgmlType::I8, &[3])
            .expect("a tensor");
        assemble(&builder.finish().expect("a layout"), [&[1u8, 2, 3][..]])
    }
}

fn join(parts: &[Part]) -> Result<Vec<String>, SplitError> {
    let files: Vec<Vec<u8>> = parts.iter().map(Part::file).collect();
    let set = GgufSet::new(
        files
            .iter()
            .map(|file| Gguf::parse(file).expect("a file"))
            .collect(),
    )?;
    assert_eq!(set.parts() as usize, parts.len());
    for tensor in set.tensors() {
        assert_eq!(
            set.tensor(tensor.name).map(|found| found.data),
            Some(tensor.data)
        );
    }
    Ok(set
        .tensors()
        .iter()
        .map(|tensor| tensor.name.to_owned())
        .collect())
}

fn second() -> Part {
    Part {
        number: Some(1),
        tensor: "b",
        ..PART
    }
}

fn third() -> Part {
    Part {
        number: Some(2),
        tensor: "c",
        ..PART
    }
}

#[test]
fn parts_join_in_any_order() {
    assert_eq!(
        join(&[PART, second(), third()]),
        Ok(vec!["a".into(), "b".into(), "c".into()])
    );
    assert_eq!(
        join(&[third(), PART, second()]),
        Ok(vec!["a".into(), "b".into(), "c".into()])
    );
}

#[test]
fn a_whole_file_is_a_set_of_one() {
    assert_eq!(
        join(&[Part {
            number: None,
            count: None,
            ..PART
        }]),
        Ok(vec!["a".into()])
    );
    assert_eq!(
        join(&[Part {
            count: Some(1),
            total: 1,
            ..PART
        }]),
        Ok(vec!["a".into()])
    );
}

#[test]
fn missing_parts_are_named() {
    let missing = |part| Err(SplitError::MissingPart { part, count: 3 });
    assert_eq!(join(&[PART]), missing(2));
    assert_eq!(join(&[PART, second()]), missing(3));
    assert_eq!(join(&[PART, third()]), missing(2));
    assert_eq!(join(&[third(), second()]), missing(1));
    assert_eq!(join(&[]), Err(SplitError::Empty));
}

#[test]
fn parts_given_twice_are_named() {
    let twice = Err(SplitError::DuplicatePart { part: 2, count: 3 });
    assert_eq!(join(&[PART, second(), second()]), twice);
    assert_eq!(join(&[PART, second(), second(), third()]), twice);
}

#[test]
fn parts_of_different_models_are_named() {
    let other = Part {
        model: "other",
        ..second()
    };
    let key = Name::new("general.name");
    assert_eq!(
        join(&[PART, other, third()]),
        Err(SplitError::Mixed { part: 2, key })
    );
    let other = Part {
        count: Some(4),
        ..third()
    };
    let expected = SplitError::PartCount {
        part: 3,
        found: 4,
        expected: 3,
    };
    assert_eq!(join(&[PART, second(), other]), Err(expected));
    let other = Part {
        total: 7,
        ..second()
    };
    let key = Name::new("split.tensors.count");
    assert_eq!(
        join(&[PART, other, third()]),
        Err(SplitError::Mixed { part: 2, key })
    );
    let same = Part {
        tensor: "a",
        ..third()
    };
    let tensor = Name::new("a");
    assert_eq!(
        join(&[PART, second(), same]),
        Err(SplitError::DuplicateTensor { part: 3, tensor })
    );
}

#[test]
fn numbers_must_make_sense() {
    let whole = Part {
        number: None,
        count: None,
        ..PART
    };
    let expected = SplitError::NotSplit {
        position: 2,
        key: "split.count",
    };
    assert_eq!(join(&[PART, whole]), Err(expected));
    let expected = SplitError::NotSplit {
        position: 1,
        key: "split.no",
    };
    assert_eq!(
        join(&[Part {
            number: None,
            ..PART
        }]),
        Err(expected)
    );
    let expected = SplitError::PartNumber {
        position: 1,
        part: 4,
        count: 3,
    };
    assert_eq!(
        join(&[Part {
            number: Some(3),
            ..PART
        }]),
        Err(expected)
    );
    let short = [0u16, 1, 2].map(|number| Part {
        number: Some(number),
        total: 5,
        tensor: ["a", "b", "c"][usize::from(number)],
        ..PART
    });
    assert_eq!(
        join(&short),
        Err(SplitError::TensorCount {
            found: 3,
            expected: 5
        })
    );
    let negative = join(&[Part { total: -1, ..PART }]);
    let (key, value, expected) = (Name::new("split.tensors.count"), -1, ValueType::U64);
    let source = GgufError::OutOfRange {
        key,
        value,
        expected,
    };
    assert_eq!(
        negative,
        Err(SplitError::Metadata {
            position: 1,
            source
        })
    );
}
