//! `/completion` and `/infill`: text that goes on where a prompt ends, or that fills a gap.

use super::write::{CompletionAnswer, ReplyOptions};
use super::{samplers, settings};
use crate::call::Call;
use crate::request_fields::answer_format;
use crate::request_fields::generation::{self, limit};
use crate::request_fields::{inputs, unsupported};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::parameters::{ANY, Ranges};
use strata_chat::{Fault, Generate, Prompt};

/// Alternatives to each token at most.
const MAX_PROBS: i64 = 100;

pub(super) fn open(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let prompts = inputs::field(&mut fields, "prompt")?;
    let texts = prompts.iter().map(|parts| inputs::text(parts)).collect();
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
    let report = generation::read(&mut fields, &mut request, Ranges::Wide)?;
    if request.sampling.seed == Some(settings::ANY_SEED) {
        request.sampling.seed = None;
    }
    samplers::read(&mut fields, &mut request.sampling)?;
    request.max_tokens = limit(&mut fields, "n_predict", 0)?;
    request.format = answer_format::read(&mut fields)?;
    let probs = fields.maybe_integer("n_probs", 0..=MAX_PROBS)?;
    request.logprobs = probs.filter(|&n| n > 0).map(|n| n as usize);
    request.tokens = true;
    request.post_sampling = fields.maybe_boolean("post_sampling_probs")? == Some(true);
    let options = ReplyOptions {
        return_tokens: fields.maybe_boolean("return_tokens")?.unwrap_or(false),
        fields: match fields.take("response_fields") {
            None => Vec::new(),
            Some(list) => fields.at("response_fields").strings(list)?,
        },
        report,
    };
    refuse(&mut fields)?;
    fields.finish()?;
    let answer = CompletionAnswer::new(&request, texts, options);
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
    // Where tokens are drawn, and how they are guessed ahead, which changes nothing about the answer.
    fields.ignore(&["backend_sampling"]);
    for name in ["n_max", "n_min", "p_min"] {
        fields.maybe_number(&format!("speculative.{name}"), ANY)?;
    }
    let path = fields.at("image_data");
    match fields.take("image_data") {
        None => Ok(()),
        Some(Json::Array(items)) if items.is_empty() => Ok(()),
        Some(_) => Err(Fault::field(&path, format_args!("is not supported"))),
    }
}
