//! Finds the devices of a machine and starts those that there are drivers for.
#![allow(unsafe_code)]

use super::ahci::{self, SataDisk};
use super::e1000::{self, E1000};
use super::nvme::Nvme;
use super::pci::{self, ConfigurationSpace, Function};
use super::persistent::PersistentMemory;
use super::tpm::{ByteRegisters, Tpm};
use super::virtio::{SameAddresses, VirtioCard, VirtioDisk, random_bytes};
use super::{DeviceError, Disk, NetDevice, Registers};
use crate::boot::CommandLine;
use crate::boot::memory_map::Range;
use crate::machine::address_space::map_device;
use crate::machine::lock::Lock;
use crate::machine::time::TimeStamps;
use crate::machine::{Machine, VIRTIO_BESIDE_PCI, cpu};
use crate::say;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr::NonNull;
use virtio_drivers::transport::mmio::{MmioTransport, VirtIOHeader};
use virtio_drivers::transport::pci::bus::{
    BarInfo, Command, ConfigurationAccess, DeviceFunction, PciRoot,
};
use virtio_drivers::transport::pci::{PciTransport, virtio_device_type};
use virtio_drivers::transport::{DeviceType, Transport};

/// Registers that are mapped to memory.
#[derive(Debug)]
pub struct DeviceMemory(Range);

impl DeviceMemory {
    /// Maps registers; nothing if that cannot be done.
    ///
    /// # Safety
    /// The range must be a device's, and used by this value alone.
    pub unsafe fn new(range: Range) -> Option<Self> {
        map_device(range).ok()?;
        Some(Self(range))
    }

    /// A part of them; nothing if it lies beyond their end.
    ///
    /// # Safety
    /// The part must be used by the new value alone.
    unsafe fn part(&self, offset: usize, bytes: usize) -> Option<Self> {
        let end = offset.checked_add(bytes)?;
        let inside = end as u64 <= self.0.len();
        inside.then(|| Self(Range::new(self.0.start + offset as u64, bytes as u64)))
    }

    fn at(&self, offset: usize) -> *mut u32 {
        assert!(offset.is_multiple_of(4) && (offset as u64) + 4 <= self.0.len());
        (self.0.start + offset as u64) as *mut u32
    }
}

impl Registers for DeviceMemory {
    fn read(&self, offset: usize) -> u32 {
        // SAFETY: mapped, aligned, inside of the range.
        unsafe { cpu::read_device(self.at(offset)) }
    }
    fn write(&mut self, offset: usize, value: u32) {
        // SAFETY: as above; drivers write what their device's manual says.
        unsafe { cpu::write_device(self.at(offset), value) }
    }
}

impl ByteRegisters for DeviceMemory {
    fn read_byte(&self, offset: usize) -> u8 {
        assert!((offset as u64) < self.0.len());
        // SAFETY: mapped, inside of the range.
        unsafe { ((self.0.start + offset as u64) as *const u8).read_volatile() }
    }
    fn write_byte(&mut self, offset: usize, value: u8) {
        assert!((offset as u64) < self.0.len());
        // SAFETY: as above; drivers write what their device's manual says.
        unsafe { ((self.0.start + offset as u64) as *mut u8).write_volatile(value) }
    }
}

/// The machine's TPM, if it has one where such machines have it. What does not start is told.
pub fn find_tpm(machine: &Machine) -> Option<Tpm> {
    // SAFETY: nothing else is there, and this is its only driver.
    let registers = unsafe { DeviceMemory::new(machine.tpm?) }?;
    let found = Tpm::new(registers, &CLOCK);
    found.unwrap_or_else(|error| {
        say!("{error}");
        None
    })
}

/// The configuration space: in memory where ACPI says so, otherwise behind ports.
#[derive(Clone)]
struct Configuration(Vec<ConfigurationSpace>);

impl Configuration {
    fn place(&self, place: DeviceFunction, register: u8) -> Option<*mut u32> {
        let address = self
            .0
            .iter()
            .find_map(|space| pci::address(space, place, register))?;
        map_device(Range::new(address, 4)).ok()?;
        Some(address as *mut u32)
    }
}

