use super::super::device_tree::tests::Writer;
use super::*;
use std::vec::Vec;

/// As QEMU's `virt` with GICv3 tells it, shortened.
fn virt() -> Writer {
    let mut tree = Writer::default();
    tree.begin("").text("compatible", "linux,dummy-virt");
    tree.cells("#address-cells", &[2])
        .cells("#size-cells", &[2]);
    tree.begin("psci").text("method", "hvc");
    tree.property("compatible", b"arm,psci-1.0\0arm,psci-0.2\0")
        .end();
    tree.begin("memory@40000000")
        .cells("reg", &[0, 0x4000_0000, 0, 0x1000_0000]);
    tree.text("device_type", "memory").end();
    tree.begin("pl031@9010000")
        .property("compatible", b"arm,pl031\0arm,primecell\0");
    tree.cells("reg", &[0, 0x901_0000, 0, 0x1000]).end();
    tree.begin("pcie@10000000")
        .text("compatible", "pci-host-ecam-generic");
    tree.cells("#address-cells", &[3])
        .cells("#size-cells", &[2])
        .cells("bus-range", &[0, 255]);
    tree.cells("reg", &[0x40, 0x1000_0000, 0, 0x1000_0000]);
    tree.cells(
        "ranges",
        &[
            0x100_0000,
            0,
            0,
            0,
            0x3eff_0000,
            0,
            0x1_0000, // ports
            0x200_0000,
            0,
            0x1000_0000,
            0,
            0x1000_0000,
            0,
            0x2eff_0000, //
            0x300_0000,
            0x80,
            0,
            0x80,
            0,
            0x80,
            0,
        ],
    );
    tree.end();
    tree.begin("pl011@9000000")
        .property("compatible", b"arm,pl011\0arm,primecell\0");
    tree.cells("reg", &[0, 0x900_0000, 0, 0x1000]).end();
    tree.begin("intc@8000000").text("compatible", "arm,gic-v3");
    tree.cells(
        "reg",
        &[0, 0x800_0000, 0, 0x1_0000, 0, 0x80a_0000, 0, 0xf6_0000],
    )
    .end();
    tree.begin("cpus")
        .cells("#address-cells", &[1])
        .cells("#size-cells", &[0]);
    for id in [0, 0x100] {
        tree.begin("cpu@0")
            .cells("reg", &[id])
            .text("enable-method", "psci")
            .end();
    }
    tree.begin("cpu-map").begin("cluster0").end().end();
    tree.end();
    for at in [0xa00_0000, 0xa00_0200] {
        tree.begin("virtio_mmio@a000000")
            .text("compatible", "virtio,mmio");
        tree.cells("reg", &[0, at, 0, 0x200]).end();
    }
    tree.begin("chosen").text("bootargs", "name=tale port=80");
    tree.property("rng-seed", &[7; 32]);
    tree.cells("linux,initrd-start", &[0, 0x4800_0000]);
    tree.cells("linux,initrd-end", &[0, 0x4900_0001]).end();
    tree.end();
    tree
}

#[test]
fn a_virtual_machine_is_read() {
    let info = read(&virt().finish(), 0x4a00_0000).unwrap();
    assert_eq!(info.source, Source::DeviceTree);
    assert_eq!(info.command_line.get("port"), Some("80"));
    assert_eq!(info.entropy, Some([7; 32]));
    let module = Range {
        start: 0x4800_0000,
        end: 0x4900_0001,
    };
    assert_eq!(info.module, Some(module));
    // The tree itself stays.
    assert!(!info.memory.contains(Range::new(0x4a00_0000, 4096)));
    assert_eq!(info.memory.bytes(), (256 << 20) - 4096);
    let board = info.board.unwrap();
    let ids: Vec<u64> = board
        .processors
        .iter()
        .map(|processor| processor.id)
        .collect();
    assert_eq!(ids, [0, 0x100]);
    assert_eq!(board.conduit, Some(Conduit::Hypervisor));
    assert_eq!(board.serial, Some(Range::new(0x900_0000, 0x1000)));
    assert_eq!(board.calendar, Some(Range::new(0x901_0000, 0x1000)));
    let gic = Controller::V3(
        Range::new(0x800_0000, 0x1_0000),
        Range::new(0x80a_0000, 0xf6_0000),
    );
    assert_eq!(board.controller, Some(gic));
    assert_eq!(board.virtio.iter().count(), 2);
    let pci = board.pci.unwrap();
    assert_eq!(pci.space.address, 0x40_1000_0000);
    assert_eq!((pci.space.first_bus, pci.space.last_bus), (0, 255));
    let windows = [
        Range::new(0x1000_0000, 0x2eff_0000),
        Range::new(0x80_0000_0000, 0x80_0000_0000),
    ];
    assert_eq!(pci.windows, windows.map(Some));
}

