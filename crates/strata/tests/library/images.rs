//! Models that see, from an image file to an answer.

use crate::perceiving::{answer, folder_of, request};
use std::path::PathBuf;
use strata::{ContentPart, Generate, Message, Model, Options, Role, image};

fn folder(name: &str, projector: bool) -> (tempfile::TempDir, PathBuf) {
    folder_of("golden_vision", name, projector)
}

fn open(name: &str) -> Model {
    let (_folder, path) = folder(name, true);
    Model::open(path, Options::default().threads(2)).unwrap()
}

/// A Windows bitmap whose colors depend on a number.
pub(crate) fn bitmap(side: u32, seed: u8) -> Vec<u8> {
    let row = (side * 3).next_multiple_of(4);
    let mut file = b"BM".to_vec();
    file.extend((54 + row * side).to_le_bytes());
    file.extend([0; 4]);
    file.extend(54u32.to_le_bytes());
    file.extend(40u32.to_le_bytes());
    file.extend(side.to_le_bytes());
    file.extend(side.to_le_bytes());
    file.extend([1, 0, 24, 0]);
    file.extend([0; 24]);
    for y in 0..side {
        for x in 0..row {
            file.push(((x * 11 + y * 29) as u8).wrapping_mul(seed));
        }
    }
    file
}

fn asking(before: &str, images: &[Vec<u8>]) -> Generate {
    let mut message = Message::text(Role::User, before);
    message.parts.extend(images.iter().cloned().map(image));
    message.parts.push(ContentPart::Text("ABC".into()));
    request(vec![message])
}

#[test]
fn answers_depend_on_the_image_and_the_cache_on_its_pixels() {
    for name in [
        "llava",
        "llava-next",
        "gemma3",
        "internvl",
        "qwen2vl",
        "qwen3vl",
        "mistral3",
        "gemma4",
        "gemma4-small",
        "llama4",
        "minicpmv",
    ] {
        let model = open(name);
        // More than a page before the image.
        let long = "1".repeat(40);
        let one = asking(&long, &[bitmap(20, 3)]);
        let other = asking(&long, &[bitmap(20, 5)]);
        let (first, usage) = answer(&model, &one);
        assert_eq!(usage.cached_tokens, 0, "{name}");
        let (different, apart) = answer(&model, &other);
        assert_ne!(first, different, "{name}: the image shows");
        let text = 32..=41 + 4;
        let shared = apart.cached_tokens;
        assert!(text.contains(&shared), "{name}: {shared}");
        let (again, cached) = answer(&model, &one);
        assert_eq!(first, again, "{name}");
        assert!(
            cached.cached_tokens > 41,
            "{name}: {}",
            cached.cached_tokens
        );
        let fresh = open(name);
        assert_eq!(answer(&fresh, &one).0, first, "{name}");
        assert_eq!(answer(&fresh, &other).0, different, "{name}");
    }
}

#[test]
fn several_images_and_several_requests_at_once_give_what_each_gives_alone() {
    for name in [
        "gemma3",
        "pixtral",
        "llava-next",
        "qwen3vl",
        "gemma4",
        "llama4",
        "minicpmv",
    ] {
        let requests: Vec<Generate> = (1..6)
            .map(|seed| asking("123", &[bitmap(9, seed), bitmap(30, seed + 7)]))
            .collect();
        let alone: Vec<_> = requests
            .iter()
            .map(|request| answer(&open(name), request).0)
            .collect();
        let model = open(name);
        let together: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = requests
                .iter()
                .map(|request| scope.spawn(|| answer(&model, request).0))
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(together == alone, "{name}");
    }
}

#[test]
fn what_a_model_cannot_see_is_refused_with_a_sentence() {
    let (_folder, path) = folder("llava", false);
    let blind = Model::open(&path, Options::default().threads(1)).unwrap();
    let said = |model: &Model, bytes: Vec<u8>| {
        let refused = model.generate(&asking("A", &[bytes]));
        refused.map(|_| ()).unwrap_err().to_string()
    };
    assert!(said(&blind, bitmap(4, 1)).contains("cannot see pictures"));
    let seeing = open("llava");
    assert!(said(&seeing, b"not an image".to_vec()).contains("PNG, JPEG, WebP, GIF and BMP"));
    let mut short = bitmap(4, 1);
    short.truncate(60);
    assert!(said(&seeing, short).contains("cut short"));
    let mut huge = bitmap(4, 1);
    huge[18..26].copy_from_slice(&[0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0]);
    assert!(said(&seeing, huge).contains("65535×65535"));
}

#[test]
fn projectors_of_other_models_are_not_taken() {
    let (_one, llava) = folder("llava", false);
    let (_two, internvl) = folder("internvl", true);
    let projector = internvl.with_file_name("mmproj-model.gguf");
    let options = Options::default().threads(1);
    let refused = Model::open(&llava, options.clone().projector(&projector)).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("32") && refused.contains("24"),
        "{refused}"
    );
    // One that only lies there is left alone, and the model is told to be blind.
    std::fs::copy(&projector, llava.with_file_name("mmproj.gguf")).unwrap();
    let model = Model::open(&llava, options).unwrap();
    let report = &model.load_report().description;
    assert!(report.contains("no images or audio"), "{report}");
}
