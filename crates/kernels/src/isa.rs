//! The instruction sets that the kernels are built for, and which of them this processor has.

/// An instruction set. Every one gives the same bits.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isa {
    /// Plain Rust: the reference that defines the results.
    Scalar,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX2 with the 256-bit dot-product instructions.
    AvxVnni,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512 with the dot-product instructions.
    Avx512Vnni,
    /// AArch64's 128-bit registers.
    Neon,
    /// The same with the dot-product instructions.
    NeonDot,
    /// WebAssembly's 128-bit registers.
    Simd128,
}

impl Isa {
    /// Every instruction set, the preferred ones last.
    pub const ALL: &[Isa] = &[
        Isa::Scalar,
        Isa::Avx2,
        Isa::Avx512,
        Isa::AvxVnni,
        Isa::Avx512Vnni,
        Isa::Neon,
        Isa::NeonDot,
        Isa::Simd128,
    ];

    /// The spelling that `STRATA_ISA` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::AvxVnni => "avx-vnni",
            Isa::Avx512 => "avx512",
            Isa::Avx512Vnni => "avx512-vnni",
            Isa::Neon => "neon",
            Isa::NeonDot => "neon-dot",
            Isa::Simd128 => "simd128",
        }
    }

    /// Whether this program has its kernels: the feature `compact` leaves out those that few processors need, so that a
    /// bootable image stays small. Their processors then use the next best. A module of WebAssembly with vectors has no others.
    pub const fn is_built(self) -> bool {
        let is_rare = matches!(self, Isa::AvxVnni | Isa::Avx512);
        let vectors = cfg!(all(target_arch = "wasm32", target_feature = "simd128"));
        !(cfg!(feature = "compact") && is_rare || vectors && matches!(self, Isa::Scalar))
    }

    /// The instruction set with this spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|isa| isa.name() == name)
    }
}

impl core::fmt::Display for Isa {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}

/// The instruction sets that the processor has and the system (or the boot code) has switched on.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuFeatures {
    pub(crate) avx2: bool,
    pub(crate) avx_vnni: bool,
    pub(crate) avx512: bool,
    pub(crate) avx512_vnni: bool,
    pub(crate) amx: bool,
    pub(crate) neon: bool,
    pub(crate) neon_dot: bool,
}

impl CpuFeatures {
    /// Asks the processor itself, so it also works where no operating system answers.
    pub fn detect() -> Self {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        return crate::arch::x86_64::cpuid::detect();
        #[cfg(all(
            target_arch = "aarch64",
            target_feature = "neon",
            target_endian = "little"
        ))]
        return crate::arch::aarch64::id_registers::detect();
        #[allow(unreachable_code)]
        Self::default()
    }

    /// Whether kernels for `isa` can run.
    pub const fn has(self, isa: Isa) -> bool {
        isa.is_built() && self.can(isa)
    }

    const fn can(self, isa: Isa) -> bool {
        match isa {
            Isa::Scalar => true,
            Isa::Avx2 => self.avx2,
            Isa::AvxVnni => self.avx_vnni,
            Isa::Avx512 => self.avx512,
            Isa::Avx512Vnni => self.avx512_vnni,
            Isa::Neon => self.neon,
            Isa::NeonDot => self.neon_dot,
            // A module has it or is refused as a whole.
            Isa::Simd128 => cfg!(all(target_arch = "wasm32", target_feature = "simd128")),
        }
    }

    /// Whether the processor multiplies tiles of 8-bit integers (AMX). The system may still have to permit it.
    pub const fn has_amx(self) -> bool {
        self.amx
    }

    /// The fastest of them.
    pub fn best(self) -> Isa {
        let mut all = Isa::ALL.iter().rev().copied();
        all.find(|&isa| self.has(isa)).unwrap_or(Isa::Scalar)
    }
}
