//! Products of every type, emulated, against the Rust kernels, bit for bit.

use super::Multiplier;
use crate::emulation;
use crate::emulator::Emulator;
use products::TYPES;
use strata_gpu::Backend;
use strata_model::GgmlType;

#[path = "../../gpu/tests/products.rs"]
mod products;

fn check(ty: GgmlType, sizes: (usize, usize, usize), capability: (i32, i32)) {
    check_on(ty, sizes, capability, None);
}

/// With so many processors as far as the choice of a tile is concerned.
fn check_on(
    ty: GgmlType,
    sizes: (usize, usize, usize),
    capability: (i32, i32),
    processors: Option<usize>,
) {
    let Some(library) = emulation::library() else {
        return;
    };
    let mut device = Emulator::open(library, capability).unwrap();
    let mut multiplier = Multiplier::new(device.facts());
    multiplier.processors = processors.unwrap_or(multiplier.processors);
    products::check(&mut device, &mut multiplier, ty, sizes);
}

#[test]
fn every_type_gives_the_bits_of_the_processors() {
    for ty in TYPES {
        // Blocks of 32 need not fill the last unit.
        let columns = if ty.block_len() == 256 { 768 } else { 416 };
        check(ty, (35, columns, 1), (8, 0));
        check(ty, (35, columns, 1), (9, 0));
        check(ty, (35, columns, 3), (8, 0));
        check(ty, (35, columns, 9), (8, 0));
        check(ty, (130, 256, 20), (8, 0));
    }
    // Rows long enough for several rounds, every tile, and a GPU without tensor cores.
    for ty in [
        GgmlType::Q4_K,
        GgmlType::Q6_K,
        GgmlType::Q8_0,
        GgmlType::Q2_K,
    ] {
        check(ty, (16, 6400, 1), (8, 0));
        check(ty, (16, 6400, 1), (9, 0));
        check(ty, (16, 6400, 8), (8, 0));
        check(ty, (150, 256, 70), (8, 0));
        check(ty, (17, 512, 3), (7, 5));
    }
}

#[test]
fn every_tile_gives_the_bits_of_the_processors() {
    let Some(library) = emulation::library() else {
        return;
    };
    let device = Emulator::open(library, (8, 0)).unwrap();
    let mut multiplier = Multiplier::new(device.facts());
    let mut tiles = Vec::new();
    for processors in [100, 10, 2, 1] {
        multiplier.processors = processors;
        tiles.push(multiplier.tile(GgmlType::Q4_K, 600, 33));
        for ty in [GgmlType::Q4_K, GgmlType::Q6_K] {
            check_on(ty, (600, 256, 33), (8, 0), Some(processors));
        }
    }
    assert_eq!(tiles, [0, 1, 2, 3]);
}
