//! From the bytes of a file to a model that answers.

use crate::adapters::{AdapterFile, Adapters};
use crate::host::Host;
use crate::request::Running;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::ControlFlow;
use strata::load::{ContextChoice, GrammarCompiler, Needs, ParsedModel, Platform, TokenizerUse};
use strata::{Json, KvType, LocalModel};
use strata_chat::ModelFacts;
use strata_engine::{Engine, EngineOptions};
use strata_kernels::Kernels;
use strata_model::{CpuExecutor, Placement};
use strata_platform::{Backing, Pool, SystemMemory};
use strata_weights::{Gguf, GgufSet};
use strata_wire::StampSource;

/// Tokens of a prompt that are computed in a step: few, so that the host gets its turn soon.
const BATCH: usize = 16;

/// A file in memory, for the weights that are read as they lie.
struct Bytes(Vec<u8>);

impl Backing for Bytes {
    fn part(&self, index: usize) -> Option<&[u8]> {
        (index == 0).then_some(&*self.0)
    }
    fn will_need(&self, _: &[u8]) {}
    fn done_with(&self, _: &[u8]) {}
}

/// Who computes.
fn pool() -> Arc<dyn Pool + Send> {
    #[cfg(target_feature = "atomics")]
    return Arc::new(crate::threads::Workers);
    #[cfg(not(target_feature = "atomics"))]
    return Arc::new(strata_platform::Inline);
}

/// A model and the requests that it answers.
pub(crate) struct Opened {
    pub(crate) model: LocalModel,
    pub(crate) stamps: StampSource,
    pub(crate) adapters: Adapters,
    pub(crate) grammars: GrammarCompiler,
    pub(crate) running: Vec<Running>,
    pub(crate) last: u32,
}

impl Opened {
    /// What is known of the model, as JSON.
    pub(crate) fn info(&self) -> String {
        let facts = &self.model.facts;
        Json::object([
            ("name", facts.name.as_str().into()),
            ("family", facts.family.as_str().into()),
            ("parameters", facts.parameters.into()),
            ("context", facts.context.into()),
            ("isa", Kernels::detect().isa().name().into()),
            ("threads", pool().workers().into()),
        ])
        .text()
    }
}

fn said(error: impl ToString) -> String {
    error.to_string()
}

fn parse<'f>(
    set: &'f GgufSet<'f>,
    context: usize,
    tokenizer: TokenizerUse,
) -> Result<ParsedModel<'f>, String> {
    let choice = ContextChoice {
        asked: (context > 0).then_some(context),
        preset: None,
    };
    ParsedModel::new(set, choice, tokenizer).map_err(said)
}

fn options(parsed: &ParsedModel<'_>, requests: usize) -> EngineOptions {
    parsed.engine_options(EngineOptions {
        batch: BATCH,
        requests,
        ..EngineOptions::default()
    })
}

/// The memory of a module at most.
const MOST: u64 = 1 << 32;

/// What a model would take in bytes, as JSON.
pub(crate) fn plan(file: &[u8], context: usize, requests: usize) -> Result<String, String> {
    let first = Gguf::parse(file).map_err(said)?;
    let set = GgufSet::new(vec![first]).map_err(said)?;
    let parsed = parse(&set, context, TokenizerUse::Optional)?;
    let needs = Needs::of_engine(&options(&parsed, requests), KvType::F16, pool().workers());
    let blueprint = &parsed.blueprint;
    let weights = blueprint.packed_bytes() as u64;
    let kv = needs.kv_bytes(blueprint);
    let activations = needs.workspace_bytes(blueprint, Placement::Packed);
    // The file stays beside its weights; what the module had before it came is in the program's share.
    let held = core::arch::wasm32::memory_size(0) as u64 * 65_536;
    let program = held.max(file.len() as u64);
    let total = [kv, activations, program]
        .iter()
        .fold(weights, |sum, part| sum.saturating_add(*part));
    Ok(Json::object([
        ("weights", weights.into()),
        ("kv", kv.into()),
        ("activations", activations.into()),
        ("program", program.into()),
        ("total", total.into()),
        ("limit", MOST.into()),
        ("fits", (total <= MOST).into()),
        ("context", parsed.context.into()),
    ])
    .text())
}

pub(crate) fn open(
    file: Vec<u8>,
    adapters: &[AdapterFile],
    context: usize,
    requests: usize,
) -> Result<Opened, String> {
    let backing = Arc::new(Bytes(file));
    let first = Gguf::parse(&backing.0).map_err(said)?;
    let set = GgufSet::new(vec![first]).map_err(said)?;
    let parsed = parse(&set, context, TokenizerUse::Required)?;
    let options = options(&parsed, requests);
    let profile = parsed.profile(parsed.template.as_deref()).map_err(said)?;
    let profile = Arc::new(profile);
    let facts = ModelFacts::of_file("model", &set);
    let facts = parsed.facts(facts, Some(&profile), options.requests);
    let needs = Needs::of_engine(&options, KvType::F16, pool().workers());
    let mut progress = |loaded, total| {
        Host::progress(loaded, total);
        ControlFlow::Continue(())
    };
    let platform = Platform {
        pool: pool(),
        memory: &SystemMemory,
        progress: &mut progress,
    };
    let loaded = parsed.load(&needs, Placement::Packed, backing.clone(), platform);
    let (model, storage) = loaded.map_err(said)?;
    let adapters = Adapters::load(adapters, &model)?;
    let executor = CpuExecutor::new(model, Kernels::detect(), pool(), storage, needs.limits);
    let tokenizer = Arc::clone(&profile.tokenizer);
    let grammars = GrammarCompiler::new(Arc::clone(&tokenizer));
    let model = LocalModel {
        engine: Engine::new(Box::new(executor), tokenizer, options),
        profile,
        facts,
    };
    Ok(Opened {
        model: model.with_clock(Arc::new(Host)),
        stamps: StampSource::new(Host::seed()),
        adapters,
        grammars,
        running: Vec::new(),
        last: 0,
    })
}
