//! What a model file is made of.

use crate::gguf::ModelFile;
use crate::svg::bars;

/// The parts of a file, by the megabytes of its tensors.
pub(super) fn file_picture(file: &ModelFile<'_>) -> String {
    let mut parts = vec![
        ("embeddings".to_string(), 0.0),
        ("attention".to_string(), 0.0),
        ("feed-forward".to_string(), 0.0),
        ("norms".to_string(), 0.0),
    ];
    for (name, tensor) in &file.tensors {
        let part = match *name {
            name if name.contains("norm") => 3,
            name if name.contains("attn") => 1,
            name if name.contains("ffn") => 2,
            _ => 0,
        };
        parts[part].1 += tensor.data.len() as f64 / 1e6;
    }
    bars("Megabytes of the built-in model", &parts)
}
