//! What this machine computes with: kernels for its instruction set, worker threads, and the memory that is left.

use crate::failure::{Failure, Kind};
use strata_host::ThreadPool;
use strata_kernels::{CpuFeatures, Isa, Kernels};
use strata_model::Compute;

/// The variable that forces an instruction set.
const ISA: &str = "STRATA_ISA";

/// Kernels and workers.
pub(crate) struct Machine {
    pub(crate) kernels: &'static Kernels,
    pub(crate) pool: ThreadPool,
}

impl Machine {
    /// `threads` workers, or one for each processor.
    pub(crate) fn new(threads: Option<usize>) -> Result<Self, Failure> {
        let kernels = kernels(
            std::env::var_os(ISA)
                .map(|name| name.to_string_lossy().into_owned())
                .as_deref(),
        )?;
        let pool = ThreadPool::new(threads).map_err(|error| {
            Failure::new(
                Kind::Failed,
                format_args!("the worker threads cannot be started: {error}"),
            )
            .hint("ask for fewer with --threads")
        })?;
        Ok(Self { kernels, pool })
    }

    pub(crate) fn compute(&self) -> Compute<'_> {
        Compute {
            kernels: self.kernels,
            pool: &self.pool,
        }
    }
}

fn kernels(forced: Option<&str>) -> Result<&'static Kernels, Failure> {
    let Some(name) = forced.filter(|name| !name.is_empty()) else {
        return Ok(Kernels::detect());
    };
    let fault = match Isa::from_name(name) {
        None => "is not an instruction set that the kernels know",
        Some(isa) => match Kernels::for_isa(isa) {
            Some(kernels) => return Ok(kernels),
            None => "is not available on this processor",
        },
    };
    let features = CpuFeatures::detect();
    let here: Vec<&str> = Isa::ALL
        .iter()
        .filter(|&&isa| features.has(isa))
        .map(|isa| isa.name())
        .collect();
    Err(
        Failure::new(Kind::Usage, format_args!("{ISA}: {name:?} {fault}")).hint(format_args!(
            "this machine has {}; unset {ISA} for the fastest",
            here.join(", ")
        )),
    )
}

/// The most memory that this process ever had, in bytes; 0 where the system does not say.
pub(crate) fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    kilobytes(&status, "VmHWM:").unwrap_or(0)
}

/// The memory that can still be had: what the system has left, and what the control group allows. `None` where nobody
/// says.
pub(crate) fn available_memory() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let system = kilobytes(&meminfo, "MemAvailable:");
    let group =
        group_memory("/sys/fs/cgroup", ["memory.max", "memory.current", "file "]).or_else(|| {
            group_memory(
                "/sys/fs/cgroup/memory",
                [
                    "memory.limit_in_bytes",
                    "memory.usage_in_bytes",
                    "total_cache ",
                ],
            )
        });
    match (system, group) {
        (Some(system), Some(group)) => Some(system.min(group)),
        (system, group) => system.or(group),
    }
}

/// What the control group's limit leaves. Cached files count as used there, but give way.
fn group_memory(folder: &str, [limit, used, cached]: [&str; 3]) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).ok();
    let number = |name| read(name)?.trim().parse::<u64>().ok();
    let limit = number(limit)?;
    let stat = read("memory.stat").unwrap_or_default();
    let cached = stat.lines().find_map(|line| line.strip_prefix(cached));
    let cached: u64 = cached.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
    Some(limit.saturating_sub(number(used)?.saturating_sub(cached)))
}

/// The value of a line such as `VmHWM:  123 kB`, in bytes.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_set_is_taken_by_name_or_refused_with_the_ones_there_are() {
        assert_eq!(kernels(Some("scalar")).unwrap().isa(), Isa::Scalar);
        assert_eq!(kernels(None).unwrap().isa(), CpuFeatures::detect().best());
        let refused = format!("{:?}", kernels(Some("sse9")).unwrap_err());
        assert!(
            refused.contains("sse9") && refused.contains("scalar"),
            "{refused}"
        );
    }

    #[test]
    fn kernel_files_are_read() {
        let text = "VmPeak:\t  10 kB\nVmHWM:\t    1234 kB\n";
        assert_eq!(kilobytes(text, "VmHWM:"), Some(1234 * 1024));
        assert_eq!(kilobytes(text, "VmRSS:"), None);
    }
}
