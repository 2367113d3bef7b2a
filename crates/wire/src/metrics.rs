//! The engine's numbers as Prometheus reads them: under the names that vLLM gave them, which gateways and dashboards
//! know, under our own where it has none, and once more under llama-server's.

mod llama_server;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::time::Duration;
use strata_engine::{BUCKETS, Blocked, Counters, Histogram};
use strata_model::PAGE;

/// A model's engine.
#[derive(Copy, Clone, Debug)]
pub struct Measured<'a> {
    /// The model's name.
    pub model: &'a str,
    /// Its numbers.
    pub counters: &'a Counters,
    /// Its adapters.
    pub adapters: AdapterUse<'a>,
}

/// Which adapters of a model are at work.
#[derive(Copy, Clone, Debug, Default)]
pub struct AdapterUse<'a> {
    /// How many there are.
    pub count: usize,
    /// Those of texts that run.
    pub running: &'a [String],
    /// Those of texts that wait.
    pub waiting: &'a [String],
}

type Read<T> = fn(&Counters) -> T;
type ReadHistogram = for<'a> fn(&'a Counters) -> &'a Histogram;

const COUNTERS: &[(&str, &str, Read<u64>)] = &[
    ("vllm:prompt_tokens", "Tokens of prompts.", |c| {
        c.prompt_tokens
    }),
    ("vllm:generation_tokens", "Tokens generated.", |c| {
        c.generated_tokens
    }),
    (
        "vllm:prefix_cache_queries",
        "Tokens looked for in the cache.",
        |c| c.prompt_tokens,
    ),
    (
        "vllm:prefix_cache_hits",
        "Tokens found in the cache.",
        |c| c.cached_tokens,
    ),
    (
        "vllm:num_preemptions",
        "Texts that gave their pages back.",
        |c| c.preemptions,
    ),
    (
        "vllm:request_success",
        "Requests whose answers are complete.",
        |c| c.finished,
    ),
    (
        "strata:requests_failed",
        "Requests that ended with an error.",
        |c| c.failed,
    ),
    (
        "strata:requests_canceled",
        "Requests that were canceled.",
        |c| c.canceled,
    ),
    (
        "strata:requests_rejected",
        "Requests not taken: the queue was full.",
        |c| c.rejected,
    ),
    ("strata:drafted_tokens", "Tokens guessed ahead.", |c| {
        c.drafted_tokens
    }),
    ("strata:accepted_tokens", "Guesses that were right.", |c| {
        c.accepted_tokens
    }),
    (
        "strata:forced_tokens",
        "Tokens that a grammar left no choice for.",
        |c| c.forced_tokens,
    ),
    (
        "strata:evicted_pages",
        "Kept pages given up for others.",
        |c| c.evicted_pages,
    ),
    (
        "strata:window_evictions",
        "Kept pages whose layers with windows were given up for others.",
        |c| c.window_evictions,
    ),
    ("strata:stored_pages", "Pages written to the store.", |c| {
        c.stored_pages
    }),
    ("strata:restored_pages", "Pages read from the store.", |c| {
        c.restored_pages
    }),
    ("strata:steps", "Steps of the engine.", |c| c.steps),
];

const GAUGES: &[(&str, &str, Read<f64>)] = &[
    ("vllm:num_requests_waiting", "Sequences that wait.", |c| {
        c.waiting as f64
    }),
    ("vllm:num_requests_running", "Sequences that run.", |c| {
        c.running as f64
    }),
    (
        "vllm:kv_cache_usage_perc",
        "Share of the pages in use, 0 to 1.",
        usage,
    ),
];

/// What sequences can wait for.
const BLOCKED: &[(&str, Blocked)] = &[
    ("slots", Blocked::Slots),
    ("memory", Blocked::Memory),
    ("time", Blocked::Time),
];

const HISTOGRAMS: &[(&str, &str, ReadHistogram)] = &[
    (
        "vllm:time_to_first_token_seconds",
        "From submission to the first token.",
        |c| &c.first_token_time,
    ),
    (
        "vllm:inter_token_latency_seconds",
        "Between two tokens of a sequence.",
        |c| &c.token_time,
    ),
    (
        "vllm:request_queue_time_seconds",
        "From submission to the first computation.",
        |c| &c.queue_time,
    ),
    ("strata:step_seconds", "Steps of the engine.", |c| {
        &c.step_time
    }),
    ("strata:batch_texts", "Sequences in a step.", |c| {
        &c.batch_texts
    }),
    ("strata:batch_tokens", "Tokens in a step.", |c| {
        &c.batch_tokens
    }),
];

/// The share of pages that running sequences hold. Those that are only kept for later can be had at once, so gateways must
/// not take them for a full cache.
fn usage(counters: &Counters) -> f64 {
    let taken = counters.pages - counters.free_pages.min(counters.pages);
    let used = taken - counters.kept_pages.min(taken);
    match counters.pages {
        0 => 0.0,
        pages => used as f64 / pages as f64,
    }
}

/// Writes how long the server has run.
pub fn write_uptime(uptime: Duration, out: &mut String) {
    let name = "strata:uptime_seconds";
    // Writing to a string does not fail.
    let _ = writeln!(out, "# TYPE {name} gauge\n{name} {}", uptime.as_secs_f64());
}

