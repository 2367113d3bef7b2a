//! A projector in llama.cpp's format: SigLIP, and what Gemma 3 puts behind it.

use super::shape::TowerShape;
use super::{Arguments, Tensor, Values};
use strata_convert::Mix;
use strata_quant::GgmlType;
use strata_weights::gguf::{Builder, Layout, WriteError};

/// Pixels on a side of a patch, and patches on a side of a position.
const PATCH: u64 = 14;
const MERGE: u32 = 4;

/// The type of a matrix with rows of `columns` values. Projectors are published in floats and in 8 bits.
fn matrix_type(mix: Mix, columns: u64) -> GgmlType {
    match mix {
        Mix::F32 => GgmlType::F32,
        Mix::Bf16 => GgmlType::BF16,
        Mix::Q8_0 if columns.is_multiple_of(32) => GgmlType::Q8_0,
        _ => GgmlType::F16,
    }
}

/// Every tensor, in the order that a pass reads them. `text` is the language model's width.
pub(super) fn tensors(shape: &TowerShape, text: u32, mix: Mix) -> Vec<Tensor> {
    let [width, ffn, text] = [shape.width, shape.ffn, text].map(u64::from);
    let side = u64::from(shape.image) / PATCH;
    let keep = |columns: u64| 1.0 / (columns as f32).sqrt();
    // A layer adds two branches; together they grow the stream about as much as it had at the start.
    let branch = (0.5 / shape.layers as f32).sqrt();
    let mut all = Vec::new();
    let mut tensor = |name: &str, ty: GgmlType, dims: &[u64], values: Values| {
        all.push(Tensor {
            name: name.into(),
            ty,
            dims: dims.to_vec(),
            values,
        });
    };
    let float = match mix {
        Mix::F32 => GgmlType::F32,
        _ => GgmlType::F16,
    };
    let pixels = Values::Noise(keep(3 * PATCH * PATCH));
    tensor(
        "v.patch_embd.weight",
        float,
        &[PATCH, PATCH, 3, width],
        pixels,
    );
    tensor("v.patch_embd.bias", GgmlType::F32, &[width], Values::Zeros);
    let places = Values::Noise(0.1);
    let name = "v.position_embd.weight";
    tensor(name, GgmlType::F32, &[width, side * side], places);
    for layer in 0..shape.layers {
        let name = |part: &str, end: &str| format!("v.blk.{layer}.{part}.{end}");
        for (part, columns, rows, scale) in [
            ("attn_q", width, width, 1.0),
            ("attn_k", width, width, 1.0),
            ("attn_v", width, width, 1.0),
            ("attn_out", width, width, branch),
            ("ffn_up", width, ffn, 1.0),
            // The square root of the mean of gelu(x)² is 0.65 for unit normals.
            ("ffn_down", ffn, width, branch / 0.65),
        ] {
            let values = Values::Noise(keep(columns) * scale);
            let ty = matrix_type(mix, columns);
            tensor(&name(part, "weight"), ty, &[columns, rows], values);
            let bias = Values::Noise(0.02);
            tensor(&name(part, "bias"), GgmlType::F32, &[rows], bias);
        }
        for part in ["ln1", "ln2"] {
            let weight = name(part, "weight");
            tensor(&weight, GgmlType::F32, &[width], Values::Ones);
            let bias = name(part, "bias");
            tensor(&bias, GgmlType::F32, &[width], Values::Zeros);
        }
    }
    tensor("v.post_ln.weight", GgmlType::F32, &[width], Values::Ones);
    tensor("v.post_ln.bias", GgmlType::F32, &[width], Values::Zeros);
    let norm = "mm.soft_emb_norm.weight";
    tensor(norm, GgmlType::F32, &[width], Values::Ones);
    // Rows of a language model's embedding are of this size.
    let values = Values::Noise(keep(width) * keep(text));
    tensor("mm.input_projection.weight", float, &[text, width], values);
    all
}

/// The header.
pub(super) fn describe(
    arguments: &Arguments,
    shape: &TowerShape,
    tensors: &[Tensor],
) -> Result<Layout, WriteError> {
    let mut file = Builder::new();
    let key = |name: &str| format!("clip.vision.{name}");
    let text = tensors.last().and_then(|tensor| tensor.dims.first());
    file.set("general.architecture", "clip")?;
    file.set("general.type", "mmproj")?;
    let name = format!("synth {} {}", arguments.shape.name(), arguments.mix.name());
    file.set("general.name", name.as_str())?;
    file.set("clip.has_vision_encoder", true)?;
    file.set("clip.projector_type", "gemma3")?;
    file.set("clip.use_gelu", true)?;
    file.set(&key("image_size"), shape.image)?;
    file.set(&key("patch_size"), PATCH as u32)?;
    file.set(&key("embedding_length"), shape.width)?;
    file.set(&key("feed_forward_length"), shape.ffn)?;
    file.set(&key("block_count"), shape.layers)?;
    file.set(&key("attention.head_count"), shape.heads)?;
    file.set(&key("attention.layer_norm_epsilon"), 1e-6f32)?;
    file.set(&key("projection_dim"), text.map_or(0, |&text| text as u32))?;
    file.set(&key("projector.scale_factor"), MERGE)?;
    for name in ["image_mean", "image_std"] {
        file.set_array(&key(name), [0.5f32; 3])?;
    }
    for tensor in tensors {
        file.tensor(&tensor.name, tensor.ty, &tensor.dims)?;
    }
    file.finish()
}
