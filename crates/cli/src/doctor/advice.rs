//! What to do about it, in sentences.

use super::fits::Fit;
use super::hardware::Hardware;
use super::speed::Speeds;
use strata::Size;
use strata_host::{Bound, Budget};

/// Tokens a second that people read at.
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
        && let Some(fit) = fits.iter().rfind(|fit| fit.fits)
    {
        advice.push(format!(
            "Loading {} for the first time takes about {:.0} s from this disk.",
            fit.name(),
            (fit.bytes / speed.bytes_per_second).max(1.0)
        ));
    }
    if hardware.isa != hardware.best {
        advice.push(format!(
            "STRATA_ISA forces {}; unset it for the fastest kernels.",
            hardware.isa.name()
        ));
    }
    match (hardware.huge_pages.as_deref(), hardware.huge_share) {
        (Some("never"), _) => advice.push(
            "Huge pages are switched off; `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` (as root) makes decoding faster.".into(),
        ),
        (_, Some(share)) if share < 0.5 => advice.push(
            "Few huge pages could be had: memory is fragmented; `echo 1 > /proc/sys/vm/compact_memory` (as root) or a restart helps.".into(),
        ),
        _ => {}
    }
    if budget.bound_by == Bound::ControlGroup {
        let machine = hardware.memory_bytes.map_or_else(String::new, |bytes| {
            format!(" of the {} that the machine has", Size(bytes))
        });
        advice.push(format!(
            "A control group allows {}{machine}; raise the container's limit for larger models.",
            Size(budget.limit_bytes)
        ));
    }
    if hardware.threads > 1 && speeds.one_thread > 0.8 * speeds.all_threads {
        advice.push(
            "One thread alone reads memory nearly as fast as all: more threads help prompts, not single answers.".into(),
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
            "This process may use {} processors; more threads than that only wait for each other.",
            hardware.available
        ));
    }
    advice
}

fn models(fits: &[Fit]) -> String {
    let fitting = || fits.iter().filter(|fit| fit.fits);
    let fluent = fitting().rfind(|fit| fit.decode >= READING);
    match (fluent, fitting().next_back()) {
        (Some(fluent), Some(largest)) if fluent == largest => format!(
            "The largest that fits is {}, and it writes about {:.0} tokens a second.",
            largest.name(),
            largest.decode
        ),
        (Some(fluent), Some(largest)) => format!(
            "{} writes faster than people read (about {:.0} tokens a second); the largest that fits is {} ({:.1}).",
            fluent.name(),
            fluent.decode,
            largest.name(),
            largest.decode
        ),
        (None, Some(largest)) => format!(
            "{} fits and writes about {:.1} tokens a second, slower than people read.",
            largest.name(),
            largest.decode
        ),
        (_, None) => {
            "None of these fits; --stream always runs a model from its file, slowly.".into()
        }
    }
}
