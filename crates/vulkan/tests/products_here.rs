//! Products of every type, with the device's exact operations and with none of them.

use crate::present;
use crate::products::{TYPES, check};
use strata_model::GgmlType;
use strata_vulkan::{Exactness, backend, backend_at_most};

#[test]
fn every_type_gives_the_bits_of_the_processors() {
    if !present() {
        return;
    }
    let mut device = backend(0).unwrap();
    let mut multiplier = device.multiplier();
    for ty in TYPES {
        // Blocks of 32 need not fill the last unit.
        let columns = if ty.block_len() == 256 { 768 } else { 416 };
        for tokens in [1, 3, 35] {
            check(&mut *device, &mut *multiplier, ty, (35, columns, tokens));
        }
    }
    // Rows long enough for several rounds.
    for ty in [GgmlType::Q4_K, GgmlType::Q6_K, GgmlType::Q2_K] {
        check(&mut *device, &mut *multiplier, ty, (16, 6400, 1));
    }
}

#[test]
fn arithmetic_in_integers_gives_them_too() {
    if !present() {
        return;
    }
    let none = Exactness::default();
    let (mut device, exactness) = backend_at_most(0, Some(none)).unwrap();
    assert_eq!(exactness, none);
    let mut multiplier = device.multiplier();
    for ty in [GgmlType::Q2_K, GgmlType::F16] {
        check(&mut *device, &mut *multiplier, ty, (20, 512, 1));
    }
}

#[test]
fn a_device_that_is_not_there_is_named() {
    if present() {
        let error = backend(99).err().unwrap().to_string();
        assert!(error.starts_with("there is no GPU 99"), "{error}");
    }
}
