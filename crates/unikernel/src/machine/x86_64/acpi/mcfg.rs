//! Where PCI's configuration space is in memory (PCI firmware specification 3.3, section 4.1.2).

use super::HEADER;
use crate::boot::le;
use crate::drivers::pci::ConfigurationSpace;
use alloc::vec::Vec;

/// The spaces of segment group 0.
pub fn spaces(mcfg: &[u8]) -> Vec<ConfigurationSpace> {
    let entries = mcfg.get(HEADER + 8..).unwrap_or_default().chunks_exact(16);
    entries
        .filter(|entry| le::u16(entry, 8) == Some(0) && entry[10] <= entry[11])
        .filter_map(|entry| {
            Some(ConfigurationSpace {
                address: le::u64(entry, 0).filter(|&address| address != 0)?,
                first_bus: entry[10],
                last_bus: entry[11],
            })
        })
        .collect()
}
