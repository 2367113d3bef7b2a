//! What requests have in common: `options`, `keep_alive`, `format`, `think`, log-probabilities.

use crate::logprobs;
use crate::request_fields::answer_format::schema;
use alloc::vec::Vec;
use core::time::Duration;
use strata_chat::json::{Fields, Json, JsonPath};
use strata_chat::parameters::Parameters;
use strata_chat::{Effort, Fault, Format, Generate, KeepAlive, Thinking};

/// All that a request for text has besides its prompt.
pub(super) fn read(fields: &mut Fields, request: &mut Generate) -> Result<(), Fault> {
    if let Some(options) = fields.maybe_object("options")? {
        let given = Parameters::of_request(options)?;
        request.keep = given.keep;
        request.sampling = given.sampling;
        request.stop = given.stop;
        request.max_tokens = given.max_tokens;
        request.context = given.context;
    }
    request.keep_alive = keep_alive(fields)?;
    request.format = format(fields)?;
    request.thinking = thinking(fields)?;
    request.logprobs = logprobs::read(fields)?;
    request.stream = fields.maybe_boolean("stream")?.unwrap_or(true);
    request.truncate = fields.maybe_boolean("truncate")?.unwrap_or(true);
    if request.truncate {
        request.keep.get_or_insert(KEPT);
    } else {
        request.keep = None;
    }
    // A full context ends an answer here, whatever is asked.
    fields.maybe_boolean("shift")?;
    // A picture's settings, for models that draw.
    fields.ignore(&["width", "height", "steps", "_debug_render_only"]);
    Ok(())
}

/// Tokens at the beginning of a prompt that stay when it is cut to fit, as with Ollama.
const KEPT: usize = 4;

/// `options` of a request for embeddings: the context's size.
pub(super) fn embed_context(fields: &mut Fields) -> Result<Option<usize>, Fault> {
    let Some(options) = fields.maybe_object("options")? else {
        return Ok(None);
    };
    // Clients send the same options to all routes; nothing is chosen here.
    let given = Parameters::of_request(options)?;
    Ok(given.context)
}

/// Seconds, or a duration as Go writes it; less than nothing is for ever.
pub(super) fn keep_alive(fields: &mut Fields) -> Result<Option<KeepAlive>, Fault> {
    let path = fields.at("keep_alive");
    let Some(value) = fields.take("keep_alive") else {
        return Ok(None);
    };
    let seconds = match &value {
        Json::String(text) => go_seconds(text).ok_or_else(|| {
            let problem = format_args!("{text:?} is not a duration such as \"5m\"");
            Fault::field(&path, problem)
        })?,
        number => path.number(number, f64::MIN..=f64::MAX)?,
    };
    if seconds < 0.0 {
        return Ok(Some(KeepAlive::Forever));
    }
    // What is longer than can be counted is for ever too.
    let duration = Duration::try_from_secs_f64(seconds);
    Ok(Some(duration.map_or(KeepAlive::Forever, KeepAlive::For)))
}

/// `1h30m`, `-1s`, `1.5h`; a number alone is seconds.
fn go_seconds(text: &str) -> Option<f64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let number = |text: &str| text.parse::<f64>().ok();
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        end.unwrap_or(text.len())
    };
    if text.is_empty() {
        return None;
    }
    if digits(text) == text.len() {
        return Some(sign * number(text)?);
    }
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let (amount, after) = rest.split_at(digits(rest));
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let unit = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += number(amount)? * unit;
        rest = after;
    }
    Some(sign * seconds)
}

/// `"json"`, or a schema.
fn format(fields: &mut Fields) -> Result<Format, Fault> {
    let path = fields.at("format");
    match fields.take("format") {
        None => Ok(Format::Text),
        Some(Json::String(word)) => match word.as_str() {
            "" => Ok(Format::Text),
            "json" => Ok(Format::JsonObject),
            _ => Err(Fault::field(
                &path,
                format_args!("must be \"json\" or a JSON schema, not {word:?}"),
            )),
        },
        Some(value) => Ok(Format::JsonSchema(schema(value, &path)?)),
    }
}

fn thinking(fields: &mut Fields) -> Result<Thinking, Fault> {
    match fields.peek("think") {
        Some(Json::Bool(true)) => {
            fields.take("think");
            Ok(Thinking::On { budget: None })
        }
        Some(Json::Bool(false)) => {
            fields.take("think");
            Ok(Thinking::Off)
        }
        _ => {
            let words = [
                ("low", Thinking::Effort(Effort::Low)),
                ("medium", Thinking::Effort(Effort::Medium)),
                ("high", Thinking::Effort(Effort::High)),
                ("max", Thinking::Effort(Effort::High)),
            ];
            Ok(fields.maybe_word("think", &words)?.unwrap_or_default())
        }
    }
}

/// `images`: their files in base64, among which Ollama's clients send audio too.
pub(super) fn images(fields: &mut Fields) -> Result<Vec<strata_chat::ContentPart>, Fault> {
    let items = fields.items("images")?;
    let image = |(path, item): (JsonPath, Json)| {
        let data = path.string(item)?;
        crate::base64::picture_or_audio(&data, &path)
    };
    items.into_iter().map(image).collect()
}

#[cfg(test)]
mod tests {
    use super::go_seconds;

    #[test]
    fn durations_are_those_of_go() {
        for (text, seconds) in [
            ("5m", 300.0),
            ("1h30m", 5400.0),
            ("1.5h", 5400.0),
            ("-1", -1.0),
            ("-1s", -1.0),
            ("0", 0.0),
            ("300ms", 0.3),
            ("2h0m1s", 7201.0),
        ] {
            assert_eq!(go_seconds(text), Some(seconds), "{text}");
        }
        for text in [
            "", "-", "5 m", "m", "5x", "1..5s", "5m3", "inf", "1e3s", "5µ",
        ] {
            assert_eq!(go_seconds(text), None, "{text}");
        }
    }
}
