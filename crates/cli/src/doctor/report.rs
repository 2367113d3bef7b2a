//! What was found, in words and as JSON.

use super::advice::READING;
use super::fits::{CONTEXT, Fit};
use super::hardware::Hardware;
use super::speed::Speeds;
use crate::chart::{Bar, Chart, Tone};
use crate::machine_limits::{nodes_as_json, nodes_in_words};
use serde_json::{Value, json};
use std::io::Write;
use strata::{GpuFacts, Size};
use strata_host::Budget;
use strata_kernels::Tiles;

/// Columns of the labels.
const LABEL: usize = 14;
/// Columns that the whole table takes.
const WIDE: usize = 72;

/// Writes a text with its lines broken between words, all but the first indented.
fn write_wrapped(
    out: &mut impl Write,
    text: &str,
    indent: usize,
    columns: usize,
) -> std::io::Result<()> {
    // On a narrow terminal the label alone would take half of it.
    let indent = if columns < 60 { indent.min(2) } else { indent };
    let mut line = String::new();
    for word in text.split_inclusive(' ') {
        let width = line.chars().count() + word.trim_end().chars().count();
        if width > columns && !line.trim().is_empty() {
            writeln!(out, "{}", line.trim_end())?;
            line = " ".repeat(indent);
        }
        line.push_str(word);
    }
    writeln!(out, "{}", line.trim_end())
}

/// Everything that was found.
pub(super) struct Report {
    pub(super) hardware: Hardware,
    pub(super) speeds: Speeds,
    pub(super) budget: Budget,
    pub(super) fits: Vec<Fit>,
    pub(super) advice: Vec<String>,
}

impl Report {
    /// Prints it for a terminal of so many columns.
    pub(super) fn print(&self, out: &mut impl Write, columns: usize) -> std::io::Result<()> {
        for (name, value) in self.lines() {
            write_wrapped(out, &format!("{name:<LABEL$} {value}"), LABEL + 1, columns)?;
        }
        writeln!(out)?;
        let narrow = columns < WIDE;
        if narrow {
            writeln!(
                out,
                "{:<11} {:>9} {:>4} {:>8}",
                "model", "memory", "fits", "tok/s"
            )?;
        } else {
            writeln!(
                out,
                "{:<12} {:>10} {:>10} {:>5} {:>14} {:>15}",
                "model", "weights", "memory", "fits", "answer tok/s", "prompt tok/s"
            )?;
        }
        for fit in &self.fits {
            let (weights, memory) = (Size(fit.bytes as u64), Size(fit.needed as u64));
            let (name, memory) = (fit.name(), memory.to_string());
            let fits = if fit.fits { "yes" } else { "no" };
            if narrow {
                writeln!(out, "{name:<11} {memory:>9} {fits:>4} {:>8.1}", fit.decode)?;
            } else {
                writeln!(
                    out,
                    "{name:<12} {:>10} {memory:>10} {fits:>5} {:>14.1} {:>15.0}",
                    weights.to_string(),
                    fit.decode,
                    fit.prefill
                )?;
            }
        }
        let note = format!(
            "Speeds are estimates: every token of an answer reads all weights once. Memory includes a context of \
             {CONTEXT} tokens."
        );
        write_wrapped(out, &note, 0, columns)?;
        writeln!(out)?;
        for sentence in &self.advice {
            write_wrapped(out, sentence, 0, columns)?;
        }
        Ok(())
    }

