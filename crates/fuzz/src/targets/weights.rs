//! GGUF: the file, the model that it describes, and what becomes of it when it is quantized.

use crate::outcome::magnitude;
use crate::{Outcome, Target, corpus};
use strata::load::{ContextChoice, ParsedModel, TokenizerUse};
use strata_convert::{Folder, Importance, Mix, Options, Plan, Recipe, Requantizing, WriteFailure};
use strata_platform::Inline;
use strata_weights::gguf::{Builder, Gguf, GgufSet, Value};

const WORDS: &[&str] = &[
    "GGUF",
    "general.architecture",
    "general.alignment",
    "llama",
    "split.count",
    "split.no",
    "split.tensors.count",
    "tokenizer.ggml.model",
    "tokenizer.ggml.tokens",
    "blk.0.",
    ".weight",
    "token_embd.weight",
    "output.weight",
    "llama.block_count",
    "llama.rope.",
    "\0\0\0\0\0\0\0\u{1}",
];

pub(super) const GGUF: Target = Target {
    more_seeds: &[("crates/weights/tests/data", ".gguf")],
    words: WORDS,
    ..Target::new(
        "gguf",
        "a file to the reader of GGUF; what it accepts is walked, written again and read back",
        gguf,
    )
};

pub(super) const MODEL: Target = Target {
    made_seeds: models,
    words: WORDS,
    ..Target::new(
        "model",
        "a GGUF file to the loader, which checks its metadata, its tokenizer and every tensor's shape",
        model,
    )
};

pub(super) const IMPORTANCE: Target = Target {
    more_seeds: &[("crates/weights/tests/data", ".gguf")],
    words: WORDS,
    ..Target::new(
        "importance",
        "an importance matrix, or a GGUF file that is quantized anew; what is accepted is written",
        importance,
    )
};

fn gguf(bytes: &[u8]) -> Outcome {
    let gguf = match Gguf::parse(bytes) {
        Ok(gguf) => gguf,
        Err(error) => return Outcome::refused(&error),
    };
    let mut builder = Builder::new();
    for (key, value) in gguf.metadata().iter() {
        assert!(gguf.metadata().get(key).is_some());
        if let Value::Array(array) = value {
            assert_eq!(array.iter().count(), array.len());
        }
        builder
            .set_value(key, value)
            .expect("a read pair can be written");
    }
    for tensor in gguf.tensors() {
        assert!(gguf.tensor(tensor.name).is_some());
        let start = (gguf.data_offset() + tensor.offset) as usize;
        assert_eq!(tensor.data, &bytes[start..start + tensor.data.len()]);
        builder
            .tensor(tensor.name, tensor.ty, &tensor.dims)
            .expect("a read tensor can be written");
    }
    let layout = builder.finish().expect("a read file can be laid out");
    let mut file = layout.header;
    for (tensor, extent) in gguf.tensors().iter().zip(&layout.tensors) {
        file.extend_from_slice(tensor.data);
        file.resize(file.len() + (extent.padded_len - extent.len) as usize, 0);
    }
    let again = Gguf::parse(&file).expect("what was written can be read");
    assert_eq!(again.metadata().len(), gguf.metadata().len());
    for (a, b) in again.tensors().iter().zip(gguf.tensors()) {
        assert_eq!(
            (a.name, a.ty, a.dims, a.data),
            (b.name, b.ty, b.dims, b.data)
        );
    }
    let counts = (
        magnitude(gguf.metadata().len()),
        magnitude(gguf.tensors().len()),
    );
    match GgufSet::new(vec![gguf, again]) {
        Ok(set) => Outcome::taken((counts, set.parts())),
        Err(error) => Outcome::refused(&error),
    }
}

fn model(bytes: &[u8]) -> Outcome {
    let set = match Gguf::parse(bytes) {
        Ok(gguf) => GgufSet::new(vec![gguf]),
        Err(error) => return Outcome::refused(&error),
    };
    let set = match set {
        Ok(set) => set,
        Err(error) => return Outcome::refused(&error),
    };
    match ParsedModel::new(&set, ContextChoice::default(), TokenizerUse::Optional) {
        Ok(parsed) => Outcome::taken((magnitude(parsed.context), parsed.tokenizer.is_ok())),
        Err(error) => Outcome::refused(&error),
    }
}

/// Small models of several families, converted from the converter's own test folders.
fn models() -> Vec<Vec<u8>> {
    let folders = corpus::repository().join("crates/convert/tests/folders");
    [
        "llama-llama3-rope",
        "gemma",
        "lfm2",
        "qwen2moe",
        "bert-rank",
    ]
    .iter()
    .filter_map(|name| {
        let folder = Folder::open(&folders.join(name)).ok()?;
        let config = folder.config().ok()?;
        let vocabulary = folder.vocabulary().ok()?;
        let tensors = folder.tensors().ok()?;
        let options = Options {
            mix: Some(Mix::Q8_0),
            name: None,
        };
        let plan = Plan::new(&config, &tensors, vocabulary.as_ref(), &options).ok()?;
        let mut file = Vec::new();
        folder
            .convert(&plan, &mut file, &Inline, &mut |_, _| {})
            .ok()?;
        Some(file)
    })
    .collect()
}

fn importance(bytes: &[u8]) -> Outcome {
    let importance = Importance::parse(bytes);
    if let Ok(found) = &importance {
        for name in found.names() {
            let columns = found.get(name).expect("a name that is listed");
            assert!(columns.iter().all(|value| value.is_finite()));
        }
    }
    let Ok(gguf) = Gguf::parse(bytes) else {
        return match importance {
            Ok(found) => Outcome::taken(magnitude(found.len())),
            Err(error) => Outcome::refused(&error),
        };
    };
    let Ok(set) = GgufSet::new(vec![gguf]) else {
        return Outcome::ignored();
    };
    let recipe = Recipe {
        importance: importance.as_ref().ok(),
        ..Recipe::from(Mix::Q4_0)
    };
    let plan = match Requantizing::new(&set, &recipe) {
        Ok(plan) => plan,
        Err(error) => return Outcome::refused(&error),
    };
    for tensor in plan.tensors() {
        let mut written = 0;
        let done = plan.write(tensor, &Inline, &mut |bytes: &[u8]| {
            written += bytes.len() as u64;
            Ok::<(), ()>(())
        });
        match done {
            Ok(()) => assert_eq!(written, tensor.len),
            Err(WriteFailure::Convert(error)) => return Outcome::refused(&error),
            Err(WriteFailure::Sink(())) => unreachable!("the sink takes everything"),
        }
    }
    Outcome::taken(magnitude(plan.tensors().len()))
}
