//! A Whisper under the keys of `docs/speech.md`.

use super::shape::SpeechShape;
use super::vocabulary::Vocabulary;
use super::{Arguments, Tensor, Values};
use strata_convert::{Mix, ModelFacts, Role};
use strata_quant::GgmlType;
use strata_weights::gguf::{Builder, Layout, WriteError};

const BANDS: u64 = 80;
/// Positions of a window, and of a text.
const AUDIO: u32 = 1500;
const TEXT: u32 = 448;
/// Time stamps: a window in steps of 20 ms, with both ends.
const STAMPS: u32 = AUDIO + 1;

/// The languages, in the order of Whisper's tokens.
const LANGUAGES: &str = "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur \
    hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka \
    be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su";

/// The tokens after those of text.
fn controls() -> Vec<String> {
    let languages = LANGUAGES.split_whitespace();
    let after = [
        "translate",
        "transcribe",
        "startoflm",
        "startofprev",
        "nospeech",
        "notimestamps",
    ];
    let names = ["endoftext", "startoftranscript"].into_iter();
    let names = names.chain(languages).chain(after).map(String::from);
    let stamps = (0..STAMPS).map(|step| format!("{:.2}", f64::from(step) / 50.0));
    names
        .chain(stamps)
        .map(|name| format!("<|{name}|>"))
        .collect()
}

/// Every tensor, in the order that a pass reads them.
pub(super) fn tensors(shape: &SpeechShape, mix: Mix) -> Vec<Tensor> {
    let width = u64::from(shape.width);
    let facts = ModelFacts {
        layers: shape.layers,
        tied: true,
        ..ModelFacts::default()
    };
    let keep = |columns: u64| 1.0 / (columns as f32).sqrt();
    let mut all = Vec::new();
    let mut tensor = |name: String, ty: GgmlType, dims: &[u64], values: Values| {
        all.push(Tensor {
            name,
            ty,
            dims: dims.to_vec(),
            values,
        });
    };
    for (name, channels) in [("enc.conv1", BANDS), ("enc.conv2", width)] {
        let taps = Values::Noise(keep(3 * channels));
        let dims = [3, channels, width];
        tensor(format!("{name}.weight"), GgmlType::F32, &dims, taps);
        let bias = Values::Noise(0.02);
        tensor(format!("{name}.bias"), GgmlType::F32, &[width], bias);
    }
    let ty = mix.choose(Role::Output, &facts, width);
    let dims = [width, u64::from(shape.vocabulary)];
    let embedding = Values::Noise(keep(width));
    tensor("token_embd.weight".into(), ty, &dims, embedding);
    for (part, positions) in [("enc", AUDIO), ("dec", TEXT)] {
        let name = format!("{part}.position_embd.weight");
        let dims = [width, u64::from(positions)];
        tensor(name, GgmlType::F32, &dims, Values::Noise(keep(width)));
        // What a branch adds, so that all together grow the stream about as much as it had at the start.
        let (branches, mixers) = match part {
            "enc" => (2, &["attn"][..]),
            _ => (3, &["attn", "cross_attn"][..]),
        };
        let branch = (1.0 / (branches * shape.layers) as f32).sqrt();
        for layer in 0..shape.layers {
            let name = |name: String, end: &str| format!("{part}.blk.{layer}.{name}.{end}");
            let mut norms = vec!["ffn_norm".to_owned()];
            let mut matrices = vec![
                ("ffn_up".to_owned(), width, 4 * width, 1.0),
                // The square root of the mean of gelu(x)² is 0.65 for unit normals.
                ("ffn_down".to_owned(), 4 * width, width, branch / 0.65),
            ];
            for mixer in mixers {
                norms.push(format!("{mixer}_norm"));
                let ends = [("q", 1.0), ("k", 1.0), ("v", 1.0), ("o", branch)];
                let ends = ends.map(|(end, scale)| (format!("{mixer}_{end}"), width, width, scale));
                matrices.extend(ends);
            }
            for (matrix, columns, rows, scale) in matrices {
                let ty = mix.choose(Role::Other, &facts, columns);
                let values = Values::Noise(keep(columns) * scale);
                // Keys have no bias.
                let biased = !matrix.ends_with("attn_k");
                let weight = name(matrix.clone(), "weight");
                tensor(weight, ty, &[columns, rows], values);
                if biased {
                    let bias = Values::Noise(0.02);
                    tensor(name(matrix, "bias"), GgmlType::F32, &[rows], bias);
                }
            }
            for norm in norms {
                let weight = name(norm.clone(), "weight");
                tensor(weight, GgmlType::F32, &[width], Values::Ones);
                let bias = name(norm, "bias");
                tensor(bias, GgmlType::F32, &[width], Values::Zeros);
            }
        }
        let weight = format!("{part}.output_norm.weight");
        // The output is the embedding: with ones every token would predict itself.
        tensor(weight, GgmlType::F32, &[width], Values::Signs);
        let bias = format!("{part}.output_norm.bias");
        tensor(bias, GgmlType::F32, &[width], Values::Zeros);
    }
    all
}

/// The header.
pub(super) fn describe(
    arguments: &Arguments,
    shape: &SpeechShape,
    tensors: &[Tensor],
) -> Result<Layout, WriteError> {
    let controls = controls();
    let vocabulary = Vocabulary::with_controls(shape.vocabulary, &controls);
    let mut file = Builder::new();
    let key = |name: &str| format!("whisper.{name}");
    file.set("general.architecture", "whisper")?;
    file.set("general.type", "model")?;
    let name = format!("synth {} {}", arguments.shape.name(), arguments.mix.name());
    file.set("general.name", name.as_str())?;
    file.set("general.file_type", arguments.mix.file_type())?;
    file.set("general.quantization_version", 2)?;
    file.set(&key("embedding_length"), shape.width)?;
    file.set(&key("encoder.mel_bands"), BANDS as u32)?;
    for (part, positions) in [("encoder", AUDIO), ("decoder", TEXT)] {
        let key = |name: &str| format!("whisper.{part}.{name}");
        file.set(&key("context_length"), positions)?;
        file.set(&key("block_count"), shape.layers)?;
        file.set(&key("attention.head_count"), shape.heads)?;
        file.set(&key("feed_forward_length"), 4 * shape.width)?;
    }
    file.set(&key("multilingual"), true)?;
    file.set("tokenizer.ggml.model", "gpt2")?;
    file.set("tokenizer.ggml.pre", "gpt-2")?;
    file.set_array("tokenizer.ggml.tokens", &vocabulary.tokens)?;
    file.set_array("tokenizer.ggml.token_type", &vocabulary.types)?;
    file.set_array("tokenizer.ggml.merges", &vocabulary.merges)?;
    file.set("tokenizer.ggml.eos_token_id", vocabulary.end_of_text)?;
    for tensor in tensors {
        file.tensor(&tensor.name, tensor.ty, &tensor.dims)?;
    }
    file.finish()
}
