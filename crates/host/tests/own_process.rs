//! What concerns the whole process, so that no other test may run in it: one test, in order.
#![cfg(target_os = "linux")]

use strata_host::{Bound, Budget, HugePages, Usage, cap_process};
use strata_platform::{Memory, OutOfMemory};

const MB: usize = 1 << 20;

#[test]
fn memory_in_use_shows_and_a_cap_holds() {
    let before = Usage::now().unwrap();
    let mut region = HugePages::Transparent.region(64 * MB).unwrap();
    assert!(Usage::now().unwrap().anonymous_bytes < before.anonymous_bytes + 8 * MB as u64);
    region.fill(1);
    let with = Usage::now().unwrap();
    assert!(with.anonymous_bytes >= before.anonymous_bytes + 64 * MB as u64);
    assert!(with.resident_bytes >= with.anonymous_bytes);
    drop(region);
    let after = Usage::now().unwrap();
    assert!(after.anonymous_bytes < before.anonymous_bytes + 8 * MB as u64);
    // The kernel counts the peak only roughly.
    assert!(after.peak_bytes + MB as u64 >= with.resident_bytes);

    cap_process(256 * MB as u64).unwrap();
    let budget = Budget::now();
    assert_eq!(budget.bound_by, Bound::PrivateMemory);
    assert_eq!(budget.limit_bytes, 256 * MB as u64);
    let bytes = 300 * MB;
    assert_eq!(
        HugePages::Transparent.region(bytes).err(),
        Some(OutOfMemory { bytes })
    );
    let bytes = budget.available_bytes as usize - 16 * MB;
    HugePages::Transparent.region(bytes).unwrap().fill(1);
    // Lifting the cap is possible too.
    cap_process(u64::MAX).unwrap();
    HugePages::Transparent.region(300 * MB).unwrap();
}
