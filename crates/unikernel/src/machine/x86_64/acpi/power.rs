//! How a machine is turned off and reset: registers that the FADT names, and values that the DSDT does.

use super::Tables;
use crate::boot::le;

/// Where a register is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Space {
    /// In memory.
    Memory,
    /// Behind a port.
    Port,
}

/// A register.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Which space.
    pub space: Space,
    /// Where in it.
    pub address: u64,
    /// How wide it is: 1 or 2.
    pub bytes: u8,
}

/// What to write where.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PowerControl {
    /// To reset the machine.
    pub reset: Option<(Register, u8)>,
    /// To turn it off, one after the other.
    pub sleep: [Option<(Register, u16)>; 3],
}

const RESET_SUPPORTED: u32 = 1 << 10;
const HARDWARE_REDUCED: u32 = 1 << 20;

impl PowerControl {
    /// A machine of which nothing is known.
    pub const NONE: Self = Self {
        reset: None,
        sleep: [None; 3],
    };

    /// Reads the tables.
    pub fn read(tables: &Tables<'_>) -> Self {
        let Some(fadt) = tables.get(b"FACP") else {
            return Self::NONE;
        };
        let flags = le::u32(fadt, 112).unwrap_or(0);
        let mut control = Self::NONE;
        if flags & RESET_SUPPORTED != 0 {
            control.reset = address_structure(fadt, 116, 1).zip(fadt.get(128).copied());
        }
        let wide = le::u64(fadt, 140).filter(|&address| address != 0);
        let dsdt = wide
            .or_else(|| le::u32(fadt, 40).map(u64::from))
            .and_then(|address| tables.at(address));
        let Some([first, second]) = dsdt.and_then(soft_off) else {
            return control;
        };
        if flags & HARDWARE_REDUCED != 0 {
            let value = u16::from(first) << 2 | 1 << 5;
            control.sleep[0] = address_structure(fadt, 244, 1).map(|register| (register, value));
            return control;
        }
        let port = |at| {
            let address = u64::from(le::u32(fadt, at)?);
            (address != 0 && address <= 0xffff).then_some(Register {
                space: Space::Port,
                address,
                bytes: 2,
            })
        };
        // A machine that is not in ACPI mode yet is put there by its firmware.
        let enable = fadt.get(52).copied().filter(|&value| value != 0);
        control.sleep[0] = port(48)
            .map(|register| Register {
                bytes: 1,
                ..register
            })
            .zip(enable.map(u16::from));
        for (at, kind, slot) in [(64, first, 1), (68, second, 2)] {
            let value = u16::from(kind) << 10 | 1 << 13;
            control.sleep[slot] = port(at).map(|register| (register, value));
        }
        control
    }
}

/// A "generic address structure".
fn address_structure(table: &[u8], at: usize, bytes: u8) -> Option<Register> {
    let space = match table.get(at)? {
        0 => Space::Memory,
        1 => Space::Port,
        _ => return None,
    };
    let address = le::u64(table, at.checked_add(4)?)?;
    let fits = match space {
        Space::Port => address <= 0xffff,
        Space::Memory => address < 1 << 47,
    };
    (address != 0 && fits).then_some(Register {
        space,
        address,
        bytes,
    })
}

/// The two values of the package `_S5_`, found by its bytes: `Name (_S5_, Package () {a, b, …})`.
fn soft_off(dsdt: &[u8]) -> Option<[u8; 2]> {
    const PACKAGE: u8 = 0x12;
    let at = dsdt
        .windows(5)
        .position(|bytes| &bytes[..4] == b"_S5_" && bytes[4] == PACKAGE)?;
    let body = dsdt.get(at + 5..)?;
    // The package's length takes one to four bytes, then comes the number of elements.
    let length_bytes = 1 + usize::from(body.first()? >> 6);
    let mut elements = body.get(length_bytes + 1..)?;
    let mut next = || {
        let (value, used) = match *elements {
            [0x0a, value, ..] => (value, 2),
            [0x0b, value, _, ..] => (value, 3),
            [value @ (0 | 1), ..] => (value, 1),
            _ => return None,
        };
        elements = &elements[used..];
        (value < 8).then_some(value)
    };
    Some([next()?, next()?])
}
