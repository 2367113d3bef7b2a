//! What the processor is found to have.

use strata_kernels::{CpuFeatures, Isa, Kernels};

#[test]
fn only_what_there_is_can_be_had() {
    let found = CpuFeatures::detect();
    assert!(found.has(Isa::Scalar));
    assert!(found.has(found.best()));
    assert_eq!(Kernels::detect().isa(), found.best());
    for &isa in Isa::ALL {
        assert_eq!(Kernels::for_isa(isa).is_some(), found.has(isa), "{isa}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn agrees_with_the_standard_library() {
    let found = CpuFeatures::detect();
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    assert_eq!(found.has(Isa::Avx2), avx2);
    assert_eq!(
        found.has(Isa::AvxVnni),
        avx2 && is_x86_feature_detected!("avxvnni")
    );
    assert_eq!(found.has(Isa::Avx512), avx512);
    assert_eq!(
        found.has(Isa::Avx512Vnni),
        avx512 && is_x86_feature_detected!("avx512vnni")
    );
    assert!(!found.has(Isa::Neon) && !found.has(Isa::NeonDot));
}

#[test]
#[cfg(target_arch = "aarch64")]
fn agrees_with_the_standard_library() {
    let found = CpuFeatures::detect();
    assert!(found.has(Isa::Neon));
    assert_eq!(
        found.has(Isa::NeonDot),
        std::arch::is_aarch64_feature_detected!("dotprod")
    );
    assert!(!found.has(Isa::Avx2));
}

#[test]
fn the_peak_counts_the_operations_of_every_round() {
    for &isa in Isa::ALL {
        let Some(kernels) = Kernels::for_isa(isa) else {
            continue;
        };
        let one = kernels.dot_peak(1);
        assert!(one > 0, "{isa}");
        assert_eq!(kernels.dot_peak(1000), 1000 * one, "{isa}");
        let one = kernels.float_peak(1);
        assert!(one > 0, "{isa}");
        assert_eq!(kernels.float_peak(1000), 1000 * one, "{isa}");
    }
}

#[test]
fn names_lead_back() {
    for &isa in Isa::ALL {
        assert_eq!(Isa::from_name(isa.name()), Some(isa));
    }
    assert_eq!(Isa::from_name("sse9"), None);
}
