//! PCI: the configuration space in memory or behind ports, and what is on the buses.

use crate::machine::acpi::mcfg::ConfigurationSpace;
use alloc::vec::Vec;
use virtio_drivers::transport::pci::bus::{
    ConfigurationAccess, DeviceFunction, DeviceFunctionInfo, PciRoot,
};

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

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
