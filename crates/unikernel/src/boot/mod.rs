//! What the firmware or the hypervisor says about the machine.

#[cfg(any(target_arch = "aarch64", test))]
pub mod board;
mod command_line;
#[cfg(any(target_arch = "aarch64", test))]
pub mod device_tree;
pub mod listed;
pub mod memory_map;
#[cfg(any(target_arch = "x86_64", test))]
pub mod placement;
#[cfg(any(target_arch = "x86_64", test))]
pub mod pvh;
pub mod trust;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod uefi;
pub mod uefi_memory;

use crate::machine::entropy::ASKED;
pub use command_line::CommandLine;
use memory_map::{MemoryMap, Range};
pub(crate) use strata_image::le;
use trust::{Refusal, Trust};

/// Who started the program.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A hypervisor, by the PVH entry.
    Pvh,
    /// UEFI firmware.
    Uefi,
    /// A loader that tells of the machine by a device tree, as Linux on AArch64 is started.
    DeviceTree,
}

/// A linear framebuffer of 32-bit pixels.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Framebuffer {
    /// Its physical address.
    pub address: u64,
    /// Pixels in a row that are seen.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Pixels from one row to the next.
    pub stride: u32,
}

/// Everything the program knows of its machine before it looks for itself.
#[derive(Clone, Debug)]
pub struct BootInfo {
    /// Who started the program.
    pub source: Source,
    /// The physical memory that is free.
    pub memory: MemoryMap,
    /// Memory that is free once firmware's page tables are no longer in use.
    pub borrowed: MemoryMap,
    /// Options.
    pub command_line: CommandLine,
    /// The physical address of ACPI's root pointer.
    pub rsdp: Option<u64>,
    /// What a device tree tells.
    #[cfg(any(target_arch = "aarch64", test))]
    pub board: Option<board::Board>,
    /// A file that was loaded along with the program: an initrd, or a model from the boot volume.
    pub module: Option<Range>,
    /// Whether it is the file that `model=` names.
    pub module_was_named: bool,
    /// What that file should sum to.
    pub module_sha256: Option<[u8; 32]>,
    /// The screen.
    pub framebuffer: Option<Framebuffer>,
    /// Random bytes that firmware gave.
    pub entropy: Option<[u8; ASKED]>,
    /// The program's digest as it was before it wrote to itself, where there is a TPM to measure it into.
    pub program: Option<[u8; 32]>,
    /// Where firmware's list of what it has measured is, and where it goes on with how many events that the list has.
    pub firmware_log: Option<Range>,
    /// As above.
    pub later_log: Option<(u64, u64)>,
    /// Whom the image trusts.
    pub trust: Trust,
    /// Why the machine must not start.
    pub refusal: Option<Refusal>,
}

impl BootInfo {
    /// Nothing is known yet but who is asking.
    pub const fn new(source: Source) -> Self {
        Self {
            source,
            memory: MemoryMap::new(),
            borrowed: MemoryMap::new(),
            command_line: CommandLine::new(),
            rsdp: None,
            #[cfg(any(target_arch = "aarch64", test))]
            board: None,
            module: None,
            module_was_named: false,
            module_sha256: None,
            framebuffer: None,
            entropy: None,
            program: None,
            firmware_log: None,
            later_log: None,
            trust: Trust::OPEN,
            refusal: None,
        }
    }
}

/// Physical memory that can be looked at.
pub trait Physical {
    /// The bytes at an address, or nothing if any of them cannot be read.
    fn bytes(&self, address: u64, len: usize) -> Option<&[u8]>;
}

#[cfg(test)]
pub(crate) mod fake {
    //! Memory made of a few pieces.

    use super::Physical;
    use std::vec::Vec;

    #[derive(Clone, Default)]
    pub(crate) struct Pieces(pub(crate) Vec<(u64, Vec<u8>)>);

    impl Physical for Pieces {
        fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
            self.0.iter().find_map(|(start, bytes)| {
                let from = usize::try_from(address.checked_sub(*start)?).ok()?;
                bytes.get(from..from.checked_add(len)?)
            })
        }
    }
}