impl ConfigurationAccess for Configuration {
    fn read_word(&self, place: DeviceFunction, register: u8) -> u32 {
        match self.place(place, register) {
            // SAFETY: just mapped, and firmware or the loader says what is there.
            Some(word) => unsafe { cpu::read_device(word) },
            None => cpu::read_configuration(pci::port_address(place, register)),
        }
    }
    fn write_word(&mut self, place: DeviceFunction, register: u8, value: u32) {
        match self.place(place, register) {
            // SAFETY: as above.
            Some(word) => unsafe { cpu::write_device(word, value) },
            // SAFETY: this configures devices as their manuals say.
            None => unsafe {
                cpu::write_configuration(pci::port_address(place, register), value);
            },
        }
    }
    unsafe fn unsafe_clone(&self) -> Self {
        self.clone()
    }
}

/// What a machine has.
#[derive(Default)]
pub struct Devices {
    /// Disks.
    pub disks: Vec<Disk>,
    /// Network cards.
    pub cards: Vec<Box<dyn NetDevice>>,
    /// Everything on PCI, whether there is a driver or not.
    pub functions: Vec<Function>,
    /// Random bytes, where a device gives some.
    pub entropy: Vec<u8>,
}

static CLOCK: TimeStamps = TimeStamps;

impl Devices {
    /// Finds and starts everything. What does not start is told and left out.
    pub fn find(machine: &Machine, line: &CommandLine) -> Self {
        let mut devices = Self::default();
        let access = Configuration(machine.configuration_spaces.clone());
        let mut root = PciRoot::new(access.clone());
        devices.functions = pci::functions(&root, &access);
        let mut windows = machine.pci_windows.clone();
        for function in &devices.functions {
            pci::assign(&mut root, function, &mut windows);
        }
        for function in devices.functions.clone() {
            if let Err(error) = devices.start(&mut root, &function) {
                say!("PCI {}: {error}", function.place);
            }
        }
        for &range in &machine.persistent {
            // SAFETY: ACPI says what is there, and this program writes to nothing that it has not mapped to be written.
            match unsafe { PersistentMemory::new(range) } {
                Ok(disk) => devices.disks.push(Arc::new(Lock::new(disk))),
                Err(error) => say!("persistent memory: {error}"),
            }
        }
        let named: Vec<_> = line.all("virtio_mmio.device").filter_map(slot).collect();
        if !named.is_empty() {
            named.into_iter().for_each(|slot| devices.start_slot(slot));
        } else if devices.functions.is_empty() || VIRTIO_BESIDE_PCI {
            machine
                .virtio
                .iter()
                .for_each(|&slot| devices.start_slot(slot));
        }
        devices
    }

    fn start(
        &mut self,
        root: &mut PciRoot<Configuration>,
        function: &Function,
    ) -> Result<(), DeviceError> {
        const NVME: (u8, u8, u8) = (1, 8, 2);
        const AHCI: (u8, u8, u8) = (1, 6, 1);
        let Function { place, info } = function;
        let on = Command::MEMORY_SPACE | Command::BUS_MASTER;
        let virtio = virtio_device_type(info).filter(|kind| {
            matches!(
                kind,
                DeviceType::Block | DeviceType::Network | DeviceType::EntropySource
            )
        });
        let class = (info.class, info.subclass, info.prog_if);
        let (is_nvme, is_ahci) = (class == NVME, class == AHCI);
        let is_e1000 = info.vendor_id == 0x8086 && e1000::DEVICES.contains(&info.device_id);
        if let Some(kind) = virtio {
            root.set_command(*place, on | Command::IO_SPACE);
            let transport = PciTransport::new::<SameAddresses, _>(root, *place).map_err(|_| {
                let (device, why) = ("virtio device", "it is not a modern one");
                DeviceError::Unusable { device, why }
            })?;
            self.add_virtio(kind, transport)?;
        } else if is_nvme || is_ahci || is_e1000 {
            let quiet = if is_e1000 {
                Command::empty()
            } else {
                Command::INTERRUPT_DISABLE
            };
            root.set_command(*place, on | quiet);
            let (device, bar) = match (is_nvme, is_ahci) {
                (true, _) => ("NVMe disk", 0),
                (_, true) => ("SATA controller", 5),
                _ => ("network card", 0),
            };
            let why = "its registers cannot be reached";
            let registers =
                registers(root, *place, bar).ok_or(DeviceError::Unusable { device, why })?;
            if is_nvme {
                let disk = Nvme::new(registers, &CLOCK)?;
                self.disks.push(Arc::new(Lock::new(disk)));
            } else if is_ahci {
                self.add_sata(registers)?;
            } else {
                self.cards.push(Box::new(E1000::new(registers, &CLOCK)?));
            }
        }
        Ok(())
    }

