//! What a device tree tells of a machine: memory, processors, and the devices that no bus tells of.

use super::device_tree::{DeviceTree, Node, TreeError, be32};
use super::memory_map::{MemoryMap, Range};
use super::{ASKED, BootInfo, CommandLine, Source};
use crate::drivers::pci::ConfigurationSpace;

/// A few things, in a place that needs no heap; more are left out.
#[derive(Copy, Clone, Debug)]
pub struct Few<T, const N: usize> {
    list: [Option<T>; N],
}

impl<T: Copy, const N: usize> Few<T, N> {
    const NONE: Self = Self { list: [None; N] };

    fn push(&mut self, one: T) {
        if let Some(place) = self.list.iter_mut().find(|place| place.is_none()) {
            *place = Some(one);
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        self.list.iter().copied().flatten()
    }
}

/// A processor.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// The fields of its `MPIDR_EL1` that tell it from others.
    pub id: u64,
    /// Where it looks for an address to start at, if it waits for one.
    pub release: Option<u64>,
}

/// How firmware is called.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Conduit {
    /// By `hvc`.
    Hypervisor,
    /// By `smc`.
    SecureMonitor,
}

/// An interrupt controller.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// GICv2: the distributor, and each processor's interface.
    V2(Range, Range),
    /// GICv3: the distributor, and the redistributors.
    V3(Range, Range),
    /// That of the BCM2836, which Raspberry Pis 2 and 3 have.
    Bcm2836(Range),
}

/// A bridge to PCI whose configuration space is in memory.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PciHost {
    /// The configuration space.
    pub space: ConfigurationSpace,
    /// Where registers may be: below 4 GiB, and anywhere.
    pub windows: [Option<Range>; 2],
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Board {
    /// Processors, the one that reads this among them.
    pub processors: Few<Processor, 128>,
    /// How firmware with PSCI is called.
    pub conduit: Option<Conduit>,
    /// The interrupt controller.
    pub controller: Option<Controller>,
    /// The serial line, a PL011.
    pub serial: Option<Range>,
    /// The clock, a PL031.
    pub calendar: Option<Range>,
    /// The power manager of a Raspberry Pi.
    pub power: Option<Range>,
    /// Virtio devices.
    pub virtio: Few<Range, 64>,
    /// The bridge to PCI.
    pub pci: Option<PciHost>,
    /// Persistent memory.
    pub persistent: Few<Range, 8>,
    /// A TPM with FIFO registers.
    pub tpm: Option<Range>,
}

impl Board {
    const UNKNOWN: Self = Self {
        processors: Few::NONE,
        conduit: None,
        controller: None,
        serial: None,
        calendar: None,
        power: None,
        virtio: Few::NONE,
        pci: None,
        persistent: Few::NONE,
        tpm: None,
    };
}

/// Reads a tree that lies at an address.
pub fn read(bytes: &[u8], address: u64) -> Result<BootInfo, TreeError> {
    let tree = DeviceTree::new(bytes)?;
    let mut info = BootInfo::new(Source::DeviceTree);
    let mut board = Board::UNKNOWN;
    let mut reserved = MemoryMap::new();
    let (mut path, mut module) = ([""; 3], [None; 2]);
    tree.walk(|node| {
        if let Some(place) = path.get_mut(node.depth) {
            *place = node.kind();
        }
        let parent = match node.depth {
            2 => path[1],
            _ => "",
        };
        match (node.depth, parent, node.kind()) {
            (1, _, "chosen") => module = chosen(node, &mut info),
            (1, _, "memory") if node.is_enabled() => {
                (0..64)
                    .map_while(|index| node.range(index))
                    .for_each(|range| info.memory.add(range));
            }
            (2, "reserved-memory", _) => reserve(node, &mut reserved),
            (2, "cpus", "cpu") => board.processors.push(Processor {
                id: node.id().unwrap_or(0),
                release: release(node),
            }),
            _ if node.is_enabled() => device(node, &mut board),
            _ => {}
        }
    })?;
    if info.memory.bytes() == 0 {
        return Err(TreeError::NoMemory);
    }
    tree.reserved()
        .for_each(|range| reserved.add(range.pages_around()));
    reserved
        .ranges()
        .iter()
        .for_each(|&range| info.memory.remove(range));
    info.memory.remove(Range::new(address, bytes.len() as u64));
    if let [Some(start), Some(end)] = module {
        let range = Range { start, end };
        info.module = Some(range).filter(|range| start != 0 && !range.is_empty());
    }
    info.board = Some(board);
    Ok(info)
}

