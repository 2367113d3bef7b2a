//! Image files, a target for each format, and the projectors that make embeddings of them.

use crate::corpus::repository;
use crate::outcome::magnitude;
use crate::{Outcome, Target};
use strata_model::Tower;
use strata_platform::{Inline, SystemMemory};
use strata_vision::{Limits, decode};
use strata_weights::gguf::Builder;
use strata_weights::{GgmlType, Gguf, GgufSet};

/// What is allowed here, so that inputs are quick.
const LIMITS: Limits = Limits {
    bytes: 1 << 20,
    pixels: 1 << 18,
    side: 4096,
};

pub(super) const PNG: Target = Target {
    words: &[
        "\u{89}PNG",
        "IHDR",
        "IDAT",
        "PLTE",
        "tRNS",
        "eXIf",
        "acTL",
        "fdAT",
        "IEND",
    ],
    ..Target::new("png", "a file to the reader of PNG images", picture)
};

pub(super) const JPEG: Target = Target {
    words: &["Exif\0\0", "II*\0", "MM\0*", "JFIF\0", "Adobe"],
    ..Target::new("jpeg", "a file to the reader of JPEG images", picture)
};

pub(super) const WEBP: Target = Target {
    words: &[
        "RIFF", "WEBP", "VP8 ", "VP8L", "VP8X", "ALPH", "ANIM", "ANMF", "EXIF",
    ],
    ..Target::new("webp", "a file to the reader of WebP images", picture)
};

pub(super) const GIF: Target = Target {
    words: &["GIF89a", "GIF87a", "NETSCAPE2.0", "!\u{b}", ",", ";"],
    ..Target::new("gif", "a file to the reader of GIF images", picture)
};

pub(super) const BMP: Target = Target {
    words: &["BM"],
    ..Target::new("bmp", "a file to the reader of Windows bitmaps", picture)
};

pub(super) const PROJECTOR: Target = Target {
    made_seeds: projectors,
    words: &[
        "clip.projector_type",
        "clip.vision.",
        "v.blk.",
        "mm.",
        "gemma3",
        "mlp",
    ],
    ..Target::new(
        "projector",
        "a GGUF file to the loader of vision towers",
        projector,
    )
};

fn picture(bytes: &[u8]) -> Outcome {
    match decode(bytes, LIMITS) {
        Err(error) => Outcome::refused(&error),
        Ok(image) => {
            assert_eq!(image.pixels.len(), image.width * image.height * 3);
            assert!(image.width * image.height <= LIMITS.pixels);
            Outcome::taken((magnitude(image.width), magnitude(image.height)))
        }
    }
}

fn projector(bytes: &[u8]) -> Outcome {
    let Ok(gguf) = Gguf::parse(bytes) else {
        return Outcome::ignored();
    };
    let Ok(set) = GgufSet::new(vec![gguf]) else {
        return Outcome::ignored();
    };
    match Tower::load(&set, &SystemMemory, &Inline) {
        Err(error) => Outcome::refused(&error),
        Ok(tower) => Outcome::taken((tower.config().family, tower.config().layers)),
    }
}

/// The golden projectors with their matrices in half floats, so that most of them are short enough for mutants.
fn projectors() -> Vec<Vec<u8>> {
    let folder = repository().join("crates/model/tests/golden_vision");
    let names = ["llava", "gemma3", "idefics3", "mistral3", "pixtral"];
    let files = names.map(|name| std::fs::read(folder.join(format!("{name}.mmproj.gguf"))));
    let files = files.iter().flatten();
    files.map(|file| halved(file)).collect()
}

/// A file of the same metadata and shapes. Its numbers are zeros: nothing computes with them here.
pub(super) fn halved(file: &[u8]) -> Vec<u8> {
    let gguf = Gguf::parse(file).expect("a golden file");
    let mut builder = Builder::new();
    for (key, value) in gguf.metadata().iter() {
        builder.set_value(key, value).expect("a read pair");
    }
    for tensor in gguf.tensors() {
        let ty = if tensor.dims.len() > 1 {
            GgmlType::F16
        } else {
            tensor.ty
        };
        builder
            .tensor(tensor.name, ty, &tensor.dims)
            .expect("a read tensor");
    }
    let layout = builder.finish().expect("a small file");
    let mut halved = layout.header;
    halved.resize(layout.total_len as usize, 0);
    halved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halved_projectors_are_loaded() {
        let projectors = projectors();
        assert_eq!(projectors.len(), 5);
        for file in projectors {
            let set = GgufSet::new(vec![Gguf::parse(&file).unwrap()]).unwrap();
            let tower = Tower::load(&set, &SystemMemory, &Inline);
            assert!(tower.is_ok(), "{}", tower.err().unwrap());
            assert!(file.len() <= 64 << 10, "{} bytes", file.len());
        }
    }
}
