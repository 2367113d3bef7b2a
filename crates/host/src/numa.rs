//! The machine's memory nodes, as Linux tells of them (Documentation/ABI/stable/sysfs-devices-node).

use crate::kernel_files::text;
use std::path::Path;

/// Processors and the memory that is near to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNode {
    /// The system's number of it.
    pub number: u32,
    /// Its processors, as in `0-15,32-47`; empty for memory without any.
    pub processors: String,
    /// Its memory.
    pub bytes: u64,
}

impl MemoryNode {
    /// All nodes by number; none where the system does not tell. Most machines have one.
    pub fn all() -> Vec<MemoryNode> {
        if cfg!(windows) {
            return Vec::new();
        }
        Self::read(Path::new("/sys/devices/system/node"))
    }

    fn read(folder: &Path) -> Vec<MemoryNode> {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        let node = |path: &Path| {
            let number = path.file_name()?.to_str()?.strip_prefix("node")?;
            Some(MemoryNode {
                number: number.parse().ok()?,
                processors: text(&path.join("cpulist"))?.trim().to_owned(),
                bytes: total(&text(&path.join("meminfo"))?)?,
            })
        };
        let found = entries.flatten().filter_map(|entry| node(&entry.path()));
        let mut nodes: Vec<_> = found.collect();
        nodes.sort_by_key(|node| node.number);
        nodes
    }
}

/// `Node 0 MemTotal:       24689304 kB`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.contains("MemTotal:"))?;
    let (_, size) = line.split_once("MemTotal:")?;
    let kilobytes: u64 = size.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_in_order() {
        let name = format!("strata-nodes-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        for (name, processors, size) in [
            ("node10", "", "Node 10 MemTotal: 2048 kB\n"),
            (
                "node1",
                "2-3\n",
                "Node 1 MemFree: 1 kB\nNode 1 MemTotal:  1024 kB\n",
            ),
            ("node2", "4\n", "damaged"),
            ("nodes", "5\n", "Node 5 MemTotal: 1 kB\n"),
        ] {
            let node = folder.join(name);
            std::fs::create_dir_all(&node).unwrap();
            std::fs::write(node.join("cpulist"), processors).unwrap();
            std::fs::write(node.join("meminfo"), size).unwrap();
        }
        let node = |number, processors: &str, bytes| MemoryNode {
            number,
            processors: processors.into(),
            bytes,
        };
        let expected = [node(1, "2-3", 1 << 20), node(10, "", 2 << 20)];
        let found = MemoryNode::read(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_machine_that_does_not_tell_has_none() {
        assert_eq!(MemoryNode::read(Path::new("/nowhere")), []);
    }
}
