//! `timings` and `prompt_progress`: how long an answer took or takes, in llama-server's words.

use core::time::Duration;
use strata_chat::json::{Fields, Json};
use strata_chat::{Event, Fault, Timings, Usage};

/// `timings`, which clients of llama-server read.
pub(crate) fn write(usage: &Usage, timings: &Timings) -> Json {
    let computed = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
    let mut object = Json::object([("cache_n", usage.cached_tokens.into())]);
    // The first token comes out of the prompt's last step, so it is no part of the time that the others took.
    let generated = usage.generated_tokens;
    for (name, tokens, counted, time) in [
        ("prompt", computed, computed, timings.prompt),
        (
            "predicted",
            generated,
            generated.saturating_sub(1),
            timings.generate,
        ),
    ] {
        let per = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        let count = counted as f64;
        // Waiting for the first step is no time spent on the prompt.
        let time = if tokens == 0 { Duration::ZERO } else { time };
        let milliseconds = time.as_secs_f64() * 1e3;
        let key = |what: &str| alloc::format!("{name}_{what}");
        object.push(&key("n"), tokens);
        object.push(&key("ms"), milliseconds);
        object.push(&key("per_token_ms"), per(milliseconds, count));
        object.push(&key("per_second"), per(count, time.as_secs_f64()));
    }
    if timings.load > Duration::ZERO {
        object.push("load_ms", timings.load.as_secs_f64() * 1e3);
    }
    object
}

/// What a stream tells of its progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressReport {
    /// `timings_per_token`: each piece has the timings so far.
    per_token: bool,
    /// `return_progress`: pieces tell how much of the prompt is computed.
    prompt: bool,
    latest: Option<(Usage, Timings)>,
}

impl ProgressReport {
    pub(crate) fn read(fields: &mut Fields) -> Result<Self, Fault> {
        Ok(Self {
            per_token: fields.maybe_boolean("timings_per_token")? == Some(true),
            prompt: fields.maybe_boolean("return_progress")? == Some(true),
            latest: None,
        })
    }

    /// Whether the request must ask for progress.
    pub(crate) fn is_wanted(&self) -> bool {
        self.per_token || self.prompt
    }

    /// Takes in progress, and gives the `prompt_progress` that is to be sent now.
    pub(crate) fn hear(&mut self, event: &Event) -> Option<Json> {
        let Event::Progress {
            computed,
            usage,
            timings,
        } = event
        else {
            return None;
        };
        if usage.generated_tokens > 0 {
            self.latest = Some((*usage, *timings));
            return None;
        }
        let so_far = Usage {
            prompt_tokens: *computed,
            ..*usage
        };
        self.latest = Some((so_far, *timings));
        self.prompt.then(|| {
            Json::object([
                ("total", usage.prompt_tokens.into()),
                ("cache", usage.cached_tokens.into()),
                ("processed", (*computed).into()),
                ("time_ms", (timings.prompt.as_secs_f64() * 1e3).into()),
            ])
        })
    }

    /// Adds the timings so far to a piece, if there are any to tell.
    pub(crate) fn add_timings(&self, piece: &mut Json) {
        if let Some((usage, timings)) = self.latest.as_ref().filter(|_| self.per_token) {
            piece.push("timings", write(usage, timings));
        }
    }
}
