//! Run a model with the half of the library that needs no operating system: `--no-default-features`. A device gives its own
//! workers, memory and clock; here they are the plainest there are.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use strata::chat_types::{Arrival, RequestContext};
use strata::load::{ContextChoice, Needs, ParsedModel, Platform, TokenizerUse};
use strata::{Event, Generate, KvType, LocalModel, ModelFacts, Prompt};
use strata_engine::{Engine, EngineOptions};
use strata_kernels::Kernels;
use strata_model::{CpuExecutor, Placement};
use strata_platform::{Inline, Resident, SystemMemory};
use strata_weights::{Gguf, GgufSet};

static TALE: &[u8] = include_bytes!("../../../models/tale/tale-q4_k_m.gguf");

fn main() -> Result<(), Box<dyn Error>> {
    let mut model = open(TALE)?;
    let mut request = Generate::new("", Prompt::text("Once upon a time"));
    request.sampling.temperature = Some(0.0);
    request.max_tokens = Some(32);
    let context = RequestContext::new(0, 0, "story");
    let prepared = model
        .prepare(&request, context)
        .map_err(strata::Error::from)?;
    let generation = model.start(&request, prepared, Arrival::default());
    let mut generation = generation.map_err(strata::Error::from)?;
    let mut story = String::new();
    while !generation.has_ended() {
        for event in generation.step(&mut model.engine, &|| Duration::ZERO, &mut |_| ()) {
            match event {
                Event::Text { text, .. } => story.push_str(&text),
                Event::Failed(fault) => return Err(strata::Error::from(fault).into()),
                _ => (),
            }
        }
    }
    println!("{story}");
    assert!(story.len() > 32, "{story}");
    Ok(())
}

/// From the bytes of a file to a model that answers when it is asked to compute a step.
fn open(file: &'static [u8]) -> Result<LocalModel, Box<dyn Error>> {
    let set = GgufSet::new(vec![Gguf::parse(file)?])?;
    let parsed = ParsedModel::new(&set, ContextChoice::default(), TokenizerUse::Required)?;
    let options = parsed.engine_options(EngineOptions::default());
    let profile = Arc::new(parsed.profile(parsed.template.as_deref())?);
    let facts = parsed.facts(
        ModelFacts::of_file("tale", &set),
        Some(&profile),
        options.requests,
    );
    let needs = Needs::of_engine(&options, KvType::F16, 1);
    let platform = Platform {
        pool: Arc::new(Inline),
        memory: &SystemMemory,
        progress: &mut |_, _| ControlFlow::Continue(()),
    };
    let backing = Arc::new(Resident(file));
    let (weights, pages) = parsed.load(&needs, Placement::Packed, backing, platform)?;
    let kernels = Kernels::detect();
    let executor = CpuExecutor::new(weights, kernels, Arc::new(Inline), pages, needs.limits);
    let tokenizer = Arc::clone(&profile.tokenizer);
    Ok(LocalModel {
        engine: Engine::new(Box::new(executor), tokenizer, options),
        profile,
        facts,
    })
}