/// What the loader was told: options, and where it has put a file.
fn chosen(node: &Node<'_, '_>, info: &mut BootInfo) -> [Option<u64>; 2] {
    let line = node.property("bootargs").unwrap_or_default();
    info.command_line = CommandLine::copy(line);
    let seed = node
        .property("rng-seed")
        .and_then(|seed| seed.first_chunk::<ASKED>());
    info.entropy = seed.copied();
    ["linux,initrd-start", "linux,initrd-end"].map(|name| {
        let bytes = node.property(name)?;
        match bytes.len() {
            4 => be32(bytes, 0).map(u64::from),
            _ => Some(u64::from(be32(bytes, 0)?) << 32 | u64::from(be32(bytes, 4)?)),
        }
    })
}

fn reserve(node: &Node<'_, '_>, reserved: &mut MemoryMap) {
    let ranges = (0..16).map_while(|index| node.range(index));
    ranges.for_each(|range| reserved.add(range.pages_around()));
}

/// Where a processor waits that firmware does not start.
fn release(node: &Node<'_, '_>) -> Option<u64> {
    let bytes = node.property("cpu-release-addr")?;
    let waits = node.text("enable-method") == Some("spin-table");
    let address = u64::from(be32(bytes, 0)?) << 32 | u64::from(be32(bytes, 4)?);
    Some(address).filter(|address| waits && address.is_multiple_of(8))
}

fn device(node: &Node<'_, '_>, board: &mut Board) {
    let is = |kinds: &[&str]| kinds.iter().any(|kind| node.is_compatible(kind));
    if is(&["arm,psci-1.0", "arm,psci-0.2"]) {
        board.conduit = match node.text("method") {
            Some("hvc") => Some(Conduit::Hypervisor),
            Some("smc") => Some(Conduit::SecureMonitor),
            _ => None,
        };
    } else if is(&["arm,cortex-a15-gic", "arm,gic-400", "arm,cortex-a9-gic"]) {
        board.controller = pair(node).map(|(first, second)| Controller::V2(first, second));
    } else if is(&["arm,gic-v3"]) {
        board.controller = pair(node).map(|(first, second)| Controller::V3(first, second));
    } else if is(&["brcm,bcm2836-l1-intc"]) {
        board.controller = node.range(0).map(Controller::Bcm2836);
    } else if is(&["arm,pl011"]) {
        board.serial = board.serial.or(node.range(0));
    } else if is(&["arm,pl031"]) {
        board.calendar = board.calendar.or(node.range(0));
    } else if is(&["brcm,bcm2835-pm", "brcm,bcm2835-pm-wdt"]) {
        board.power = board.power.or(node.range(0));
    } else if is(&["virtio,mmio"]) {
        node.range(0)
            .into_iter()
            .for_each(|range| board.virtio.push(range));
    } else if is(&["pmem-region"]) {
        node.range(0)
            .into_iter()
            .for_each(|range| board.persistent.push(range));
    } else if is(&["tcg,tpm-tis-mmio"]) {
        board.tpm = board.tpm.or(node.range(0));
    } else if is(&["pci-host-ecam-generic"]) {
        board.pci = board.pci.or_else(|| pci(node));
    }
}

fn pair(node: &Node<'_, '_>) -> Option<(Range, Range)> {
    Some((node.range(0)?, node.range(1)?))
}

/// A bridge to PCI (IEEE 1275's binding): windows are given by a number that says what they are for, an address there, one
/// here, and a length.
fn pci(node: &Node<'_, '_>) -> Option<PciHost> {
    const MEMORY: u32 = 2;
    const MEMORY_64: u32 = 3;
    let place = node.range(0)?;
    let buses = node.property("bus-range").unwrap_or(&[0; 8]);
    let bus = |at| be32(buses, at).map(|bus| bus.min(255) as u8);
    let first_bus = bus(0)?;
    // Each bus has a mebibyte.
    let most = (place.len() >> 20).clamp(1, 256) - 1 + u64::from(first_bus);
    let space = ConfigurationSpace {
        address: place.start.checked_sub(u64::from(first_bus) << 20)?,
        first_bus,
        last_bus: bus(4)?.max(first_bus).min(most.min(255) as u8),
    };
    let mut windows = [None; 2];
    for entry in node.entries("ranges", 7) {
        let number = |at| Some(u64::from(be32(entry, at)?) << 32 | u64::from(be32(entry, at + 4)?));
        let (Some(kind), Some(there), Some(here), Some(len)) =
            (be32(entry, 0), number(4), number(12), number(20))
        else {
            continue;
        };
        // Devices are told the same addresses that processors use.
        let range = (there == here && here != 0).then_some(Range::new(here, len));
        match kind >> 24 & 3 {
            MEMORY => windows[0] = windows[0].or(range),
            MEMORY_64 => windows[1] = windows[1].or(range),
            _ => {}
        }
    }
    Some(PciHost { space, windows })
}

#[cfg(test)]
mod tests;
