//! Models that are taken, and files that are not.

use super::*;
use crate::machine::heap::HugePages;
use crate::prompt::{self, Prompt};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::ControlFlow;
use strata_chat::{Arrival, Generate, RequestContext};
use strata_platform::Inline;
use strata_weights::Value;
use strata_weights::gguf::Builder;

pub(crate) fn tale() -> &'static [u8] {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/tale/tale-q4_k_m.gguf"
    );
    std::fs::read(path).unwrap().leak()
}

/// Calls a test with a machine of one worker.
pub(crate) fn platform<T>(test: impl FnOnce(Platform<'_>) -> T) -> T {
    test(Platform {
        pool: Arc::new(Inline),
        memory: &HugePages,
        progress: &mut |_, _| ControlFlow::Continue(()),
    })
}

pub(crate) const SETTINGS: LoadSettings = LoadSettings {
    requests: 4,
    batch: 64,
    context: None,
    free: 1 << 30,
};

fn load(bytes: &'static [u8], settings: LoadSettings) -> Result<LocalModel, ModelError> {
    let loaded = platform(|platform| open(&bytes, "tale", settings, platform));
    Ok(loaded?.0)
}

/// Tale with more tokens than it scores.
fn with_surplus_token() -> &'static [u8] {
    let file = Gguf::parse(tale()).unwrap();
    let mut builder = Builder::new();
    for (key, value) in file.metadata().iter() {
        match (key, value) {
            ("tokenizer.ggml.tokens", Value::Array(tokens)) => {
                let tokens: Vec<&str> = tokens.strs().unwrap().collect();
                let tokens = tokens.into_iter().chain(["<surplus>"]);
                builder.set_array(key, tokens).unwrap();
            }
            ("tokenizer.ggml.token_type", Value::Array(types)) => {
                let types = types.i32s().unwrap().chain([1]);
                builder.set_array(key, types).unwrap();
            }
            (key, value) => {
                builder.set_value(key, value).unwrap();
            }
        }
    }
    for tensor in file.tensors() {
        let (name, dims) = (tensor.name, &tensor.dims);
        builder.tensor(name, tensor.ty, dims).unwrap();
    }
    let layout = builder.finish().unwrap();
    let mut bytes = layout.header;
    for (tensor, extent) in file.tensors().iter().zip(&layout.tensors) {
        bytes.extend_from_slice(tensor.data);
        bytes.resize(bytes.len() + (extent.padded_len - extent.len) as usize, 0);
    }
    bytes.leak()
}

#[test]
fn a_tokenizer_larger_than_the_model_is_refused() {
    let refused = load(with_surplus_token(), SETTINGS).err().unwrap();
    let ModelError::Parse(ParseError::Vocabulary { tokens, scored }) = refused else {
        panic!("{refused}");
    };
    assert_eq!(tokens, scored + 1);
    let message = ParseError::Vocabulary { tokens, scored }.to_string();
    assert!(message.contains("the model scores"), "{message}");
}

#[test]
fn the_context_is_the_models_or_as_asked() {
    let trained = load(tale(), SETTINGS).unwrap().facts.trained_context;
    let context = |context| {
        let settings = LoadSettings {
            context,
            ..SETTINGS
        };
        let model = load(tale(), settings).unwrap();
        assert_eq!(model.facts.context, model.profile.context);
        model.facts.context
    };
    assert_eq!(context(None), trained.min(4096));
    assert_eq!(context(Some(100)), 100);
    assert_eq!(context(Some(2 * trained)), 2 * trained);
}

#[test]
fn what_does_not_fit_stays_in_the_file() {
    let settings = LoadSettings {
        free: SPARE + (16 << 20),
        context: Some(64),
        ..SETTINGS
    };
    let bytes = tale();
    let placement = platform(|platform| open(&bytes, "tale", settings, platform).unwrap().1);
    assert!(matches!(placement, Placement::Within(1..)), "{placement:?}");
}

#[test]
fn what_would_never_fit_is_refused_before_anything_is_loaded() {
    let bytes = tale();
    let settings = |free| LoadSettings { free, ..SETTINGS };
    assert!(check(&bytes, SETTINGS, 1).is_ok());
    let refused = check(&bytes, settings(SPARE + (1 << 20)), 1).unwrap_err();
    let ModelError::Memory { needs, free: 1 } = refused else {
        panic!("{refused}");
    };
    // So much is enough, with all weights in the file.
    let least = SPARE + ((needs as usize) << 20);
    assert!(check(&bytes, settings(least), 1).is_ok());
    assert!(platform(|platform| open(&bytes, "tale", settings(least), platform)).is_ok());
    assert!(matches!(
        check(&&bytes[..1000], SETTINGS, 1),
        Err(ModelError::File(_))
    ));
    let facts = facts(&bytes, "fox").unwrap();
    assert_eq!((&*facts.name, &*facts.family), ("fox", "llama"));
}

