//! What the writer refuses, and the metadata getters on what it wrote.

use crate::content::assemble;
use strata_weights::gguf::{Builder, Extent, Gguf, GgufError, Name, ShapeError, WriteError};
use strata_weights::{GgmlType, Value, ValueType};

#[test]
fn every_value_type_comes_back_in_order() {
    let mut builder = Builder::new();
    let tokens = vec![String::from("<s>"), String::from("été")];
    (|| {
        builder
            .set("u8", 255u8)?
            .set("i8", -1i8)?
            .set("u16", 65_535u16)?
            .set("i16", -2i16)?;
        builder
            .set("u32", u32::MAX)?
            .set("i32", i32::MIN)?
            .set("f32", 0.5f32)?;
        builder
            .set("bool", true)?
            .set("str", "text")?
            .set("u64", u64::MAX)?;
        builder
            .set("i64", i64::MIN)?
            .set("f64", 1e300f64)?
            .set("empty", "")?;
        builder
            .set_array("tokens", &tokens)?
            .set_array("scores", [0.5f32, -1.0])?;
        builder
            .set_array("none", core::iter::empty::<i64>())?
            .set_array("flags", [true, false])?;
        Ok::<_, WriteError>(())
    })()
    .expect("all valid");
    let layout = builder.finish().expect("a layout");
    let gguf = Gguf::parse(&layout.header).expect("a file");
    let metadata = gguf.metadata();

    let keys: Vec<&str> = metadata.iter().map(|(key, _)| key).collect();
    let expected = [
        "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "u64", "i64", "f64", "empty",
        "tokens", "scores", "none", "flags",
    ];
    assert_eq!(keys, expected);
    assert_eq!(metadata.get("i8"), Some(Value::I8(-1)));
    assert_eq!(metadata.get("f64"), Some(Value::F64(1e300)));
    assert_eq!(metadata.str("empty"), Ok(Some("")));
    let array = |key| metadata.array(key).expect("an array").expect("present");
    assert!(array("tokens").strs().expect("strings").eq(["<s>", "été"]));
    assert!(array("scores").f32s().expect("floats").eq([0.5, -1.0]));
    assert!(array("flags").bools().expect("bools").eq([true, false]));
    assert_eq!(
        (array("none").len(), array("none").element_type()),
        (0, ValueType::I64)
    );
    assert!(array("scores").i32s().is_none() && array("scores").integers().is_none());
}

#[test]
fn getters_convert_what_fits_and_name_what_does_not() {
    let mut builder = Builder::new();
    builder
        .set("small", 7u8)
        .expect("a pair")
        .set("negative", -1i32)
        .expect("a pair");
    builder
        .set("huge", u64::MAX)
        .expect("a pair")
        .set("double", 0.25f64)
        .expect("a pair");
    let layout = builder.finish().expect("a layout");
    let gguf = Gguf::parse(&layout.header).expect("a file");
    let metadata = gguf.metadata();
    assert_eq!(metadata.u32("small"), Ok(Some(7)));
    assert_eq!(metadata.i64("negative"), Ok(Some(-1)));
    assert_eq!(metadata.f32("double"), Ok(Some(0.25)));
    assert_eq!(metadata.u32("absent"), Ok(None));
    let range = |key, value, expected| GgufError::OutOfRange {
        key: Name::new(key),
        value,
        expected,
    };
    assert_eq!(
        metadata.u64("negative"),
        Err(range("negative", -1, ValueType::U64))
    );
    assert_eq!(
        metadata.i64("huge"),
        Err(range("huge", u64::MAX.into(), ValueType::I64))
    );
    let (key, expected, found) = (Name::new("small"), ValueType::Str, ValueType::U8);
    assert_eq!(
        metadata.str("small"),
        Err(GgufError::WrongType {
            key,
            expected,
            found
        })
    );
    let (key, expected, found) = (Name::new("double"), ValueType::U32, ValueType::F64);
    assert_eq!(
        metadata.u32("double"),
        Err(GgufError::WrongType {
            key,
            expected,
            found
        })
    );
}

