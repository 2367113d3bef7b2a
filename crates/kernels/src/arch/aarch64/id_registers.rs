//! What the identification registers say the processor has. Arm ARM, chapter D24: ID_AA64ISAR0_EL1.
#![allow(unsafe_code)]

use crate::CpuFeatures;

pub(crate) fn detect() -> CpuFeatures {
    CpuFeatures {
        // A build for this target uses the registers everywhere.
        neon: true,
        neon_dot: cfg!(target_feature = "dotprod") || says_dot_product(),
        ..CpuFeatures::default()
    }
}

/// Whether the register announces `sdot`. Linux answers in place of the processor, for all cores that a thread may run
/// on; on bare metal the processor does.
#[cfg(any(target_os = "linux", target_os = "none", target_os = "uefi"))]
fn says_dot_product() -> bool {
    const DOT_PRODUCT: u32 = 44;
    let features: u64;
    // SAFETY: it only reads a register, which exists on every processor with this architecture; where programs may not
    // read it themselves, the system does it for them.
    unsafe {
        core::arch::asm!(
            "mrs {}, ID_AA64ISAR0_EL1",
            out(reg) features,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    features >> DOT_PRODUCT & 0xf != 0
}

/// Other systems stop a program that reads the register: there the build must say what the processor has.
#[cfg(not(any(target_os = "linux", target_os = "none", target_os = "uefi")))]
fn says_dot_product() -> bool {
    false
}