/// The boot prompt is one way to ask, the library's own steps another.
#[test]
fn the_boot_prompt_says_what_the_library_says() {
    let mut prompt = Prompt {
        request: Generate::new("", strata_chat::Prompt::text("Once upon a time")),
        seed: 5,
        context: None,
    };
    prompt.request.max_tokens = Some(12);
    let mut told = String::new();
    platform(|platform| {
        prompt::answer(&tale(), &prompt, 1 << 30, platform, &mut |text| {
            told.push_str(text);
        })
    })
    .unwrap();

    let mut model = load(tale(), SETTINGS).unwrap();
    let context = RequestContext::new(0, 5, "");
    let prepared = model.prepare(&prompt.request, context).unwrap();
    let tokenizer = &model.profile.tokenizer;
    let tokens = strata_chat::prompt::raw(tokenizer, "Once upon a time");
    assert_eq!(prepared.requests[0].prompt, tokens);
    let arrival = Arrival::default();
    let mut generation = model.start(&prompt.request, prepared, arrival).unwrap();
    let mut said = String::new();
    while !generation.has_ended() {
        let now = || Duration::ZERO;
        let events = generation.step(&mut model.engine, &now, &mut |_| {});
        said += &text(&events).unwrap();
    }
    assert!(said.len() > 10, "{said}");
    assert_eq!(told, said);
}

/// Tale with a number that is none as the scale of a matrix's or a norm's weights.
fn poisoned(tensor: &str, at: usize, bytes: &[u8]) -> &'static [u8] {
    let mut whole = tale().to_vec();
    let file = Gguf::parse(tale()).unwrap();
    let found = file.tensors().iter().find(|t| t.name == tensor).unwrap();
    let start = (file.data_offset() + found.offset) as usize + at;
    whole[start..start + bytes.len()].copy_from_slice(bytes);
    whole.leak()
}

/// Tale with a table of its own for scores, and a row of the other table that is no numbers.
pub(crate) fn with_damaged_row(row: usize) -> &'static [u8] {
    let file = Gguf::parse(tale()).unwrap();
    let table = file.tensors().iter();
    let table = table
        .clone()
        .find(|t| t.name == "token_embd.weight")
        .unwrap();
    let mut builder = Builder::new();
    for (key, value) in file.metadata().iter() {
        builder.set_value(key, value).unwrap();
    }
    let scores = core::iter::once(("output.weight", table));
    let tensors: Vec<_> = file.tensors().iter().map(|t| (t.name, t)).collect();
    let tensors: Vec<_> = tensors.into_iter().chain(scores).collect();
    for (name, tensor) in &tensors {
        builder.tensor(name, tensor.ty, &tensor.dims).unwrap();
    }
    let layout = builder.finish().unwrap();
    let mut bytes = layout.header;
    for ((name, tensor), extent) in tensors.iter().zip(&layout.tensors) {
        let start = bytes.len();
        bytes.extend_from_slice(tensor.data);
        if *name == "token_embd.weight" {
            let len = tensor.data.len() / tensor.dims[1] as usize;
            bytes[start + row * len..][..len].fill(0xff);
        }
        bytes.resize(bytes.len() + (extent.padded_len - extent.len) as usize, 0);
    }
    bytes.leak()
}

#[test]
fn weights_that_are_no_numbers_are_refused() {
    let nan = f32::NAN.to_le_bytes();
    let infinite = f32::INFINITY.to_le_bytes();
    for bytes in [
        poisoned("blk.0.attn_norm.weight", 0, &nan),
        poisoned("output_norm.weight", 8, &infinite),
    ] {
        let refused = load(bytes, SETTINGS).err().unwrap();
        assert!(matches!(refused, ModelError::SelfTest(_)), "{refused}");
        let message = refused.to_string();
        assert!(message.contains("self-test"), "{message}");
    }
}

#[test]
fn the_self_test_leaves_nothing_behind() {
    let mut model = load(tale(), SETTINGS).unwrap();
    let mut request = Generate::new("", strata_chat::Prompt::text("Once upon a time"));
    request.max_tokens = Some(2);
    let prepared = model
        .prepare(&request, RequestContext::new(0, 5, ""))
        .unwrap();
    let mut generation = model.start(&request, prepared, Arrival::default()).unwrap();
    while !generation.has_ended() {
        let now = || Duration::ZERO;
        generation.step(&mut model.engine, &now, &mut |_| {});
    }
    assert_eq!(model.engine.counters().cached_tokens, 0);
}
