//! `/completion` and `/infill`: text that goes on where a prompt ends, or that fills a gap.

use super::write::CompletionAnswer;
use super::{prompts, samplers};
use crate::call::Call;
use crate::request_fields::answer_format;
use crate::request_fields::generation::{self, limit};
use crate::request_fields::unsupported;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::parameters::Ranges;
use strata_chat::{Fault, Generate, Prompt};

/// Alternatives to each token at most.
const MAX_PROBS: i64 = 100;

/// What llama-server takes for "a new seed each time", besides −1.
const ANY_SEED: u64 = u32::MAX as u64;

pub(super) fn open(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let path = fields.at("prompt");
    let prompt = fields.take("prompt");
    let prompts = prompts::read(prompt.ok_or_else(|| fields.missing("prompt"))?, &path)?;
    let texts = prompts.iter().map(|pieces| prompts::text(pieces)).collect();
    let prompts = prompts.into_iter().map(Prompt::Raw).collect();
    finish(fields, prompts, texts)
}

pub(super) fn infill(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let mut prefix = fields.string("input_prefix")?;
    let suffix = fields.string("input_suffix")?;
    // What the person has just typed: it stands at the end of what comes before the gap.
    prefix.push_str(&fields.maybe_string("prompt")?.unwrap_or_default());
    let mut files = Vec::new();
    for (path, item) in fields.items("input_extra")? {
        let mut file = path.object(item)?;
        let name = file.maybe_string("filename")?.unwrap_or_default();
        files.push((name, file.string("text")?));
        file.finish()?;
    }
    let text = prefix.clone();
    let prompt = Prompt::Infill {
        prefix,
        suffix,
        files,
    };
    finish(fields, [prompt].into(), [text].into())
}

/// All but the prompts.
fn finish(mut fields: Fields, prompts: Vec<Prompt>, texts: Vec<String>) -> Result<Call, Fault> {
    let model = fields.maybe_string("model")?.unwrap_or_default();
    let mut request = Generate::new(model, Prompt::text(""));
    request.prompts = prompts;
    generation::read(&mut fields, &mut request, Ranges::Wide)?;
    if request.sampling.seed == Some(ANY_SEED) {
        request.sampling.seed = None;
    }
    samplers::read(&mut fields, &mut request.sampling)?;
    request.max_tokens = limit(&mut fields, "n_predict", 0)?;
    request.format = answer_format::read(&mut fields)?;
    let probs = fields.maybe_integer("n_probs", 0..=MAX_PROBS)?;
    request.logprobs = probs.filter(|&n| n > 0).map(|n| n as usize);
    request.tokens = true;
    let return_tokens = fields.maybe_boolean("return_tokens")?.unwrap_or(false);
    refuse(&mut fields)?;
    fields.finish()?;
    let answer = CompletionAnswer::new(&request, texts, return_tokens);
    Ok(Call::Generate(Box::new(request), Box::new(answer)))
}

/// Fields whose values that change nothing are taken, and no others.
fn refuse(fields: &mut Fields) -> Result<(), Fault> {
    // What stays when a full context is shifted; here an answer ends there.
    for name in ["n_keep", "n_discard"] {
        fields.maybe_integer(name, -1..=i64::MAX)?;
    }
    for name in ["n_indent", "t_max_prompt_ms", "n_cache_reuse"] {
        if let Some(1..) = fields.maybe_integer(name, -1..=i64::MAX)? {
            return Err(unsupported(&fields.at(name), "more than 0"));
        }
    }
    for name in ["post_sampling_probs", "return_progress"] {
        if fields.maybe_boolean(name)? == Some(true) {
            return Err(unsupported(&fields.at(name), "true"));
        }
    }
    for name in ["image_data", "response_fields"] {
        let path = fields.at(name);
        match fields.take(name) {
            None => {}
            Some(Json::Array(items)) if items.is_empty() => {}
            Some(_) => return Err(Fault::field(&path, format_args!("is not supported"))),
        }
    }
    Ok(())
}
