//! Which of a processor's abilities to turn on: bits of CR4 and XCR0, from CPUID.

use core::fmt;

/// The registers that CPUID fills for one leaf.
#[derive(Copy, Clone, Debug, Default)]
pub struct Leaf {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

/// What a processor can do.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// The states that XCR0 may turn on; zero without XSAVE.
    pub xcr0: u64,
    /// The bits of CR4 to turn on.
    pub cr4: u64,
    /// Pages of 1 GiB.
    pub gigabyte_pages: bool,
    /// The APIC can be reached by model-specific registers.
    pub x2apic: bool,
    /// The APIC's timer can fire at a time-stamp.
    pub tsc_deadline: bool,
}

const CR4_OSFXSR: u64 = 1 << 9;
const CR4_OSXMMEXCPT: u64 = 1 << 10;
const CR4_UMIP: u64 = 1 << 11;
const CR4_OSXSAVE: u64 = 1 << 18;
const CR4_SMEP: u64 = 1 << 20;
const CR4_SMAP: u64 = 1 << 21;

/// Groups of states of which XCR0 takes all or none: AVX-512 and AMX.
const GROUPS: [u64; 2] = [0xe0, 0x6_0000];
const X87_SSE: u64 = 3;
const AVX: u64 = 4;

impl Features {
    /// Reads what `cpuid(leaf, subleaf)` says.
    pub fn read(cpuid: impl Fn(u32, u32) -> Leaf) -> Self {
        let max = cpuid(0, 0).eax;
        let basic = cpuid(1, 0);
        let extended = if max >= 7 {
            cpuid(7, 0)
        } else {
            Leaf::default()
        };
        let mut features = Self {
            cr4: CR4_OSFXSR | CR4_OSXMMEXCPT,
            x2apic: basic.ecx & 1 << 21 != 0,
            tsc_deadline: basic.ecx & 1 << 24 != 0,
            ..Self::default()
        };
        if cpuid(0x8000_0000, 0).eax >= 0x8000_0001 {
            features.gigabyte_pages = cpuid(0x8000_0001, 0).edx & 1 << 26 != 0;
        }
        for (has, bit) in [
            (extended.ebx & 1 << 7, CR4_SMEP),
            (extended.ebx & 1 << 20, CR4_SMAP),
            (extended.ecx & 1 << 2, CR4_UMIP),
        ] {
            if has != 0 {
                features.cr4 |= bit;
            }
        }
        if basic.ecx & 1 << 26 != 0 && max >= 0xd {
            let leaf = cpuid(0xd, 0);
            let supported = u64::from(leaf.edx) << 32 | u64::from(leaf.eax);
            features.cr4 |= CR4_OSXSAVE;
            features.xcr0 = X87_SSE | supported & AVX;
            for group in GROUPS {
                if features.xcr0 & AVX != 0 && supported & group == group {
                    features.xcr0 |= group;
                }
            }
        }
        features
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vector state {:#x}", self.xcr0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(xstate: u64, basic_ecx: u32, ebx7: u32) -> Features {
        Features::read(|leaf, _| match leaf {
            0 => Leaf {
                eax: 0xd,
                ..Leaf::default()
            },
            1 => Leaf {
                ecx: basic_ecx,
                ..Leaf::default()
            },
            7 => Leaf {
                ebx: ebx7,
                ..Leaf::default()
            },
            0xd => Leaf {
                eax: xstate as u32,
                edx: (xstate >> 32) as u32,
                ..Leaf::default()
            },
            _ => Leaf::default(),
        })
    }

    #[test]
    fn states_come_in_whole_groups() {
        let xsave = 1 << 26;
        assert_eq!(with(0x7, xsave, 0).xcr0, 0x7);
        assert_eq!(with(0xe7, xsave, 0).xcr0, 0xe7);
        assert_eq!(with(0x67, xsave, 0).xcr0, 0x7);
        assert_eq!(with(0x6_02e7, xsave, 0).xcr0, 0x6_00e7);
        assert_eq!(with(0x2_0007, xsave, 0).xcr0, 0x7);
        assert_eq!(with(0xe3, xsave, 0).xcr0, 0x3);
        assert_eq!(with(0xe7, 0, 0).xcr0, 0);
    }

    #[test]
    fn only_what_is_there_is_turned_on() {
        let none = with(7, 0, 0);
        assert_eq!(none.cr4, CR4_OSFXSR | CR4_OSXMMEXCPT);
        let all = with(7, 1 << 26 | 1 << 21, 1 << 7 | 1 << 20);
        assert_eq!(all.cr4, none.cr4 | CR4_OSXSAVE | CR4_SMEP | CR4_SMAP);
        assert!(all.x2apic && !all.tsc_deadline && !all.gigabyte_pages);
    }
}