    /// The disks of a SATA controller. One that does not start is told, and the others are used.
    fn add_sata(&mut self, mut controller: DeviceMemory) -> Result<(), DeviceError> {
        for number in ahci::ports(&mut controller, &CLOCK)? {
            // SAFETY: the controller's own registers are no longer used, and each port has a driver of its own.
            let Some(port) = (unsafe { controller.part(ahci::port(number), ahci::PORT_BYTES) })
            else {
                continue;
            };
            match SataDisk::new(port, &CLOCK) {
                Ok(Some(disk)) => self.disks.push(Arc::new(Lock::new(disk))),
                Ok(None) => {}
                Err(error) => say!("SATA port {number}: {error}"),
            }
        }
        Ok(())
    }

    fn add_virtio<T: Transport + Send + 'static>(
        &mut self,
        kind: DeviceType,
        transport: T,
    ) -> Result<(), DeviceError> {
        match kind {
            DeviceType::Block => {
                let disk = VirtioDisk::new(transport)?;
                self.disks.push(Arc::new(Lock::new(disk)));
            }
            DeviceType::Network => self.cards.push(Box::new(VirtioCard::new(transport)?)),
            DeviceType::EntropySource => self.entropy.extend(random_bytes(transport)?),
            _ => {}
        }
        Ok(())
    }

    /// A virtio device whose registers are in memory, if there is one.
    fn start_slot(&mut self, slot: Range) {
        let Some(header) = NonNull::new(slot.start as *mut VirtIOHeader) else {
            return;
        };
        if map_device(slot).is_err() {
            return;
        }
        // SAFETY: mapped; the command line or the kind of machine says that virtio devices are there.
        let Ok(transport) = (unsafe { MmioTransport::new(header, slot.len() as usize) }) else {
            return;
        };
        let kind = transport.device_type();
        if let Err(error) = self.add_virtio(kind, transport) {
            say!("virtio at {:#x}: {error}", slot.start);
        }
    }
}

/// The registers behind one of a function's base addresses.
fn registers(
    root: &mut PciRoot<Configuration>,
    place: DeviceFunction,
    bar: u8,
) -> Option<DeviceMemory> {
    match root.bar_info(place, bar) {
        Ok(Some(BarInfo::Memory { address, size, .. })) if address != 0 => {
            // SAFETY: the device says that its registers are there, and this is its only driver.
            unsafe { DeviceMemory::new(Range::new(address, size)) }
        }
        _ => None,
    }
}

/// `512@0xfeb00000:5` as Linux has it: size, address, interrupt.
fn slot(text: &str) -> Option<Range> {
    let (size, rest) = text.split_once('@')?;
    let address = rest.split(':').next()?.strip_prefix("0x")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let size = match size.strip_suffix(['K', 'k']) {
        Some(size) => size.parse::<u64>().ok()?.checked_mul(1024)?,
        None => size.parse().ok()?,
    };
    (size >= 0x100 && address < 1 << 47).then_some(Range::new(address, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_read_as_linux_reads_them() {
        assert_eq!(slot("512@0xfeb00000:5"), Some(Range::new(0xfeb0_0000, 512)));
        assert_eq!(
            slot("4K@0xd0000000:5:0"),
            Some(Range::new(0xd000_0000, 4096))
        );
        for bad in [
            "",
            "512",
            "512@",
            "x@0x1",
            "512@12",
            "1@0x10",
            "512@0xffffffffffffffff",
        ] {
            assert_eq!(slot(bad), None, "{bad}");
        }
    }
}
