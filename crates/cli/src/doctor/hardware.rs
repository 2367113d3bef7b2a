//! What the machine is made of, as far as the system tells.

use std::collections::BTreeSet;
use std::path::Path;
use strata::GpuFacts;
use strata::load::Machine;
use strata_host::{Cache, HugePages, MemoryNode, PageReport, control_group_limit};
use strata_kernels::{CpuFeatures, Isa, Tiles};
use strata_platform::{Memory, Pool};

/// Enough huge pages to see whether there are any.
const TRIAL: usize = 64 << 20;

/// A machine.
pub(super) struct Hardware {
    /// What its maker calls the processor.
    pub(super) cpu: Option<String>,
    /// Processors that the system has, threads of one core counted apart.
    pub(super) processors: usize,
    /// Cores; `None` where the system does not tell.
    pub(super) cores: Option<usize>,
    /// Processors that this process may use.
    pub(super) available: usize,
    /// Threads that would compute.
    pub(super) threads: usize,
    pub(super) isa: Isa,
    /// The fastest that it has.
    pub(super) best: Isa,
    /// What earlier loads have measured.
    pub(super) tuning: String,
    /// All instruction sets that it has kernels for.
    pub(super) isas: Vec<Isa>,
    pub(super) caches: Vec<Cache>,
    /// The setting of transparent huge pages: `always`, `madvise` or `never`.
    pub(super) huge_pages: Option<String>,
    /// The share of a trial's memory that came in huge pages.
    pub(super) huge_share: Option<f64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) memory_nodes: Vec<MemoryNode>,
    /// What multiplies tiles.
    pub(super) tiles: Tiles,
    /// The limit of its control groups.
    pub(super) group_limit_bytes: Option<u64>,
    /// Those that models can run on.
    pub(super) gpus: Vec<GpuFacts>,
}

impl Hardware {
    pub(super) fn look(machine: &Machine) -> Self {
        let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
        let features = CpuFeatures::detect();
        let listed = cpuinfo.lines().filter(|line| line.starts_with("processor"));
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            cpu: cpu_name(&cpuinfo),
            processors: listed.count().max(available),
            cores: cores(Path::new("/sys/devices/system/cpu")),
            available,
            threads: machine.pool.workers(),
            isa: machine.kernels.isa(),
            best: features.best(),
            tuning: machine.kept_tuning().to_string(),
            isas: Isa::ALL
                .iter()
                .copied()
                .filter(|&isa| features.has(isa))
                .collect(),
            caches: Cache::all(),
            huge_pages: text("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|setting| chosen(&setting)),
            huge_share: huge_share(),
            memory_bytes: text("/proc/meminfo").and_then(|meminfo| total(&meminfo)),
            memory_nodes: MemoryNode::all(),
            tiles: machine.kernels.policy().tiles(),
            group_limit_bytes: control_group_limit(),
            gpus: strata::gpus(),
        }
    }
}

fn text(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// x86 says `model name`, some ARM kernels `Model`.
fn cpu_name(cpuinfo: &str) -> Option<String> {
    let value = |wanted: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == wanted).then(|| value.trim().to_owned())
        })
    };
    value("model name").or_else(|| value("Model"))
}

/// Threads of one core have the same number, within a package.
fn cores(folder: &Path) -> Option<usize> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let number = |name: &str| {
            let path = entry.path().join("topology").join(name);
            std::fs::read_to_string(path)
                .ok()?
                .trim()
                .parse::<i64>()
                .ok()
        };
        if let Some(core) = number("core_id") {
            found.insert((number("physical_package_id"), core));
        }
    }
    (!found.is_empty()).then_some(found.len())
}

/// The word in brackets: `always [madvise] never`.
fn chosen(setting: &str) -> Option<String> {
    let (_, rest) = setting.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn huge_share() -> Option<f64> {
    let mut region = HugePages::default().region(TRIAL).ok()?;
    region.fill(1);
    let report = PageReport::of(&region)?;
    Some(report.huge_bytes as f64 / report.bytes.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_files_are_understood() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.0\nmodel\t\t: 17\n";
        assert_eq!(cpu_name(cpuinfo).as_deref(), Some("Some CPU @ 2.0"));
        assert_eq!(cpu_name(""), None);
        assert_eq!(
            chosen("always [madvise] never\n").as_deref(),
            Some("madvise")
        );
        assert_eq!(chosen("nothing"), None);
        assert_eq!(
            total("MemFree: 1 kB\nMemTotal:  2048 kB\n"),
            Some(2048 * 1024)
        );
    }
}
