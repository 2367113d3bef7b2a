//! What recipes make of images against transformers' own processors.

use crate::vectors::{bytes, number, read};
use serde_json::Value;
use std::collections::BTreeMap;
use strata_vision::{Bitmap, Filter, Fit, Recipe, Tile};

/// The image that `tools/vision_vectors.py` makes too.
fn formula(width: usize, height: usize) -> Bitmap {
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let color = |(x, y): (usize, usize)| {
        [0, 1, 2].map(|c| {
            let wave = (x * 37 + y * 17) % 29 * 4;
            (x * x * 3 + y * y * 5 + x * y * 2 + c * 85 + wave) as u8
        })
    };
    Bitmap {
        width,
        height,
        pixels: places.flat_map(color).collect(),
    }
}

fn recipe(name: &str) -> Recipe {
    let (fit, size, square) = match name {
        "pad" => (Fit::Pad, 24, 1),
        "crop" => (Fit::Crop, 24, 1),
        "stretch" => (Fit::Stretch(Filter::Bilinear), 24, 1),
        "area" => {
            let (least, most) = (4 * 144, 16 * 144);
            (Fit::Area { least, most }, 0, 12)
        }
        "longest" => (Fit::Longest(40), 0, 6),
        "grid" => (Fit::Grid(6), 16, 1),
        "budget" => (Fit::Budget(70), 0, 6),
        "canvas" => (Fit::Canvas(6), 16, 1),
        "slices" => (Fit::Slices(9), 24, 8),
        "tiled" => (Fit::Tiled(64), 16, 1),
        "pinpoints" => {
            let sizes = [(12, 24), (24, 12), (24, 24), (36, 12), (12, 36)];
            (Fit::Pinpoints(sizes.to_vec()), 12, 1)
        }
        other => panic!("{other}"),
    };
    Recipe {
        fit,
        size,
        square,
        mean: [0.48145466, 0.4578275, 0.40821073],
        deviation: [0.26862954, 0.2613026, 0.2757771],
    }
}

/// The largest difference of a tile's pixels from expected ones, in levels.
fn difference(recipe: &Recipe, tile: &Tile, expected: &Value) -> f32 {
    let size = (number(expected, "width"), number(expected, "height"));
    assert_eq!((tile.width, tile.height), size);
    let plane = tile.width * tile.height;
    let pixels = tile.pixels.iter().zip(bytes(&expected["pixels"]));
    let differences = pixels.enumerate().map(|(at, (value, byte))| {
        let (mean, deviation) = (recipe.mean[at / plane], recipe.deviation[at / plane]);
        let level = (value * deviation + mean) * 255.0;
        (level - f32::from(byte)).abs().round()
    });
    differences.fold(0.0, f32::max)
}

#[test]
fn pixels_are_those_of_transformers_within_one_level() {
    let mut compared: BTreeMap<String, (usize, f32)> = BTreeMap::new();
    for case in [read("recipes.json"), read("by_budget.json")]
        .into_iter()
        .flatten()
    {
        let name = case["recipe"].as_str().unwrap();
        let size = (number(&case, "width"), number(&case, "height"));
        let recipe = recipe(name);
        let seen = recipe.apply(&formula(size.0, size.1)).unwrap();
        let tiles = case["tiles"].as_array().unwrap();
        assert_eq!(seen.tiles.len(), tiles.len(), "{name} {size:?}");
        for (index, (tile, expected)) in seen.tiles.iter().zip(tiles).enumerate() {
            // Where transformers' two ways of resizing differ themselves, either will do.
            let other = case["torchvision"].get(index).into_iter();
            let worst = [expected].into_iter().chain(other);
            let worst = worst.map(|expected| difference(&recipe, tile, expected));
            let worst = worst.fold(f32::INFINITY, f32::min);
            assert!(worst <= 1.0, "{name} {size:?} tile {index}: {worst}");
            let entry = compared.entry(name.into()).or_default();
            *entry = (entry.0 + 1, entry.1.max(worst));
        }
    }
    assert_eq!(compared.len(), 11, "{compared:?}");
}

#[test]
fn shapes_that_no_family_takes_are_refused() {
    let line = Bitmap::filled(2010, 10, [9; 3]);
    let refused = recipe("area").apply(&line).unwrap_err().to_string();
    assert!(
        refused.contains("201") && refused.contains("200"),
        "{refused}"
    );
    let line = Bitmap::filled(16_000, 1, [9; 3]);
    let crop = Recipe {
        size: 448,
        ..recipe("crop")
    };
    let refused = crop.apply(&line).unwrap_err().to_string();
    assert!(refused.contains("16000×1"), "{refused}");
    let vast = Recipe {
        fit: Fit::Pinpoints(vec![(12_000, 12_000)]),
        ..recipe("pinpoints")
    };
    let refused = vast.apply(&line).unwrap_err().to_string();
    assert!(refused.contains("144000000"), "{refused}");
}
