//! What to do about it, in sentences.

use super::fits::Fit;
use super::hardware::Hardware;
use super::speed::Speeds;
use strata::Size;
use strata_convert::Mix;
use strata_host::{Bound, Budget};

/// Tokens/s that people read at.
pub(super) const READING: f64 = 10.0;

pub(super) fn of(
    hardware: &Hardware,
    speeds: &Speeds,
    budget: &Budget,
    fits: &[Fit],
) -> Vec<String> {
    let mut advice = vec![models(fits)];
    if let Some((_, speed)) = &speeds.disk
        && !speed.cached
        && let Some(fit) = fits.iter().rfind(|fit| fit.fits && fit.decode >= READING)
    {
        advice.push(format!(
            "Loading {} for the first time takes about {:.0} s from this disk.",
            fit.name(),
            (fit.bytes / speed.bytes_per_second).max(1.0)
        ));
    }
    if hardware.isa != hardware.best {
        advice.push(format!(
            "STRATA_ISA forces {}; unset it to use the fastest kernels.",
            hardware.isa.name()
        ));
    }
    match (hardware.huge_pages.as_deref(), hardware.huge_share) {
        (Some("never"), _) => advice.push(
            "Huge pages are disabled; `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` (as root) makes decoding faster.".into(),
        ),
        (_, Some(share)) if share < 0.5 => advice.push(
            "Few huge pages are available because memory is fragmented; `echo 1 > /proc/sys/vm/compact_memory` (as root) or a reboot helps.".into(),
        ),
        _ => {}
    }
    if budget.bound_by == Bound::ControlGroup {
        let machine = hardware.memory_bytes.map_or_else(String::new, |bytes| {
            format!(" of the machine's {}", Size(bytes))
        });
        advice.push(format!(
            "A control group limits memory to {}{machine}; raise the container's limit for larger models.",
            Size(budget.limit_bytes)
        ));
    }
    if hardware.threads > 1 && speeds.one_thread > 0.8 * speeds.all_threads {
        advice.push(
            "One thread reads memory nearly as fast as all of them: more threads speed up prompts, but not single answers.".into(),
        );
    }
    if let Some(cores) = hardware.cores.filter(|&cores| cores < hardware.threads) {
        advice.push(format!(
            "There are {cores} cores for {} threads; try --threads {cores}, which is often as fast.",
            hardware.threads
        ));
    }
    if hardware.threads > hardware.available {
        advice.push(format!(
            "This process may use {} processors; with more threads than that, they wait for each other.",
            hardware.available
        ));
    }
    advice
}

/// What to run: the largest model that writes about as fast as people read, or else the fastest.
fn models(fits: &[Fit]) -> String {
    let fitting = || fits.iter().filter(|fit| fit.fits);
    if let Some(fit) = fitting().rfind(|fit| fit.decode >= READING) {
        return format!(
            "Recommended: {}, at about {:.0} tokens/s, which is at least as fast as people read.{}",
            fit.name(),
            fit.decode,
            example(fit)
        );
    }
    let fastest = fitting().max_by(|a, b| a.decode.total_cmp(&b.decode));
    match fastest {
        Some(fit) => format!(
            "Recommended: {}, at about {:.1} tokens/s. Larger models fit, but would be slower than people read.{}",
            fit.name(),
            fit.decode,
            example(fit)
        ),
        None => {
            "None of these models fits in memory. The built-in model does: `strata run`.".into()
        }
    }
}

/// A model of that size that can be pulled by name.
fn example(fit: &Fit) -> String {
    let name = match (fit.size, fit.mix) {
        ("1b", Mix::Q4KM) => "llama3.2:1b-instruct-q4_K_M",
        ("1b", Mix::Q8_0) => "llama3.2:1b",
        ("3b", Mix::Q4KM) => "llama3.2:3b",
        ("3b", Mix::Q8_0) => "llama3.2:3b-instruct-q8_0",
        ("8b", Mix::Q4KM) => "llama3.1:8b",
        ("8b", Mix::Q8_0) => "llama3.1:8b-instruct-q8_0",
        ("14b", Mix::Q4KM) => "qwen3:14b",
        ("32b", Mix::Q4KM) => "qwen3:32b",
        ("70b", Mix::Q4KM) => "llama3.3:70b",
        _ => return String::new(),
    };
    format!(" Try `strata run {name}`.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(size: &'static str, decode: f64, fits: bool) -> Fit {
        Fit {
            size,
            mix: Mix::Q4KM,
            bytes: 1e9,
            needed: 2e9,
            fits,
            decode,
            prefill: 100.0,
        }
    }

    #[test]
    fn what_is_recommended_is_what_one_would_use() {
        let fast = models(&[
            fit("3b", 20.0, true),
            fit("8b", 11.0, true),
            fit("32b", 0.2, true),
        ]);
        assert!(fast.contains("8b") && !fast.contains("32b"), "{fast}");
        let slow = models(&[fit("1b", 4.0, true), fit("32b", 0.2, true)]);
        assert!(slow.contains("1b") && !slow.contains("32b"), "{slow}");
        assert!(models(&[fit("1b", 40.0, false)]).contains("built-in"));
    }
}
