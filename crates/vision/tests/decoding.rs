//! Files of every format against what Pillow reads from them.

use crate::vectors::{bytes, number, read};
use strata_vision::{Bitmap, DecodeError, Limits, decode};

/// How far colors of formats that lose some may differ between decoders.
fn tolerance(name: &str) -> u8 {
    if name.starts_with("jpeg, 4:2:0") {
        // Decoders fill in the colors between in different ways.
        12
    } else if name.starts_with("jpeg") || name.starts_with("webp, lossy") {
        4
    } else {
        0
    }
}

#[test]
fn files_have_the_pixels_that_pillow_reads() {
    let files = read("files.json");
    assert!(files.len() >= 28, "only {} files", files.len());
    for file in &files {
        let name = file["name"].as_str().unwrap();
        let found = decode(&bytes(&file["file"]), Limits::default());
        let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        let size = (number(file, "width"), number(file, "height"));
        assert_eq!((found.width, found.height), size, "{name}");
        let expected = bytes(&file["pixels"]);
        assert_eq!(found.pixels.len(), expected.len(), "{name}");
        let differences = found.pixels.iter().zip(&expected);
        let worst = differences.map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        assert!(worst <= tolerance(name), "{name}: {worst}");
    }
}

#[test]
fn what_is_too_large_or_no_image_is_refused() {
    let files = read("files.json");
    let file = bytes(&files[0]["file"]);
    let small = Limits {
        pixels: 100,
        ..Limits::default()
    };
    let refused = decode(&file, small).unwrap_err().to_string();
    assert!(
        refused.contains("13×9") && refused.contains("100"),
        "{refused}"
    );
    let narrow = Limits {
        side: 12,
        ..Limits::default()
    };
    assert!(matches!(
        decode(&file, narrow),
        Err(DecodeError::TooLarge { .. })
    ));
    let short = Limits {
        bytes: file.len() - 1,
        ..Limits::default()
    };
    assert!(matches!(
        decode(&file, short),
        Err(DecodeError::Bytes { .. })
    ));
    for nothing in [&b""[..], b"hello", b"\x7fELF", b"%PDF-1.7"] {
        assert_eq!(decode(nothing, Limits::default()), Err(DecodeError::Format));
    }
}

#[test]
fn every_orientation_is_its_own_turn() {
    let image = Bitmap {
        width: 3,
        height: 2,
        pixels: (0..18).collect(),
    };
    let turned: Vec<Bitmap> = (1..=8).map(|o| image.clone().upright(o)).collect();
    assert_eq!(turned[0], image);
    for (index, one) in turned.iter().enumerate() {
        let swaps = index >= 4;
        assert_eq!(one.width, if swaps { 2 } else { 3 });
        assert!(turned[..index].iter().all(|other| other != one));
    }
    // Six is a quarter turn to the right: what was on the left is on top.
    assert_eq!(turned[5].pixel(1, 0), image.pixel(0, 0));
    assert_eq!(image.clone().upright(0), image);
}