/// As Raspberry Pis tell it, shortened.
#[test]
fn a_raspberry_pi_is_read() {
    let mut tree = Writer::default();
    tree.reserved.push((0, 0x1000));
    tree.begin("").text("model", "Raspberry Pi 3 Model B");
    tree.cells("#address-cells", &[1])
        .cells("#size-cells", &[1]);
    tree.begin("memory@0").cells("reg", &[0, 0x3c00_0000]).end();
    tree.begin("reserved-memory")
        .cells("#address-cells", &[1])
        .cells("#size-cells", &[1]);
    tree.property("ranges", &[]);
    tree.begin("kept@10000")
        .cells("reg", &[0x1_0000, 0x1800])
        .end()
        .end();
    tree.begin("soc")
        .cells("#address-cells", &[1])
        .cells("#size-cells", &[1]);
    tree.cells(
        "ranges",
        &[
            0x7e00_0000,
            0x3f00_0000,
            0x100_0000,
            0x4000_0000,
            0x4000_0000,
            0x1000,
        ],
    );
    tree.begin("serial@7e201000")
        .property("compatible", b"arm,pl011\0arm,primecell\0");
    tree.cells("reg", &[0x7e20_1000, 0x200]).end();
    tree.begin("local_intc@40000000")
        .text("compatible", "brcm,bcm2836-l1-intc");
    tree.cells("reg", &[0x4000_0000, 0x100]).end();
    tree.begin("watchdog@7e100000")
        .text("compatible", "brcm,bcm2835-pm");
    tree.cells("reg", &[0x7e10_0000, 0x114]).end();
    tree.end();
    tree.begin("cpus")
        .cells("#address-cells", &[1])
        .cells("#size-cells", &[0]);
    for id in 0..4 {
        tree.begin("cpu@0")
            .cells("reg", &[id])
            .text("enable-method", "spin-table");
        tree.cells("cpu-release-addr", &[0, 0xd8 + 8 * id]).end();
    }
    tree.end().end();
    let info = read(&tree.finish(), 0x800_0000).unwrap();
    let board = info.board.unwrap();
    assert_eq!(board.serial, Some(Range::new(0x3f20_1000, 0x200)));
    let local = Range::new(0x4000_0000, 0x100);
    assert_eq!(board.controller, Some(Controller::Bcm2836(local)));
    assert_eq!(board.power, Some(Range::new(0x3f10_0000, 0x114)));
    let places: Vec<_> = board.processors.iter().map(|one| one.release).collect();
    assert_eq!(places, [0xd8, 0xe0, 0xe8, 0xf0].map(Some));
    assert!(info.memory.contains(Range::new(0x1000, 0xf000)));
    for kept in [0, 0x1_0000, 0x1_1000, 0x800_0000] {
        assert!(!info.memory.contains(Range::new(kept, 4096)), "{kept:#x}");
    }
}

#[test]
fn a_tree_without_memory_is_refused() {
    let mut tree = Writer::default();
    tree.begin("").end();
    assert_eq!(read(&tree.finish(), 0).err(), Some(TreeError::NoMemory));
}

#[test]
fn no_bytes_make_it_panic() {
    let good = virt().finish();
    for at in 0..good.len() {
        for value in [0, 1, 3, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            let _ = read(&bad, u64::MAX - 5);
        }
    }
}
