use super::power::{PowerControl, Register, Space};
use super::*;
use crate::boot::fake::Pieces;
use crate::boot::memory_map::Range;
use std::vec;
use std::vec::Vec;

fn table(signature: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut table = signature.to_vec();
    table.extend((HEADER as u32 + body.len() as u32).to_le_bytes());
    table.resize(HEADER, 0);
    table.extend(body);
    seal(&mut table, 9);
    table
}

fn seal(bytes: &mut [u8], at: usize) {
    bytes[at] = 0;
    bytes[at] = bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_sub(byte));
}

fn put(body: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let at = at - HEADER;
    if body.len() < at + bytes.len() {
        body.resize(at + bytes.len(), 0);
    }
    body[at..at + bytes.len()].copy_from_slice(bytes);
}

fn fadt() -> Vec<u8> {
    let mut body = vec![0; 268 - HEADER];
    put(&mut body, 40, &0x5000u32.to_le_bytes());
    put(&mut body, 48, &0xb2u32.to_le_bytes());
    put(&mut body, 52, &[2]);
    put(&mut body, 64, &0x604u32.to_le_bytes());
    put(&mut body, 112, &(1u32 << 10).to_le_bytes());
    put(&mut body, 116, &[1, 8, 0, 1]);
    put(&mut body, 120, &0xcf9u64.to_le_bytes());
    put(&mut body, 128, &[15]);
    put(&mut body, 244, &[0, 8, 0, 1]);
    put(&mut body, 248, &0xfea0_0000u64.to_le_bytes());
    body
}

fn machine(fadt: &[u8]) -> Pieces {
    let mut madt = vec![0; 8];
    madt.extend([0, 8, 0, 0, 1, 0, 0, 0]);
    madt.extend([1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 24, 0, 0, 0]);
    madt.extend([0, 8, 1, 4, 1, 0, 0, 0]);
    madt.extend([0, 8, 2, 6, 0, 0, 0, 0]);
    madt.extend([9, 16, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0]);
    let mut mcfg = vec![0; 8];
    mcfg.extend(0xb000_0000u64.to_le_bytes());
    mcfg.extend([0, 0, 0, 255, 0, 0, 0, 0]);
    let mut nfit = vec![0; 4];
    // A flush hint, which means nothing here, then a range of another kind, then two of memory, one of them nowhere.
    nfit.extend([6, 0, 8, 0, 0, 0, 0, 0]);
    for (kind, start, bytes) in [
        (0x78u8, 0x8000_0000u64, 0x1000u64),
        (0x79, 0x1_0000_0000, 0x20_0fff),
        (0x79, u64::MAX - 0xfff, 0x2000),
    ] {
        nfit.extend([0, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kind]);
        nfit.extend(b"\xd3\xf0\x66\xf3\xb4\x74\x40\xac\x43\x0d\x33\x18\xb7\x8c\xdb");
        nfit.extend([start, bytes, 0].map(u64::to_le_bytes).concat());
    }
    let dsdt = b"\x08_S5_\x12\x06\x04\x0a\x05\x00\x00\x00";
    let addresses = [0x2000u64, 0x3000, 0x4000, 0x6000, 0x7000, 0x9999_9999];
    let directory: Vec<u8> = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
    let mut root = b"RSD PTR \0STRATA\x02\0\0\0\0".to_vec();
    seal(&mut root, 8);
    root.extend(36u32.to_le_bytes());
    root.extend(0x1000u64.to_le_bytes());
    root.extend([0; 4]);
    seal(&mut root, 32);
    let mut broken = table(b"HPET", &[1, 2, 3]);
    broken[9] ^= 1;
    Pieces(Vec::from([
        (0xf0000, root),
        (0x1000, table(b"XSDT", &directory)),
        (0x2000, broken),
        (0x3000, table(b"APIC", &madt)),
        (0x4000, table(b"FACP", fadt)),
        (0x5000, table(b"DSDT", dsdt)),
        (0x6000, table(b"MCFG", &mcfg)),
        (0x7000, table(b"NFIT", &nfit)),
    ]))
}

