//! What requests for text have besides their prompts: sampling, limits, stop texts, streaming, adapters.

use super::unsupported;
use crate::timings::ProgressReport;
use alloc::vec::Vec;
use core::time::Duration;
use strata_chat::json::{Fields, Json};
use strata_chat::parameters::{ANY, Ranges, sampling, stop};
use strata_chat::{Fault, Generate};

/// Answers to one prompt at most.
pub(crate) const MAX_CHOICES: i64 = 128;

/// Reads sampling, stop texts and what else all requests for text have in common. Gives what is told of progress.
pub(crate) fn read(
    fields: &mut Fields,
    request: &mut Generate,
    ranges: Ranges,
) -> Result<ProgressReport, Fault> {
    request.sampling = sampling(fields, ranges)?;
    request.stop = stop(fields)?;
    request.stream = fields.maybe_boolean("stream")?.unwrap_or(false);
    request.cache = fields.maybe_boolean("cache_prompt")?.unwrap_or(true);
    request.ignore_end = fields.maybe_boolean("ignore_eos")?.unwrap_or(false);
    // Any slot gives the same bits, and what one computed of a prompt all can use.
    fields.maybe_integer("id_slot", -1..=i64::MAX)?;
    let limit = fields.maybe_integer("t_max_predict_ms", -1..=i64::MAX)?;
    request.time_limit = limit
        .and_then(|limit| u64::try_from(limit).ok())
        .filter(|&limit| limit > 0)
        .map(Duration::from_millis);
    for (path, item) in fields.items("lora")? {
        let mut adapter = path.object(item)?;
        let id = adapter.maybe_integer("id", 0..=i64::from(u32::MAX))?;
        let id = id.ok_or_else(|| adapter.missing("id"))? as usize;
        let scale = adapter.maybe_number("scale", ANY)?.unwrap_or(1.0);
        adapter.finish()?;
        request.adapters.push((id, scale as f32));
    }
    read_vllm(fields, request)?;
    let report = ProgressReport::read(fields)?;
    request.progress = report.is_wanted();
    Ok(report)
}

/// What only vLLM has.
fn read_vllm(fields: &mut Fields, request: &mut Generate) -> Result<(), Fault> {
    let least = fields.maybe_integer("min_tokens", 0..=i64::from(u32::MAX))?;
    request.min_tokens = least.unwrap_or(0) as usize;
    let stops = fields.items("stop_token_ids")?.into_iter();
    let stops = stops.map(|(path, item)| path.integer(&item, 0..=i64::from(u32::MAX)));
    let stops = stops.map(|token| Ok(token? as u32));
    request.stop_tokens = stops.collect::<Result<Vec<_>, Fault>>()?;
    let skip = fields.maybe_boolean("skip_special_tokens")?;
    request.show_special = skip == Some(false);
    if fields.maybe_boolean("include_stop_str_in_output")? == Some(true) {
        return Err(unsupported(
            &fields.at("include_stop_str_in_output"),
            "true",
        ));
    }
    // Tokens stand for their own bytes here: nothing is put between them.
    fields.maybe_boolean("spaces_between_special_tokens")?;
    Ok(())
}

/// `prompt_logprobs`: how many alternatives are told for each token of the prompt, if any are.
pub(crate) fn prompt_logprobs(fields: &mut Fields, stream: bool) -> Result<Option<usize>, Fault> {
    let wanted = fields.maybe_integer("prompt_logprobs", 0..=20)?;
    if wanted.is_some() && stream {
        let path = fields.at("prompt_logprobs");
        return Err(Fault::field(
            &path,
            format_args!("needs stream to be false"),
        ));
    }
    Ok(wanted.map(|number| number as usize))
}

/// A number of tokens; −1 is no limit, as with llama-server.
pub(crate) fn limit(fields: &mut Fields, name: &str, least: i64) -> Result<Option<usize>, Fault> {
    let path = fields.at(name);
    let Some(value) = fields.take(name) else {
        return Ok(None);
    };
    if value == Json::Int(-1) {
        return Ok(None);
    }
    let limit = path.integer(&value, least..=i64::from(u32::MAX))?;
    Ok(Some(limit as usize))
}

/// `stream_options`; whether usage is told at the end.
pub(crate) fn stream_usage(fields: &mut Fields, stream: bool) -> Result<bool, Fault> {
    let Some(mut options) = fields.maybe_object("stream_options")? else {
        return Ok(false);
    };
    if !stream {
        let path = fields.at("stream_options");
        return Err(Fault::field(&path, format_args!("needs stream to be true")));
    }
    let usage = options.maybe_boolean("include_usage")?.unwrap_or(false);
    for name in ["include_obfuscation", "continuous_usage_stats"] {
        if options.maybe_boolean(name)? == Some(true) {
            return Err(unsupported(&options.at(name), "true"));
        }
    }
    options.finish()?;
    Ok(usage)
}

/// Which of llama-server's and vLLM's two words for tokens in the answer was given.
pub(crate) fn token_key(fields: &mut Fields) -> Result<Option<&'static str>, Fault> {
    let tokens = fields.maybe_boolean("return_tokens")?.unwrap_or(false);
    let token_ids = fields.maybe_boolean("return_token_ids")?.unwrap_or(false);
    Ok(match (token_ids, tokens) {
        (true, _) => Some("token_ids"),
        (false, true) => Some("tokens"),
        (false, false) => None,
    })
}
