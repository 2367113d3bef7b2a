//! What the chapters tell the reader to run: `cargo run --release -p strata-learn --example show -- NAME MODEL.gguf`.
//!
//! The book includes the outputs, and a test compares them with what is computed.

mod product;

use std::fmt::Write;

use crate::blocks::{dequantize_q4_0, dequantize_q4_k, quantize_q4_0, quantize_q4_k, values};
use crate::bytes::ReadError;
use crate::decoder::Decoder;
use crate::gguf::{ModelFile, Value};
use crate::half::{f16_to_f32, f32_to_f16};
use crate::lanes::dot_lanes;
use crate::sampling::{candidates, min_p, temperature, top_k, top_p};
use crate::text::token_bytes;

/// The names of the demonstrations.
pub const NAMES: [&str; 16] = [
    "halves",
    "contents",
    "lanes",
    "blocks",
    "norm",
    "rope",
    "sampling",
    "attention",
    "tokens",
    "experts",
    "patches",
    "schedule",
    "pages",
    "drafts",
    "paging",
    "narrow",
];

/// "Once upon a time", in the tokens of the built-in model.
pub const PROMPT: [u32; 4] = [2050, 693, 261, 550];

/// The output of one of the [`NAMES`].
pub fn show(name: &str, file: &ModelFile<'_>) -> Result<String, ReadError> {
    match name {
        "halves" => Ok(halves()),
        "contents" => Ok(contents(file)),
        "lanes" => Ok(lanes()),
        "blocks" => blocks(file),
        "norm" => norm(file),
        "rope" => rope(file),
        "sampling" => sampling(file),
        "attention" => attention(file),
        "tokens" => product::tokens(file),
        "experts" => Ok(product::experts()),
        "patches" => Ok(product::patches()),
        "schedule" => Ok(product::schedule()),
        "pages" => Ok(product::pages()),
        "drafts" => product::drafts(file),
        "paging" => Ok(product::paging()),
        "narrow" => Ok(product::narrow()),
        _ => Err(missing(&format!("demonstration {name:?}"))),
    }
}

fn missing(what: &str) -> ReadError {
    ReadError {
        at: 0,
        what: format!("there is no {what}"),
    }
}

/// A weight of the file as f32.
fn weight(file: &ModelFile<'_>, name: &str) -> Result<Vec<f32>, ReadError> {
    values(file.tensors.get(name).ok_or_else(|| missing(name))?)
}

fn halves() -> String {
    let mut out = String::from("       number  bits               back as f32\n");
    for x in [1.0f32, -2.0, 0.1, 1.0 / 3.0, 65504.0, 65520.0, 6e-8, 2e-8] {
        let bits = f32_to_f16(x);
        let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 31, bits & 1023);
        let back = f16_to_f32(bits);
        _ = writeln!(out, "{x:>13}  {sign} {exponent:05b} {fraction:010b} {back}");
    }
    out
}

fn contents(file: &ModelFile<'_>) -> String {
    let mut out = String::new();
    for key in [
        "general.architecture",
        "llama.embedding_length",
        "llama.block_count",
        "tokenizer.ggml.tokens",
    ] {
        _ = match file.metadata.get(key) {
            Some(Value::List(list)) => writeln!(out, "{key} = a list of {}", list.len()),
            Some(Value::Text(text)) => writeln!(out, "{key} = {text:?}"),
            Some(Value::Integer(number)) => writeln!(out, "{key} = {number}"),
            other => writeln!(out, "{key} = {other:?}"),
        };
    }
    _ = writeln!(out, "{} tensors, among them:", file.tensors.len());
    for name in [
        "token_embd.weight",
        "blk.0.attn_norm.weight",
        "blk.0.attn_q.weight",
    ] {
        if let Some(tensor) = file.tensors.get(name) {
            let (kind, bytes) = (tensor.kind, tensor.data.len());
            _ = writeln!(
                out,
                "{name:<24} {:?}, kind {kind}, {bytes} bytes",
                tensor.dims
            );
        }
    }
    out
}

/// Numbers between -1 and 1 that look random and are the same everywhere.
pub fn numbers(count: usize, seed: u64) -> Vec<f32> {
    (0..count)
        .map(|i| crate::sampling::uniform(seed, i as u64) as f32 * 2.0 - 1.0)
        .collect()
}

fn lanes() -> String {
    let (a, b) = (numbers(4096, 1), numbers(4096, 2));
    let pairs = || a.iter().zip(&b);
    let forward: f32 = pairs().map(|(a, b)| a * b).sum();
    let backward: f32 = pairs().rev().map(|(a, b)| a * b).sum();
    let exact: f64 = pairs().map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    let mut out = String::new();
    for (name, sum) in [
        ("front to back", forward),
        ("back to front", backward),
        ("16 lanes", dot_lanes(&a, &b)),
    ] {
        let error = (f64::from(sum) - exact).abs();
        _ = writeln!(out, "{name:<14} {sum:.7}  off by {error:.1e}");
    }
    out
}

