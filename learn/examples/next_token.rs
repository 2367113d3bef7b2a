//! The program of chapters 1 to 4: continues a sequence of tokens, always with the likeliest one.
//! `cargo run --release -p strata-learn --example next_token -- MODEL.gguf COUNT TOKEN…`

use strata_learn::bytes::ReadError;
use strata_learn::decoder::Decoder;
use strata_learn::gguf::ModelFile;
use strata_learn::sampling::likeliest;
use strata_learn::text::token_bytes;

// ANCHOR: main
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: MODEL.gguf COUNT TOKEN…")?;
    let count: usize = arguments.next().ok_or("how many tokens?")?.parse()?;
    let prompt: Vec<u32> = arguments.map(|id| id.parse()).collect::<Result<_, _>>()?;

    let bytes = std::fs::read(path)?;
    let file = ModelFile::parse(&bytes)?;
    let mut decoder = Decoder::load(&file)?;
    let (mut ids, mut text) = (Vec::new(), Vec::new());
    for id in generate(&mut decoder, &prompt, count)? {
        ids.push(id.to_string());
        text.extend(token_bytes(&file, id));
    }
    println!("{}", ids.join(" "));
    println!("{}", String::from_utf8_lossy(&text));
    Ok(())
}

/// The next `count` tokens after the prompt.
fn generate(decoder: &mut Decoder, prompt: &[u32], count: usize) -> Result<Vec<u32>, ReadError> {
    let empty = ReadError {
        at: 0,
        what: "an empty prompt".into(),
    };
    let mut token = *prompt.first().ok_or(empty)?;
    let mut made = Vec::new();
    for position in 0.. {
        let logits = decoder.forward(token, position);
        token = match prompt.get(position + 1) {
            Some(given) => *given,
            None => {
                made.push(likeliest(logits));
                likeliest(logits)
            }
        };
        if made.len() >= count {
            break;
        }
    }
    Ok(made)
}
// ANCHOR_END: main
