//! Models as manifests describe them.

use super::Arguments;
use crate::failure::{Failure, Kind};
use crate::image;
use std::path::{Path, PathBuf};
use strata::load::{self, ModelFile, store_error, stored};
use strata::{Model, Options, Plan};
use strata_pack::{MemoryNeeds, PackedMessage, PackedModel, PackedPreset, sha256};
use strata_store::{StoreError, StoredModel};

/// More memory than there is anywhere: what a model needs is asked, not whether it fits.
const ENOUGH: u64 = 1 << 60;

/// What a tokenizer takes for each token, with some to spare.
const PER_TOKEN: u64 = 512;

/// The models of an artifact.
pub(super) struct Described<'a> {
    pub(super) models: Vec<PackedModel>,
    /// Their bytes, in the same order.
    pub(super) bytes: Vec<&'a [u8]>,
    pub(super) context: u64,
}

impl Described<'_> {
    /// What the smallest model needs.
    pub(super) fn least_memory(&self) -> u64 {
        let totals = self.models.iter().map(|model| model.memory.total_bytes);
        totals.min().unwrap_or(0)
    }
}

/// Describes models for one context, those that need most memory first.
pub(super) fn describe<'a>(
    paths: &[PathBuf],
    files: &'a [ModelFile],
    arguments: &Arguments,
) -> Result<Described<'a>, Failure> {
    let mut options = Options::default().requests(1).threads(MemoryNeeds::THREADS);
    if let Some(context) = arguments.ctx {
        options = options.context(context as usize);
    }
    let mut models = Vec::new();
    let mut context = None;
    for (path, file) in paths.iter().zip(files) {
        let plan = Model::plan_within(path, &options, ENOUGH)?;
        options = options.context(*context.get_or_insert(plan.context));
        let bytes = file.whole()?;
        let preset = preset(path, file, arguments)?;
        models.push((model(path, &plan, bytes, preset), bytes));
    }
    models.sort_by_key(|(model, _)| std::cmp::Reverse(model.memory.total_bytes));
    let names = models.iter().map(|(model, _)| &model.file);
    if let Some(name) = names
        .clone()
        .find(|name| names.clone().filter(|n| n == name).count() > 1)
    {
        let sentence = format_args!("two models have the name {name}");
        return Err(Failure::new(Kind::Usage, sentence));
    }
    let (models, bytes) = models.into_iter().unzip();
    Ok(Described {
        models,
        bytes,
        context: context.unwrap_or_default() as u64,
    })
}

fn model(path: &Path, plan: &Plan, bytes: &[u8], preset: PackedPreset) -> PackedModel {
    let facts = &plan.facts;
    let template = preset.template.as_ref().or(facts.template.as_ref());
    PackedModel {
        file: file_name(path),
        bytes: bytes.len() as u64,
        sha256: sha256(bytes),
        architecture: facts.family.clone(),
        quantization: facts.quantization.clone(),
        licenses: facts.licenses.clone(),
        template_sha256: template.map(|text| sha256(text.as_bytes())),
        trained_context: facts.trained_context as u64,
        preset: Some(preset).filter(|preset| !preset.is_empty()),
        memory: memory(plan),
        component: None,
    }
}

/// What a plan says, but for the program: that is measured, and differs a little each time.
fn memory(plan: &Plan) -> MemoryNeeds {
    let program =
        load::program_bytes(MemoryNeeds::THREADS) + plan.facts.vocabulary as u64 * PER_TOKEN;
    MemoryNeeds {
        weights_bytes: plan.weights,
        kv_bytes: plan.kv,
        workspace_bytes: plan.activations,
        program_bytes: program,
        total_bytes: plan.total() - plan.program + program,
    }
}

/// A name that every file system takes.
fn file_name(path: &Path) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => c,
        _ => '-',
    };
    let name: String = image::name(path).chars().map(plain).take(70).collect();
    let name = name.trim_start_matches(['-', '.']);
    format!("{name}.gguf")
}

/// What the model's Modelfile says, and the flags.
fn preset(path: &Path, file: &ModelFile, arguments: &Arguments) -> Result<PackedPreset, Failure> {
    let mut preset = match (file.preset(), stored(path)) {
        (Some(_), Some(model)) => of_stored(&model?, file)?,
        _ => PackedPreset::default(),
    };
    if let Some(system) = &arguments.system {
        preset.system = Some(system.clone());
    }
    Ok(preset)
}

fn of_stored(model: &StoredModel, file: &ModelFile) -> Result<PackedPreset, Failure> {
    let fail = |error: StoreError| Failure::from(store_error(&error));
    if !model.adapters().map_err(fail)?.is_empty() {
        let sentence = format_args!("{} has an adapter, which cannot be packed", model.name);
        return Err(Failure::new(Kind::Usage, sentence).hint("pack its base model"));
    }
    let parsed = file.parse()?;
    let in_file = parsed.metadata().str("tokenizer.chat_template");
    let in_file = in_file.ok().flatten().is_some();
    let counts = |_: &String| model.has_own_template() || !in_file;
    let messages = model.messages().map_err(fail)?.into_iter();
    Ok(PackedPreset {
        template: model
            .template()
            .map_err(fail)?
            .filter(|text| !text.is_empty())
            .filter(counts),
        system: model.system().map_err(fail)?,
        messages: messages
            .map(|message| PackedMessage {
                role: message.role,
                content: message.content,
            })
            .collect(),
        parameters: model.parameters().map_err(fail)?,
    })
}
