//! Parameters by the names that Modelfiles and requests have for them.

mod of_file;
mod sampling;

use crate::json::{Fields, Json, JsonPath};
use crate::{Fault, Sampling};
use alloc::string::String;
use alloc::vec::Vec;
pub use of_file::of_file;
use sampling::MAX_STOPS;
pub use sampling::{ANY, Ranges, sampling};

/// `stop`: a text or several.
pub fn stop(fields: &mut Fields) -> Result<Vec<String>, Fault> {
    let path = fields.at("stop");
    let stop = match fields.take("stop") {
        None => return Ok(Vec::new()),
        Some(Json::String(text)) => [text].into(),
        Some(list @ Json::Array(_)) => path.strings(list)?,
        Some(other) => return Err(path.expected("a string or an array of strings", &other)),
    };
    if stop.len() > MAX_STOPS {
        let problem = format_args!("must have at most {MAX_STOPS} texts");
        return Err(Fault::field(&path, problem));
    }
    if stop.iter().any(String::is_empty) {
        Err(Fault::field(&path, format_args!("must not be empty")))
    } else {
        Ok(stop)
    }
}

/// Where and how the model is computed, which changes nothing about an answer.
const PLACEMENT: [&str; 8] = [
    "num_batch",
    "num_gpu",
    "main_gpu",
    "use_mmap",
    "use_mlock",
    "num_thread",
    "numa",
    "low_vram",
];

/// What parameters of old Modelfiles said to programs that are no more.
const FORGOTTEN: [&str; 9] = [
    "embedding_only",
    "f16_kv",
    "logits_all",
    "num_gqa",
    "penalize_newline",
    "rope_frequency_base",
    "rope_frequency_scale",
    "tfs_z",
    "vocab_only",
];

/// What a request's `options` say, or a model's parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Texts that end an answer.
    pub stop: Vec<String>,
    /// Tokens of an answer at most.
    pub max_tokens: Option<usize>,
    /// Positions of the context.
    pub context: Option<usize>,
    /// Tokens of the beginning that stay when a prompt is cut to fit.
    pub keep: Option<usize>,
}

impl Parameters {
    /// Reads the parameters of a stored model, by the names that Modelfiles have for them.
    pub fn of_model(pairs: Vec<(String, Json)>) -> Result<Self, Fault> {
        let mut fields = Fields::new(Json::Object(pairs), JsonPath::root().field("parameters"))?;
        fields.ignore(&FORGOTTEN);
        let parameters = Self::read(&mut fields)?;
        fields.finish()?;
        Ok(parameters)
    }

    /// Reads the options of a request. As with Ollama, those that nobody knows or that are no more change nothing.
    pub fn of_request(mut options: Fields) -> Result<Self, Fault> {
        Self::read(&mut options)
    }

    fn read(options: &mut Fields) -> Result<Self, Fault> {
        // As with Ollama, nothing and less is no limit.
        let limit = options.maybe_integer("num_predict", -2..=i64::from(u32::MAX))?;
        let context = options.maybe_integer("num_ctx", 1..=i64::from(u32::MAX))?;
        // All of it is as much as fits.
        let keep = options.maybe_integer("num_keep", -1..=i64::from(u32::MAX))?;
        let keep = keep.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX));
        let parameters = Self {
            sampling: sampling(options, Ranges::Wide)?,
            stop: stop(options)?,
            max_tokens: limit.filter(|&limit| limit > 0).map(|limit| limit as usize),
            context: context.map(|context| context as usize),
            keep,
        };
        options.ignore(&PLACEMENT);
        Ok(parameters)
    }
}