#[test]
fn tables_are_found_and_read() {
    let memory = machine(&fadt());
    let tables = Tables::find(&memory, 0xf0000).unwrap();
    let madt = tables.get(b"APIC").unwrap();
    assert_eq!(madt::processors(madt), [0, 4, 256]);
    let (address, first) = (0xfec0_0000, 24);
    assert_eq!(madt::io_apics(madt), [madt::IoApic { address, first }]);
    assert!(tables.get(b"HPET").is_none(), "its checksum is wrong");
    assert_eq!(
        mcfg::spaces(tables.get(b"MCFG").unwrap()),
        [crate::drivers::pci::ConfigurationSpace {
            address: 0xb000_0000,
            first_bus: 0,
            last_bus: 255
        }]
    );
    assert_eq!(
        nfit::ranges(tables.get(b"NFIT").unwrap()),
        [Range::new(0x1_0000_0000, 0x20_0000)]
    );
    let port = |address, bytes| Register {
        space: Space::Port,
        address,
        bytes,
    };
    assert_eq!(
        PowerControl::read(&tables),
        PowerControl {
            reset: Some((port(0xcf9, 1), 15)),
            sleep: [
                Some((port(0xb2, 1), 2)),
                Some((port(0x604, 2), 5 << 10 | 1 << 13)),
                None
            ],
        }
    );
}

#[test]
fn a_machine_without_the_old_hardware_sleeps_by_its_register() {
    let mut body = fadt();
    put(&mut body, 112, &(1u32 << 20).to_le_bytes());
    let memory = machine(&body);
    let control = PowerControl::read(&Tables::find(&memory, 0xf0000).unwrap());
    let register = Register {
        space: Space::Memory,
        address: 0xfea0_0000,
        bytes: 1,
    };
    assert_eq!(control.reset, None);
    assert_eq!(
        control.sleep,
        [Some((register, 5 << 2 | 1 << 5)), None, None]
    );
}

#[test]
fn wrong_roots_are_errors() {
    let memory = machine(&fadt());
    let find = |memory: &Pieces, at| Tables::find(memory, at).err();
    let no_root = |address| Some(AcpiError::NoRoot { address });
    assert_eq!(find(&memory, 0xf0001), no_root(0xf0001));
    assert_eq!(find(&memory, u64::MAX), no_root(u64::MAX));
    let mut gone = memory.clone();
    gone.0.remove(1);
    let address = 0x1000;
    assert_eq!(
        find(&gone, 0xf0000),
        Some(AcpiError::NoDirectory { address })
    );
}

#[test]
fn the_root_is_searched_where_no_loader_names_it() {
    let mut memory = machine(&fadt());
    memory.0[0].0 = 0xe_0000;
    // The whole area can be read, as on a machine.
    let root = core::mem::take(&mut memory.0[0].1);
    memory.0[0].1 = vec![0xff; 0x2_0000];
    assert_eq!(super::root(&memory), None);
    for at in [0, 0x1_2340, 0x1_ffd0] {
        let mut here = memory.clone();
        here.0[0].1[at..at + root.len()].copy_from_slice(&root);
        assert_eq!(super::root(&here), Some(0xe_0000 + at as u64));
        here.0[0].1[at + 9] ^= 1;
        assert_eq!(super::root(&here), None, "its checksum is wrong");
    }
}

/// Reads everything that is ever read.
fn read_all(memory: &Pieces) {
    let Ok(tables) = Tables::find(memory, 0xf0000) else {
        return;
    };
    let _ = PowerControl::read(&tables);
    tables.get(b"APIC").map(madt::processors);
    tables.get(b"APIC").map(madt::io_apics);
    tables.get(b"MCFG").map(mcfg::spaces);
    tables.get(b"NFIT").map(nfit::ranges);
}

#[test]
fn no_damage_makes_it_panic() {
    let good = machine(&fadt());
    for piece in 0..good.0.len() {
        for at in 0..good.0[piece].1.len() {
            for value in [0, 1, 2, 0x12, 0x7f, 0x80, 0xff] {
                let mut bad = good.clone();
                let bytes = &mut bad.0[piece].1;
                bytes[at] = value;
                read_all(&bad);
                // With a checksum that holds, so that the damage is looked at.
                let bytes = &mut bad.0[piece].1;
                if piece > 0 && at != 9 {
                    seal(bytes, 9);
                    read_all(&bad);
                }
            }
            let mut short = good.clone();
            short.0[piece].1.truncate(at);
            read_all(&short);
        }
    }
}
