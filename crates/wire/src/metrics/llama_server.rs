//! The same numbers under llama-server's names: of all models together, without labels.

use super::{Measured, head};
use alloc::string::String;
use core::fmt::Write;
use strata_engine::Counters;

/// The sums that the numbers are made of.
#[derive(Default)]
struct Sums {
    prompt: u64,
    cached: u64,
    generated: u64,
    steps: u64,
    sequences: f64,
    prompt_seconds: f64,
    generate_seconds: f64,
    drafts: u64,
    drafted: u64,
    accepted: u64,
    running: usize,
    waiting: usize,
    longest: usize,
}

impl Sums {
    fn add(&mut self, counters: &Counters) {
        let c = counters;
        self.prompt += c.prompt_tokens - c.cached_tokens.min(c.prompt_tokens);
        self.cached += c.cached_tokens;
        self.generated += c.generated_tokens;
        self.steps += c.steps;
        self.sequences += c.batch_texts.sum;
        self.prompt_seconds += (c.first_token_time.sum - c.queue_time.sum).max(0.0);
        self.generate_seconds += c.token_time.sum;
        self.drafts += c.drafts;
        self.drafted += c.drafted_tokens;
        self.accepted += c.accepted_tokens;
        self.running += c.running;
        self.waiting += c.waiting;
        self.longest = self.longest.max(c.longest);
    }
}

/// Writes the numbers of all engines.
pub(super) fn write(engines: &[Measured<'_>], out: &mut String) {
    let mut sums = Sums::default();
    for engine in engines {
        sums.add(engine.counters);
    }
    let s = sums;
    let rate = |count: u64, seconds: f64| match seconds {
        0.0 => 0.0,
        seconds => count as f64 / seconds,
    };
    let counters = [
        (
            "prompt_tokens_total",
            "Tokens of prompts that were computed.",
            s.prompt as f64,
        ),
        (
            "prompt_tokens_cached_total",
            "Tokens of prompts found in the cache.",
            s.cached as f64,
        ),
        (
            "prompt_seconds_total",
            "Time spent on prompts.",
            s.prompt_seconds,
        ),
        (
            "tokens_predicted_total",
            "Tokens generated.",
            s.generated as f64,
        ),
        (
            "tokens_predicted_seconds_total",
            "Time spent on generating.",
            s.generate_seconds,
        ),
        ("n_decode_total", "Steps of the engine.", s.steps as f64),
        (
            "n_tokens_max",
            "Tokens of the longest sequence.",
            s.longest as f64,
        ),
        (
            "spec_decode_num_drafts_total",
            "Times that tokens were guessed ahead.",
            s.drafts as f64,
        ),
        (
            "spec_decode_num_draft_tokens_total",
            "Tokens guessed ahead.",
            s.drafted as f64,
        ),
        (
            "spec_decode_num_accepted_tokens_total",
            "Guesses that were right.",
            s.accepted as f64,
        ),
    ];
    let gauges = [
        (
            "prompt_tokens_seconds",
            "Tokens of prompts a second.",
            rate(s.prompt, s.prompt_seconds),
        ),
        (
            "predicted_tokens_seconds",
            "Tokens generated a second.",
            rate(s.generated, s.generate_seconds),
        ),
        (
            "requests_processing",
            "Sequences that run.",
            s.running as f64,
        ),
        (
            "requests_deferred",
            "Sequences that wait.",
            s.waiting as f64,
        ),
        (
            "n_busy_slots_per_decode",
            "Sequences in a step, on average.",
            s.sequences / (s.steps.max(1) as f64),
        ),
    ];
    let counters = counters.map(|(name, help, value)| ("counter", name, help, value));
    let gauges = gauges.map(|(name, help, value)| ("gauge", name, help, value));
    for (kind, name, help, value) in counters.into_iter().chain(gauges) {
        let name = alloc::format!("llamacpp:{name}");
        head(out, &name, help, kind);
        // Writing to a string does not fail.
        let _ = writeln!(out, "{name} {value}");
    }
}
