//! What CPUID says the processor has and XCR0 says is switched on. Intel SDM, volume 1, chapters 13 and 14.
#![allow(unsafe_code)]

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

use crate::CpuFeatures;

/// Whether all bits of `mask` are set.
const fn all(word: u64, mask: u64) -> bool {
    word & mask == mask
}

pub(crate) fn detect() -> CpuFeatures {
    const FMA_OSXSAVE_AVX_F16C: u64 = 1 << 12 | 1 << 27 | 1 << 28 | 1 << 29;
    const YMM_STATE: u64 = 0b110;
    const ZMM_STATE: u64 = 0b1110_0110;
    const TILE_STATE: u64 = 0b11 << 17;
    let none = CpuFeatures::default();

    let leaves = __cpuid(0).eax;
    if leaves < 7 || !all(u64::from(__cpuid(1).ecx), FMA_OSXSAVE_AVX_F16C) {
        return none;
    }
    // SAFETY: OSXSAVE is set, so XGETBV exists and may be used at any privilege.
    let enabled = unsafe { xcr0() };
    let features = __cpuid_count(7, 0);
    let (ebx, ecx) = (u64::from(features.ebx), u64::from(features.ecx));
    if !all(enabled, YMM_STATE) || !all(ebx, 1 << 5) {
        return none;
    }
    let avx_vnni = features.eax >= 1 && all(u64::from(__cpuid_count(7, 1).eax), 1 << 4);
    let avx512 = all(enabled, ZMM_STATE) && all(ebx, 1 << 16 | 1 << 17 | 1 << 30 | 1 << 31);
    // AMX-TILE and AMX-INT8, and the state of both kinds of its registers.
    let amx = all(enabled, TILE_STATE) && all(u64::from(features.edx), 1 << 24 | 1 << 25);
    CpuFeatures {
        avx2: true,
        avx_vnni,
        avx512,
        avx512_vnni: avx512 && all(ecx, 1 << 11),
        amx,
        ..none
    }
}

/// The register states that the system saves.
#[target_feature(enable = "xsave")]
fn xcr0() -> u64 {
    // SAFETY: register 0 always exists where the instruction does.
    unsafe { _xgetbv(0) }
}
