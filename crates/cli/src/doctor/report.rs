//! What was found, in words and as JSON.

use super::advice::READING;
use super::fits::{CONTEXT, Fit};
use super::hardware::Hardware;
use super::speed::Speeds;
use crate::chart::{Bar, Chart, Tone};
use serde_json::{Value, json};
use std::io::Write;
use strata::Size;
use strata_host::Budget;

/// Everything that was found.
pub(super) struct Report {
    pub(super) hardware: Hardware,
    pub(super) speeds: Speeds,
    pub(super) budget: Budget,
    pub(super) fits: Vec<Fit>,
    pub(super) advice: Vec<String>,
}

impl Report {
    pub(super) fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        for (name, value) in self.lines() {
            writeln!(out, "{name:<14} {value}")?;
        }
        writeln!(
            out,
            "\n{:<12} {:>10} {:>10} {:>5} {:>14} {:>15}",
            "model", "weights", "memory", "fits", "answer tok/s", "prompt tok/s"
        )?;
        for fit in &self.fits {
            writeln!(
                out,
                "{:<12} {:>10} {:>10} {:>5} {:>14.1} {:>15.0}",
                fit.name(),
                Size(fit.bytes as u64).to_string(),
                Size(fit.needed as u64).to_string(),
                if fit.fits { "yes" } else { "no" },
                fit.decode,
                fit.prefill
            )?;
        }
        writeln!(
            out,
            "Speeds are estimates: an answer reads all weights for each token; memory is with a context of {CONTEXT}.\n"
        )?;
        for sentence in &self.advice {
            writeln!(out, "{sentence}")?;
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
        let unknown = || "not known".to_owned();
        let cores = match hardware.cores {
            Some(cores) => format!("{cores} cores, "),
            None => String::new(),
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
            Some(share) => format!(", {:.0} % of a trial", 100.0 * share),
            None => String::new(),
        };
        let group = match hardware.group_limit_bytes {
            Some(bytes) => format!(", control group {}", Size(bytes)),
            None => ", no control group's limit".to_owned(),
        };
        let total = hardware
            .memory_bytes
            .map_or_else(unknown, |bytes| Size(bytes).to_string());
        let gigabytes = |speed: f64| format!("{:.1} GB/s", speed / 1e9);
        vec![
            ("processor", hardware.cpu.clone().unwrap_or_else(unknown)),
            (
                "processors",
                format!(
                    "{cores}{} threads, {} available, {} used",
                    hardware.processors, hardware.available, hardware.threads
                ),
            ),
            (
                "instructions",
                format!("{} (of {})", hardware.isa.name(), isas.join(", ")),
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
                    "{total}, {} available (bound by {}){group}",
                    Size(budget.available_bytes),
                    budget.bound_by
                ),
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
        ]
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
            "isas": hardware.isas.iter().map(|isa| isa.name()).collect::<Vec<_>>(),
            "caches": caches.collect::<Vec<_>>(),
            "huge_pages": hardware.huge_pages,
            "huge_page_share": hardware.huge_share,
            "memory_bytes": hardware.memory_bytes,
            "control_group_limit_bytes": hardware.group_limit_bytes,
            "available_bytes": budget.available_bytes,
            "bound_by": budget.bound_by.to_string(),
            "read_bandwidth_bytes_s": speeds.all_threads,
            "one_thread_bytes_s": speeds.one_thread,
            "int_peak_ops_s": speeds.operations,
            "disk": disk,
            "models": fits.collect::<Vec<_>>(),
            "advice": self.advice,
        })
    }
}
