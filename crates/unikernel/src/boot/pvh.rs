//! The PVH boot protocol: `struct hvm_start_info` of Xen's `public/arch-x86/hvm/start_info.h`.

use super::memory_map::Range;
use super::{BootInfo, CommandLine, Physical, Source, le};
use thiserror::Error;

const MAGIC: u32 = 0x336e_c578;
const RAM: u32 = 1;
const ENTRY_BYTES: usize = 24;
const MAX_ENTRIES: usize = 1024;
const MAX_COMMAND_LINE: usize = 2048;

/// What the hypervisor left cannot be used.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum PvhError {
    /// The structure, or what it points to, lies outside of memory.
    #[error("the PVH start info at {address:#x} cannot be read")]
    Unreadable {
        /// Where it should be.
        address: u64,
    },
    /// Another number is where its magic number should be.
    #[error("the PVH start info begins with {found:#x}")]
    Magic {
        /// That number.
        found: u32,
    },
    /// Version 0 has no memory map.
    #[error("PVH start info of version {version} has no memory map")]
    NoMemoryMap {
        /// The version.
        version: u32,
    },
}

/// Reads the start info at `address`.
pub fn read(memory: &dyn Physical, address: u64) -> Result<BootInfo, PvhError> {
    let unreadable = PvhError::Unreadable { address };
    let head = memory.bytes(address, 40).ok_or(unreadable)?;
    let u32_at = |at| le::u32(head, at).unwrap_or_default();
    let u64_at = |at| le::u64(head, at).unwrap_or_default();
    if u32_at(0) != MAGIC {
        return Err(PvhError::Magic { found: u32_at(0) });
    }
    let version = u32_at(4);
    if version == 0 {
        return Err(PvhError::NoMemoryMap { version });
    }
    let tail = memory
        .bytes(address.saturating_add(40), 16)
        .ok_or(unreadable)?;
    let mut info = BootInfo::new(Source::Pvh);
    let (map, entries) = (le::u64(tail, 0), le::u32(tail, 8));
    let entries = (entries.unwrap_or_default() as usize).min(MAX_ENTRIES);
    let map = memory
        .bytes(map.unwrap_or_default(), entries * ENTRY_BYTES)
        .ok_or(unreadable)?;
    // What is both usable and reserved is reserved, whatever the order.
    for usable in [true, false] {
        for entry in map.chunks_exact(ENTRY_BYTES) {
            let (Some(start), Some(len), Some(kind)) =
                (le::u64(entry, 0), le::u64(entry, 8), le::u32(entry, 16))
            else {
                continue;
            };
            match (usable, kind == RAM) {
                (true, true) => info.memory.add(Range::new(start, len)),
                (false, false) => info.memory.remove(Range::new(start, len)),
                _ => {}
            }
        }
    }
    info.rsdp = Some(u64_at(32)).filter(|&rsdp| rsdp != 0);
    info.command_line = command_line(memory, u64_at(24));
    if u32_at(12) > 0 {
        let module = memory.bytes(u64_at(16), 16).ok_or(unreadable)?;
        if let (Some(start), Some(len)) = (le::u64(module, 0), le::u64(module, 8)) {
            info.module = Some(Range::new(start, len)).filter(|module| !module.is_empty());
        }
    }
    Ok(info)
}

/// A text that ends with a zero, of which nobody says how long it is.
fn command_line(memory: &dyn Physical, address: u64) -> CommandLine {
    if address == 0 {
        return CommandLine::new();
    }
    let mut text = [0; MAX_COMMAND_LINE];
    for (offset, byte) in text.iter_mut().enumerate() {
        let at = address.saturating_add(offset as u64);
        match memory.bytes(at, 1) {
            Some(&[found]) if found != 0 => *byte = found,
            _ => break,
        }
    }
    CommandLine::copy(&text)
}

#[cfg(test)]
mod tests {
    use super::super::fake::Pieces;
    use super::*;
    use std::vec::Vec;

    fn start_info() -> Pieces {
        let mut info = Vec::new();
        for word in [MAGIC, 1, 0, 1] {
            info.extend(word.to_le_bytes());
        }
        for address in [0x3000u64, 0x4000, 0xf_0000, 0x2000] {
            info.extend(address.to_le_bytes());
        }
        info.extend([3, 0, 0, 0, 0, 0, 0, 0]);
        let mut map = Vec::new();
        for (start, len, kind) in [
            (0u64, 0x9_f000u64, 1u32),
            (0x10_0000, 0x700_0000, 1),
            (0x700_0000, 0x1000, 2),
        ] {
            map.extend(start.to_le_bytes());
            map.extend(len.to_le_bytes());
            map.extend(kind.to_le_bytes());
            map.extend([0; 4]);
        }
        let module = [0x600_0000u64, 5].map(u64::to_le_bytes).concat();
        Pieces(Vec::from([
            (0x1000, info),
            (0x2000, map),
            (0x3000, module),
            (0x4000, b"prompt=\"a b\" n=3\0".to_vec()),
        ]))
    }

    #[test]
    fn everything_is_read() {
        let info = read(&start_info(), 0x1000).unwrap();
        assert_eq!(info.rsdp, Some(0xf_0000));
        assert_eq!(info.command_line.get("prompt"), Some("a b"));
        assert_eq!(info.module, Some(Range::new(0x600_0000, 5)));
        assert_eq!(
            info.memory.ranges(),
            [
                Range::new(0, 0x9_f000),
                Range {
                    start: 0x10_0000,
                    end: 0x700_0000
                },
                Range {
                    start: 0x700_1000,
                    end: 0x710_0000
                },
            ]
        );
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let info = start_info();
        assert_eq!(
            read(&info, 0x9000).err(),
            Some(PvhError::Unreadable { address: 0x9000 })
        );
        assert!(matches!(
            read(&info, 0x1004).err(),
            Some(PvhError::Unreadable { .. } | PvhError::Magic { .. })
        ));
        let mut old = info.clone();
        old.0[0].1[4] = 0;
        assert_eq!(
            read(&old, 0x1000).err(),
            Some(PvhError::NoMemoryMap { version: 0 })
        );
    }

    #[test]
    fn no_byte_makes_it_panic() {
        let good = start_info();
        for piece in 0..good.0.len() {
            for at in 0..good.0[piece].1.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut bad = good.clone();
                    bad.0[piece].1[at] = value;
                    let _ = read(&bad, 0x1000);
                }
            }
        }
    }
}