    /// How fast models would answer; those that do not fit are faint.
    pub(super) fn chart(&self) -> Chart {
        let bar = |fit: &Fit| Bar {
            label: fit.name(),
            value: fit.decode,
            words: format!("{:.1}", fit.decode),
            tone: if fit.fits { Tone::Solid } else { Tone::Faint },
        };
        Chart {
            title: "Answers, tokens/s (estimated; faint: does not fit)".into(),
            bars: self.fits.iter().map(bar).collect(),
            mark: Some((READING, "reading speed".into())),
        }
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let Self {
            hardware,
            speeds,
            budget,
            ..
        } = self;
        let unknown = || "unknown".to_owned();
        let cores = match hardware.cores {
            Some(cores) => format!("{cores} cores, "),
            None => String::new(),
        };
        let tiles = match hardware.tiles {
            Tiles::Off => String::new(),
            tiles => format!(" and {} tiles", tiles.name()),
        };
        let isas: Vec<&str> = hardware.isas.iter().map(|isa| isa.name()).collect();
        let caches = hardware.caches.iter().map(|cache| {
            let kind = match cache.kind.as_str() {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            // Caches come in powers of two.
            let size = match cache.bytes >> 10 {
                kib if kib < 1024 => format!("{kib} KiB"),
                kib => format!("{} MiB", kib >> 10),
            };
            format!("L{}{kind} {size}", cache.level)
        });
        let caches: Vec<String> = caches.collect();
        let huge = match hardware.huge_share {
            Some(share) => format!(", {:.0}% of a trial allocation", 100.0 * share),
            None => String::new(),
        };
        let group = match hardware.group_limit_bytes {
            Some(bytes) => format!(", control group {}", Size(bytes)),
            None => ", no control-group limit".to_owned(),
        };
        let total = hardware
            .memory_bytes
            .map_or_else(unknown, |bytes| Size(bytes).to_string());
        let gigabytes = |speed: f64| format!("{:.1} GB/s", speed / 1e9);
        let gpus = hardware.gpus.iter().map(|gpu| ("GPU", self.gpu(gpu)));
        let mut lines = vec![
            ("processor", hardware.cpu.clone().unwrap_or_else(unknown)),
            (
                "processors",
                format!(
                    "{cores}{} threads, {} available, {} in use",
                    hardware.processors, hardware.available, hardware.threads
                ),
            ),
            (
                "instructions",
                format!("{}{tiles} (of {})", hardware.isa.name(), isas.join(", ")),
            ),
            (
                "tuning",
                match hardware.tuning.as_str() {
                    "" => "measured when a model is first loaded".into(),
                    measured => measured.into(),
                },
            ),
            (
                "caches",
                if caches.is_empty() {
                    unknown()
                } else {
                    caches.join(", ")
                },
            ),
            (
                "huge pages",
                hardware.huge_pages.clone().unwrap_or_else(unknown) + &huge,
            ),
            (
                "memory",
                format!(
                    "{total}, {} available (limited by {}){group}",
                    Size(budget.available_bytes),
                    budget.bound_by
                ),
            ),
            (
                "memory nodes",
                match &hardware.memory_nodes[..] {
                    [] => unknown(),
                    nodes => nodes_in_words(nodes),
                },
            ),
            (
                "memory reads",
                format!(
                    "{} with all threads, {} with one",
                    gigabytes(speeds.all_threads),
                    gigabytes(speeds.one_thread)
                ),
            ),
            (
                "integer peak",
                format!("{:.0} Gop/s", speeds.operations / 1e9),
            ),
            (
                "disk reads",
                match &speeds.disk {
                    Some((path, speed)) => {
                        let cached = if speed.cached { ", cached" } else { "" };
                        let speed = gigabytes(speed.bytes_per_second);
                        format!("{speed}{cached} ({})", path.display())
                    }
                    None => unknown(),
                },
            ),
        ];
        lines.extend(gpus);
        lines
    }

    /// A GPU and what is whole in its free memory; of a larger model it takes some of the layers.
    fn gpu(&self, gpu: &GpuFacts) -> String {
        let GpuFacts { id, facts, free } = gpu;
        let (major, minor) = facts.capability;
        let version = if id.starts_with("cuda") {
            "compute capability"
        } else {
            "Vulkan"
        };
        let (name, memory) = (&facts.name, Size(facts.memory));
        let known = free.map_or_else(String::new, |free| format!(", {} free", Size(free)));
        let fits = match Fit::largest_within(&self.fits, free.unwrap_or(facts.memory)) {
            Some(fit) => format!("room for {}", fit.name()),
            None => "room for some layers".into(),
        };
        format!("{name}, {memory}{known}, {version} {major}.{minor}: {fits} (--device {id})")
    }

    pub(super) fn json(&self) -> Value {
        let Self {
            hardware,
            speeds,
            budget,
            ..
        } = self;
        let caches = hardware.caches.iter().map(|cache| {
            json!({
                "level": cache.level,
                "kind": cache.kind,
                "bytes": cache.bytes,
                "shared_by": cache.shared_by,
            })
        });
        let fits = self.fits.iter().map(|fit| {
            json!({
                "size": fit.size,
                "type": fit.mix.name(),
                "weight_bytes": fit.bytes,
                "needed_bytes": fit.needed,
                "fits": fit.fits,
                "decode_tok_s": fit.decode,
                "prefill_tok_s": fit.prefill,
            })
        });
        let gpus = hardware.gpus.iter().map(|gpu| {
            let room = gpu.free.unwrap_or(gpu.facts.memory);
            json!({
                "device": gpu.id,
                "name": gpu.facts.name,
                "memory_bytes": gpu.facts.memory,
                "free_bytes": gpu.free,
                "largest_model": Fit::largest_within(&self.fits, room).map(Fit::name),
            })
        });
        let disk = speeds.disk.as_ref().map(|(path, speed)| {
            json!({
                "folder": path.display().to_string(),
                "bytes_s": speed.bytes_per_second,
                "cached": speed.cached,
            })
        });
        json!({
            "cpu": hardware.cpu,
            "processors": hardware.processors,
            "cores": hardware.cores,
            "available_processors": hardware.available,
            "threads": hardware.threads,
            "isa": hardware.isa.name(),
            "tiles": hardware.tiles.name(),
            "tuning": hardware.tuning,
            "isas": hardware.isas.iter().map(|isa| isa.name()).collect::<Vec<_>>(),
            "caches": caches.collect::<Vec<_>>(),
            "huge_pages": hardware.huge_pages,
            "huge_page_share": hardware.huge_share,
            "memory_bytes": hardware.memory_bytes,
            "memory_nodes": nodes_as_json(&hardware.memory_nodes),
            "control_group_limit_bytes": hardware.group_limit_bytes,
            "available_bytes": budget.available_bytes,
            "bound_by": budget.bound_by.to_string(),
            "read_bandwidth_bytes_s": speeds.all_threads,
            "one_thread_bytes_s": speeds.one_thread,
            "int_peak_ops_s": speeds.operations,
            "disk": disk,
            "gpus": gpus.collect::<Vec<_>>(),
            "models": fits.collect::<Vec<_>>(),
            "advice": self.advice,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_a_narrow_terminal() {
        let text = "processor      Some Processor With A Long Name @ 2.00GHz, twelve cores";
        for columns in [40, 60, 80] {
            let mut out = Vec::new();
            write_wrapped(&mut out, text, LABEL + 1, columns).unwrap();
            let shown = String::from_utf8(out).unwrap();
            assert!(shown.lines().all(|line| line.len() <= columns), "{shown}");
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(words(&shown), words(text));
        }
    }
}
