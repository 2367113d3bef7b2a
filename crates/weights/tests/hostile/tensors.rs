//! Hostile tensors: dimensions, names, types, extents.

use strata_weights::GgmlType;
use strata_weights::gguf::{Gguf, GgufError, ShapeError};

use crate::raw_file::Raw;
use crate::{F32, HEADER, Q4_0, name, refused};

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
