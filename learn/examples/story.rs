//! Continues a text, always with the likeliest token:
//! `cargo run --release -p strata-learn --example story -- MODEL.gguf "Once upon a time"`.

use std::io::Write;

use anyhow::Context;
use strata_learn::decoder::Decoder;
use strata_tokenizer::{DecodeOptions, EncodeOptions, Tokenizer};
use strata_weights::Gguf;

const MAX_TOKENS: usize = 200;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(prompt)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: story MODEL.gguf PROMPT");
    };
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {path}"))?;
    let gguf = Gguf::parse(&bytes)?;
    let tokenizer = Tokenizer::from_gguf(gguf.metadata())?;
    let mut decoder = Decoder::from_gguf(&gguf)?;

    let add_special = EncodeOptions {
        add_special: true,
        ..Default::default()
    };
    let prompt = tokenizer.encode(&prompt, add_special);
    anyhow::ensure!(!prompt.is_empty(), "the prompt has no tokens");
    let mut text = tokenizer.stream(DecodeOptions::default());
    let mut out = std::io::stdout();

    let mut position = 0;
    let mut next = None;
    for token in prompt {
        next = Some(likeliest(decoder.forward(token, position)));
        write!(out, "{}", text.push(token))?;
        position += 1;
    }
    while let Some(token) = next.filter(|&token| !tokenizer.is_end_of_generation(token)) {
        write!(out, "{}", text.push(token))?;
        out.flush()?;
        if position >= MAX_TOKENS {
            break;
        }
        next = Some(likeliest(decoder.forward(token, position)));
        position += 1;
    }
    writeln!(out, "{}", text.finish())?;
    Ok(())
}

fn likeliest(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(token, _)| token as u32)
}
