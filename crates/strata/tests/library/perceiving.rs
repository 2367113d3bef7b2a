//! What tests of models that see or hear share.

use std::path::{Path, PathBuf};
use strata::{Event, Generate, Message, Model, Prompt, Usage};

/// A template without words of its own, so that the tiny models' vocabulary is enough.
const TEMPLATE: &str = "{{ range .Messages }}{{ .Content }}{{ end }}";

/// A folder with a tiny model of a golden folder, and its projector beside it.
pub(crate) fn folder_of(golden: &str, name: &str, projector: bool) -> (tempfile::TempDir, PathBuf) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../model/tests")
        .join(golden);
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.gguf");
    std::fs::copy(golden.join(format!("{name}.gguf")), &model).unwrap();
    if projector {
        let to = folder.path().join("mmproj-model.gguf");
        std::fs::copy(golden.join(format!("{name}.mmproj.gguf")), to).unwrap();
    }
    (folder, model)
}

/// Six tokens after these messages, the likeliest ones.
pub(crate) fn request(messages: Vec<Message>) -> Generate {
    let mut request = Generate::new("", Prompt::Chat(messages));
    request.template = Some(TEMPLATE.into());
    request.max_tokens = Some(6);
    request.ignore_end = true;
    request.tokens = true;
    request.logprobs = Some(0);
    request.sampling.temperature = Some(0.0);
    request
}

/// The tokens' log-probabilities, to the bit, and what the answer took.
pub(crate) fn answer(model: &Model, request: &Generate) -> (Vec<u32>, Usage) {
    let mut bits = Vec::new();
    let mut events = model.generate(request).unwrap();
    loop {
        let news = events.next_blocking();
        if news.is_empty() {
            assert!(!events.has_failed(), "{:?}", events.failure());
            return (bits, events.usage());
        }
        for event in news {
            if let Event::Token { logprobs, .. } = event {
                bits.extend(logprobs.iter().map(|found| found.chosen.logprob.to_bits()));
            }
        }
    }
}

/// Floats in base64.
pub(crate) fn floats(text: &str) -> Vec<f32> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let place = |byte: u8| alphabet.iter().position(|&known| known == byte);
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for digit in text.bytes().filter_map(place) {
        bits = bits << 6 | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    let floats = bytes.chunks_exact(4);
    floats
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}