#[test]
fn extents_follow_the_alignment() {
    let mut builder = Builder::new();
    builder
        .set("general.alignment", 64u32)
        .expect("an alignment");
    builder
        .tensor("a", GgmlType::Q4_0, &[32, 5])
        .expect("a tensor");
    builder.tensor("b", GgmlType::F32, &[16]).expect("a tensor");
    let layout = builder.finish().expect("a layout");
    let expected = [
        Extent {
            offset: 0,
            len: 90,
            padded_len: 128,
        },
        Extent {
            offset: 128,
            len: 64,
            padded_len: 64,
        },
    ];
    assert_eq!(layout.tensors, expected);
    assert_eq!(layout.header.len() % 64, 0);
    assert_eq!(layout.total_len, layout.header.len() as u64 + 192);
    let file = assemble(&layout, [&[7u8; 90][..], &[9; 64]]);
    let gguf = Gguf::parse(&file).expect("a file");
    assert_eq!(gguf.data_offset(), layout.header.len() as u64);
    assert_eq!(gguf.tensor("b").expect("declared").data, [9; 64]);
}

#[test]
fn what_the_reader_refuses_is_not_written() {
    let mut builder = Builder::new();
    builder
        .set("k", 1u8)
        .expect("a pair")
        .tensor("t", GgmlType::F32, &[1])
        .expect("a tensor");
    let before = builder.finish().expect("a layout").header;

    let key = Name::new("k");
    assert_eq!(
        builder.set("k", 2u8).err(),
        Some(WriteError::DuplicateKey { key: key.clone() })
    );
    assert_eq!(
        builder.set_array("k", [1u8]).err(),
        Some(WriteError::DuplicateKey { key })
    );
    assert_eq!(
        builder.set("", 1u8).err(),
        Some(WriteError::KeyLength { len: 0 })
    );
    let long = "k".repeat(65_536);
    assert_eq!(
        builder.set(&long, 1u8).err(),
        Some(WriteError::KeyLength { len: 65_536 })
    );
    for alignment in [0, 4, 24, 1 << 21] {
        assert_eq!(
            builder.set("general.alignment", alignment).err(),
            Some(WriteError::Alignment)
        );
    }
    assert_eq!(
        builder.set("general.alignment", 64u64).err(),
        Some(WriteError::Alignment)
    );
    assert_eq!(
        builder.set_array("general.alignment", [64u32]).err(),
        Some(WriteError::Alignment)
    );

    let mut refuse = |name: &str, ty, dims: &[u64]| builder.tensor(name, ty, dims).map(drop);
    let tensor = Name::new("t");
    assert_eq!(
        refuse("t", GgmlType::F32, &[1]),
        Err(WriteError::DuplicateTensor { tensor })
    );
    assert_eq!(
        refuse("", GgmlType::F32, &[1]),
        Err(WriteError::TensorNameLength { len: 0 })
    );
    let long = "n".repeat(256);
    assert_eq!(
        refuse(&long, GgmlType::F32, &[1]),
        Err(WriteError::TensorNameLength { len: 256 })
    );
    let shapes: [(&[u64], ShapeError); 5] = [
        (&[], ShapeError::DimCount { count: 0 }),
        (&[32; 5], ShapeError::DimCount { count: 5 }),
        (&[32, 0], ShapeError::ZeroDim { axis: 1 }),
        (
            &[31],
            ShapeError::PartialBlock {
                ty: GgmlType::Q8_0,
                cols: 31,
            },
        ),
        (&[1 << 40, 1 << 40], ShapeError::Overflow),
    ];
    for (dims, source) in shapes {
        let tensor = Name::new("u");
        assert_eq!(
            refuse("u", GgmlType::Q8_0, dims),
            Err(WriteError::Shape { tensor, source })
        );
    }
    assert_eq!(
        builder.finish().expect("a layout").header,
        before,
        "a refusal left a trace"
    );

    builder
        .tensor("u", GgmlType::I8, &[1 << 63])
        .expect("fits")
        .tensor("v", GgmlType::I8, &[1 << 63])
        .expect("fits");
    assert_eq!(builder.finish().err(), Some(WriteError::TooLong));
}
