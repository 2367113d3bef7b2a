//! PCI: the configuration space in memory or behind ports, and what is on the buses.

use crate::boot::memory_map::Range;
use alloc::vec::Vec;
use virtio_drivers::transport::pci::bus::{
    BarInfo, Command, ConfigurationAccess, DeviceFunction, DeviceFunctionInfo, HeaderType,
    MemoryBarType, PciRoot,
};

/// The configuration space of some buses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationSpace {
    /// The physical address of bus 0, even if it is not among them.
    pub address: u64,
    /// The first bus.
    pub first_bus: u8,
    /// The last bus.
    pub last_bus: u8,
}

/// A function of a device.
#[derive(Clone, Debug)]
pub struct Function {
    /// Where it is.
    pub place: DeviceFunction,
    /// What it says that it is.
    pub info: DeviceFunctionInfo,
}

/// The physical address of a register in a configuration space in memory; nothing if the bus is not in it.
pub fn address(space: &ConfigurationSpace, place: DeviceFunction, register: u8) -> Option<u64> {
    if !(space.first_bus..=space.last_bus).contains(&place.bus) {
        return None;
    }
    let function =
        u64::from(place.bus) << 8 | u64::from(place.device) << 3 | u64::from(place.function);
    space
        .address
        .checked_add(function << 12 | u64::from(register & !3))
}

/// What ports 0xcf8 and up take for a register.
pub fn port_address(place: DeviceFunction, register: u8) -> u32 {
    1 << 31
        | u32::from(place.bus) << 16
        | u32::from(place.device) << 11
        | u32::from(place.function) << 8
        | u32::from(register & !3)
}

/// Everything on bus 0 and on the buses behind its bridges.
pub fn functions<C: ConfigurationAccess>(root: &PciRoot<C>, access: &C) -> Vec<Function> {
    const BRIDGE: (u8, u8) = (6, 4);
    const BUSES: u8 = 0x18;
    let mut found = Vec::new();
    let mut buses = Vec::from([0u8]);
    let mut at = 0;
    while let Some(&bus) = buses.get(at) {
        at += 1;
        for (place, info) in root.enumerate_bus(bus) {
            if (info.class, info.subclass) == BRIDGE {
                let behind = (access.read_word(place, BUSES) >> 8) as u8;
                // A bridge that firmware did not set up leads nowhere, or in a circle.
                if behind != 0 && !buses.contains(&behind) {
                    buses.push(behind);
                }
            }
            found.push(Function { place, info });
        }
    }
    found
}

