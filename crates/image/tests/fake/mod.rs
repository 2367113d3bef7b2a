//! A kernel that has everything but code: an ELF file whose first loaded bytes are a PE header.
#![allow(dead_code)]

/// Where it is loaded.
pub(crate) const BASE: u64 = 0x20_0000;
/// Bytes that it takes in memory.
pub(crate) const IMAGE_BYTES: u32 = 0x6000;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The kernel's file.
pub(crate) fn kernel() -> Vec<u8> {
    let mut file = vec![0; 0x4000 + 77];
    put(&mut file, 0, b"\x7fELF\x02\x01\x01");
    put(&mut file, 16, &[3, 0, 62, 0, 1]);
    put(&mut file, 24, &(BASE + 0x1000).to_le_bytes());
    put(&mut file, 32, &64u64.to_le_bytes());
    // A table of sections, which is left out of images.
    put(&mut file, 40, &0x4000u64.to_le_bytes());
    put(&mut file, 52, &[64, 0, 56, 0, 2, 0, 64, 0, 1, 0, 0, 0]);
    for (index, (flags, start, bytes, memory)) in [
        (5u32, 0x1000u64, 0x2000u64, 0x2000u64),
        (6, 0x3000, 0x1000, 0x4000),
    ]
    .into_iter()
    .enumerate()
    {
        let entry = 64 + 56 * index;
        put(&mut file, entry, &1u32.to_le_bytes());
        put(&mut file, entry + 4, &flags.to_le_bytes());
        let address = BASE + start - 0x1000;
        let fields = [start, address, address, bytes, memory, 0x1000];
        put(&mut file, entry + 8, &fields.map(u64::to_le_bytes).concat());
    }
    file[0x2000..0x4000].fill(0x90);
    put(&mut file, 0x1000, b"MZ");
    put(&mut file, 0x103c, &0x40u32.to_le_bytes());
    let head = 0x1040;
    put(&mut file, head, b"PE\0\0\x64\x86\x02\0");
    put(&mut file, head + 20, &[160, 0, 0x2e, 2, 0x0b, 2]);
    put(&mut file, head + 24 + 16, &0x1000u32.to_le_bytes());
    put(&mut file, head + 24 + 32, &0x1000u32.to_le_bytes());
    put(&mut file, head + 24 + 36, &0x200u32.to_le_bytes());
    put(&mut file, head + 24 + 56, &IMAGE_BYTES.to_le_bytes());
    put(&mut file, head + 24 + 60, &0x1000u32.to_le_bytes());
    put(&mut file, head + 24 + 68, &[10, 0]);
    put(&mut file, head + 24 + 108, &[6]);
    let sections = head + 24 + 160;
    for (index, (name, fields)) in [
        (b".text\0\0\0", [0x1000u32, 0x1000, 0x1000, 0x1000]),
        (b".data\0\0\0", [0x4000, 0x2000, 0x1000, 0x2000]),
    ]
    .into_iter()
    .enumerate()
    {
        let entry = sections + 40 * index;
        put(&mut file, entry, name);
        put(&mut file, entry + 8, &fields.map(u32::to_le_bytes).concat());
        put(&mut file, entry + 36, &0xe000_0060u32.to_le_bytes());
    }
    file
}

/// A model that can be told from zeros.
pub(crate) fn model(bytes: usize) -> Vec<u8> {
    let noise = (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8);
    b"GGUF".iter().copied().chain(noise).take(bytes).collect()
}