/// Writes the numbers of all engines. `now` is in seconds since 1970.
pub fn write(engines: &[Measured<'_>], now: u64, out: &mut String) {
    for &(name, help, read) in COUNTERS {
        head(out, &format!("{name}_total"), help, "counter");
        for engine in engines {
            let labels = labels(engine.model);
            let _ = writeln!(out, "{name}_total{{{labels}}} {}", read(engine.counters));
        }
    }
    for &(name, help, read) in GAUGES {
        head(out, name, help, "gauge");
        for engine in engines {
            let labels = labels(engine.model);
            let _ = writeln!(out, "{name}{{{labels}}} {}", read(engine.counters));
        }
    }
    for &(name, help, read) in HISTOGRAMS {
        head(out, name, help, "histogram");
        for engine in engines {
            histogram(out, name, &labels(engine.model), read(engine.counters));
        }
    }
    head(
        out,
        "strata:requests_blocked",
        "Sequences that wait, by what they wait for.",
        "gauge",
    );
    for engine in engines {
        let (labels, c) = (labels(engine.model), engine.counters);
        for (reason, blocked) in BLOCKED {
            let waiting = if c.blocked == Some(*blocked) {
                c.waiting
            } else {
                0
            };
            let _ = writeln!(
                out,
                "strata:requests_blocked{{{labels},reason=\"{reason}\"}} {waiting}"
            );
        }
    }
    head(out, "strata:kv_pages", "Pages of keys and values.", "gauge");
    for engine in engines {
        let (labels, c) = (labels(engine.model), engine.counters);
        let taken = c.pages - c.free_pages.min(c.pages);
        let kept = c.kept_pages.min(taken);
        for (state, pages) in [
            ("free", c.free_pages),
            ("used", taken - kept),
            ("cached", kept),
        ] {
            let _ = writeln!(out, "strata:kv_pages{{{labels},state=\"{state}\"}} {pages}");
        }
    }
    head(
        out,
        "vllm:cache_config_info",
        "The shape of the cache.",
        "gauge",
    );
    for engine in engines {
        let (labels, pages) = (labels(engine.model), engine.counters.pages);
        let shape = format!("block_size=\"{PAGE}\",num_gpu_blocks=\"{pages}\"");
        let _ = writeln!(out, "vllm:cache_config_info{{{labels},{shape}}} 1");
    }
    head(out, "vllm:lora_requests_info", "Adapters at work.", "gauge");
    let most: usize = engines.iter().map(|engine| engine.adapters.count).sum();
    let joined = |read: for<'e> fn(&AdapterUse<'e>) -> &'e [String]| {
        let names = engines.iter().flat_map(|engine| read(&engine.adapters));
        let names: Vec<String> = names.map(|name| escaped(name)).collect();
        names.join(",")
    };
    let (running, waiting) = (joined(|a| a.running), joined(|a| a.waiting));
    let adapters = format!(
        "max_lora=\"{most}\",running_lora_adapters=\"{running}\",waiting_lora_adapters=\"{waiting}\""
    );
    let _ = writeln!(out, "vllm:lora_requests_info{{{adapters}}} {now}");
    llama_server::write(engines, out);
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn labels(model: &str) -> String {
    format!("model_name=\"{}\",engine=\"0\"", escaped(model))
}

/// A label's value, with what must not stand in one.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
    text
}

fn histogram(out: &mut String, name: &str, labels: &str, values: &Histogram) {
    let mut below = 0;
    for (end, count) in BUCKETS.iter().zip(&values.buckets) {
        below += count;
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{end}\"}} {below}");
    }
    let (sum, count) = (values.sum, values.count);
    let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
    let _ = writeln!(
        out,
        "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_find_the_names_they_look_for() {
        let mut counters = Counters {
            waiting: 3,
            pages: 100,
            free_pages: 55,
            kept_pages: 20,
            ..Counters::default()
        };
        counters.token_time.record(0.03);
        let engine = Measured {
            model: "a\"b",
            counters: &counters,
            adapters: AdapterUse {
                count: 2,
                running: &["poet".into(), "critic".into()],
                waiting: &[],
            },
        };
        let mut text = String::new();
        write(&[engine], 7, &mut text);
        for line in [
            "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"poet,critic\",waiting_lora_adapters=\"\"} 7",
            "vllm:num_requests_waiting{model_name=\"a\\\"b\",engine=\"0\"} 3",
            "vllm:kv_cache_usage_perc{model_name=\"a\\\"b\",engine=\"0\"} 0.25",
            "vllm:inter_token_latency_seconds_bucket{model_name=\"a\\\"b\",engine=\"0\",le=\"0.02\"} 0",
            "vllm:inter_token_latency_seconds_bucket{model_name=\"a\\\"b\",engine=\"0\",le=\"0.05\"} 1",
            "vllm:inter_token_latency_seconds_count{model_name=\"a\\\"b\",engine=\"0\"} 1",
        ] {
            assert!(
                text.lines().any(|written| written == line),
                "{line}\n{text}"
            );
        }
    }
}