/// Puts the registers of a device that nobody has put anywhere into the windows, whose beginnings are then taken. Ports
/// are left alone, and what fits nowhere.
pub fn assign<C: ConfigurationAccess>(
    root: &mut PciRoot<C>,
    function: &Function,
    windows: &mut [Range],
) {
    let place = function.place;
    if function.info.header_type != HeaderType::Standard {
        return;
    }
    let (_, command) = root.get_status_command(place);
    let Ok(bars) = root.bars(place) else {
        return;
    };
    root.set_command(place, command - Command::MEMORY_SPACE);
    for (bar, index) in bars.iter().zip(0..) {
        let Some(BarInfo::Memory {
            address_type,
            address: 0,
            size,
            ..
        }) = bar
        else {
            continue;
        };
        let is_wide = *address_type == MemoryBarType::Width64;
        let limit = if is_wide { u64::MAX } else { 1 << 32 };
        let found = windows.iter_mut().find_map(|window| {
            let start = window.start.checked_next_multiple_of(*size)?;
            let end = start.checked_add(*size)?;
            let fits = end <= window.end.min(limit);
            fits.then(|| {
                window.start = end;
                start
            })
        });
        match found {
            Some(start) if is_wide => root.set_bar_64(place, index, start),
            Some(start) => root.set_bar_32(place, index, start as u32),
            None => {}
        }
    }
    root.set_command(place, command);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    /// A device with a register of 32 bits for 4 KiB, one of 64 for 16 MiB, ports, and one that is somewhere already.
    #[derive(Clone, Default)]
    struct Bars(Rc<RefCell<BTreeMap<u8, u32>>>);

    #[allow(unsafe_code)] // the trait has an unsafe method
    impl ConfigurationAccess for Bars {
        fn read_word(&self, _: DeviceFunction, register: u8) -> u32 {
            self.0.borrow().get(&register).copied().unwrap_or(0)
        }
        fn write_word(&mut self, _: DeviceFunction, register: u8, value: u32) {
            let (mask, fixed) = match register {
                0x10 => (0xffff_f000, 0),
                0x14 => (0xff00_0000, 4),
                0x18 => (0xffff_ffff, 0),
                0x1c => (0xffff_ffe0, 1),
                0x20 => (0xffff_0000, 0),
                4 => (0xffff, 0),
                _ => return,
            };
            self.0.borrow_mut().insert(register, value & mask | fixed);
        }
        unsafe fn unsafe_clone(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn registers_get_places_that_they_fit() {
        let bars = Bars::default();
        let words = [(0x14, 4), (0x1c, 1), (0x20, 0x9000_0000), (4, 7)];
        bars.0.borrow_mut().extend(words);
        let mut function = Function {
            place: DeviceFunction {
                bus: 0,
                device: 1,
                function: 0,
            },
            info: DeviceFunctionInfo {
                vendor_id: 1,
                device_id: 2,
                class: 1,
                subclass: 0,
                prog_if: 0,
                revision: 0,
                header_type: HeaderType::Standard,
            },
        };
        let mut root = PciRoot::new(bars.clone());
        let mut windows = [
            Range::new(0x1000_0800, 0x20_0000),
            Range::new(0x80_0000_1000, 0x200_0000),
        ];
        assign(&mut root, &function, &mut windows);
        let words = bars.0.borrow().clone();
        let word = |register: u8| words.get(&register).copied();
        assert_eq!(word(0x10), Some(0x1000_1000));
        assert_eq!((word(0x14), word(0x18)), (Some(0x100_0004), Some(0x80)));
        assert_eq!((word(0x1c), word(0x20)), (Some(1), Some(0x9000_0000)));
        assert_eq!(word(4), Some(7));
        assert_eq!(windows[0].start, 0x1000_2000);
        // What is somewhere stays there, and bridges' numbers of buses are no addresses.
        assign(&mut root, &function, &mut windows);
        function.info.header_type = HeaderType::PciPciBridge;
        assign(&mut root, &function, &mut windows);
        assert_eq!(*bars.0.borrow(), words);
        // No window has room.
        let other = Bars::default();
        function.info.header_type = HeaderType::Standard;
        assign(&mut PciRoot::new(other.clone()), &function, &mut []);
        assert_eq!(other.0.borrow().get(&0x10).copied(), Some(0));
    }

    #[derive(Clone, Default)]
    struct Fake(BTreeMap<(u8, u8, u8), u32>);

    impl Fake {
        fn device(&mut self, bus: u8, device: u8, ids: u32, class: u32, buses: u32) {
            for (register, value) in [(0, ids), (8, class << 8), (0x0c, 0), (0x18, buses)] {
                self.0.insert((bus, device, register), value);
            }
        }
    }

    #[allow(unsafe_code)] // the trait has an unsafe method
    impl ConfigurationAccess for Fake {
        fn read_word(&self, place: DeviceFunction, register: u8) -> u32 {
            let key = (place.bus, place.device, register);
            let known = (place.function == 0).then(|| self.0.get(&key)).flatten();
            known.copied().unwrap_or(u32::MAX)
        }
        fn write_word(&mut self, _: DeviceFunction, _: u8, _: u32) {}
        unsafe fn unsafe_clone(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn devices_behind_bridges_are_found_once() {
        let mut fake = Fake::default();
        fake.device(0, 1, 0x1234_8086, 0x06_0400, 0x0002_0100 | 1 << 8);
        fake.device(0, 2, 0x1001_1af4, 0x01_0000, 0);
        fake.device(1, 0, 0x10d3_8086, 0x02_0000, 0);
        // A bridge that leads back.
        fake.device(1, 3, 0x1234_8086, 0x06_0400, 0x0000_0000);
        let found = functions(&PciRoot::new(fake.clone()), &fake);
        let places: Vec<_> = found
            .iter()
            .map(|f| (f.place.bus, f.place.device))
            .collect();
        assert_eq!(places, [(0, 1), (0, 2), (1, 0), (1, 3)]);
        assert_eq!(found[2].info.device_id, 0x10d3);
    }

    #[test]
    fn registers_have_addresses() {
        let space = ConfigurationSpace {
            address: 0xb000_0000,
            first_bus: 0,
            last_bus: 15,
        };
        let mut place = DeviceFunction {
            bus: 2,
            device: 3,
            function: 1,
        };
        assert_eq!(address(&space, place, 0x13), Some(0xb021_9010));
        assert_eq!(port_address(place, 0x13), 0x8002_1910);
        place.bus = 16;
        assert_eq!(address(&space, place, 0), None);
    }
}