fn blocks(file: &ModelFile<'_>) -> Result<String, ReadError> {
    let x = weight(file, "blk.0.attn_norm.weight")?;
    let wild: Vec<f32> = numbers(512, 3).iter().map(|x| x * x * x).collect();
    let mut out = String::from("root mean square error      Q4_0      Q4_K\n");
    for (name, x) in [
        ("attn_norm of layer 0", &x),
        ("cubes of random numbers", &wild),
    ] {
        let (mut q4_0, mut q4_k) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        for (x, out) in x.as_chunks::<32>().0.iter().zip(q4_0.chunks_exact_mut(32)) {
            dequantize_q4_0(&quantize_q4_0(x), out);
        }
        for (x, out) in x
            .as_chunks::<256>()
            .0
            .iter()
            .zip(q4_k.chunks_exact_mut(256))
        {
            dequantize_q4_k(&quantize_q4_k(x), out);
        }
        let error = |y: &[f32]| {
            let squares = x.iter().zip(y).map(|(x, y)| f64::from(x - y).powi(2));
            (squares.sum::<f64>() / x.len() as f64).sqrt()
        };
        _ = writeln!(out, "{name:<24} {:.6}  {:.6}", error(&q4_0), error(&q4_k));
    }
    Ok(out)
}

fn norm(file: &ModelFile<'_>) -> Result<String, ReadError> {
    let (table, gain) = (
        weight(file, "token_embd.weight")?,
        weight(file, "blk.0.attn_norm.weight")?,
    );
    let size = |x: &[f32]| (x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32).sqrt();
    let mut out = String::from("token      size of its row  after the norm  times the gain\n");
    for token in PROMPT {
        let row = &table[token as usize * gain.len()..][..gain.len()];
        let scaled: Vec<f32> = row.iter().map(|x| x / size(row)).collect();
        let gained: Vec<f32> = scaled.iter().zip(&gain).map(|(x, g)| x * g).collect();
        let text = String::from_utf8_lossy(&token_bytes(file, token)).into_owned();
        let (before, middle, after) = (size(row), size(&scaled), size(&gained));
        _ = writeln!(
            out,
            "{text:<10} {before:>15.4} {middle:>15.4} {after:>15.4}"
        );
    }
    Ok(out)
}

fn rope(file: &ModelFile<'_>) -> Result<String, ReadError> {
    let dim = file.number("llama.rope.dimension_count");
    let dim = dim.ok_or_else(|| missing("llama.rope.dimension_count"))?;
    let base = file.number("llama.rope.freq_base").unwrap_or(10_000.0);
    let mut out = String::from("pair  radians a position  positions for a full turn\n");
    for pair in [0, 1, 8, 16, 31] {
        let turn = base.powf(-2.0 * f64::from(pair) / dim);
        let circle = std::f64::consts::TAU / turn;
        _ = writeln!(out, "{pair:>4}  {turn:>18.6}  {circle:>25.1}");
    }
    Ok(out)
}

fn sampling(file: &ModelFile<'_>) -> Result<String, ReadError> {
    let mut decoder = Decoder::load(file)?;
    let mut logits = Vec::new();
    for (position, token) in PROMPT.into_iter().enumerate() {
        logits = decoder.forward(token, position).to_vec();
    }
    let all = candidates(&logits);
    let mut out = String::new();
    let mut line = |name: &str, change: &dyn Fn(&mut Vec<_>)| {
        let mut list = all.clone();
        change(&mut list);
        _ = write!(out, "{name:<16} {:>5} left:", list.len());
        for candidate in list.iter().take(4) {
            let text = String::from_utf8_lossy(&token_bytes(file, candidate.token)).into_owned();
            _ = write!(out, " {text:?} {:.3}", candidate.probability);
        }
        out.push('\n');
    };
    line("as it is", &|_| ());
    line("temperature 0.5", &|list| temperature(list, 0.5));
    line("temperature 1.5", &|list| temperature(list, 1.5));
    line("top-k 3", &|list| top_k(list, 3));
    line("top-p 0.9", &|list| top_p(list, 0.9));
    line("min-p 0.05", &|list| min_p(list, 0.05));
    Ok(out)
}

fn attention(file: &ModelFile<'_>) -> Result<String, ReadError> {
    let mut decoder = Decoder::load(file)?;
    for (position, token) in PROMPT.into_iter().enumerate() {
        decoder.forward(token, position);
    }
    let mut out =
        String::from("what the last token of the prompt looks at in the last layer\nhead ");
    for token in PROMPT {
        let text = String::from_utf8_lossy(&token_bytes(file, token)).into_owned();
        _ = write!(out, "{:>8}", text.trim());
    }
    out.push('\n');
    for (head, weights) in decoder.last_attention().iter().enumerate() {
        _ = write!(out, "{head:>4} ");
        for weight in weights {
            _ = write!(out, "{weight:>8.3}");
        }
        out.push('\n');
    }
    Ok(out)
}
