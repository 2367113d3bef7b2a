//! How often the time-stamp counter counts.
#![cfg_attr(target_arch = "x86_64", allow(unsafe_code))]

use super::features::Leaf;

/// Ticks a second of the PC's interval timer.
const PIT_HZ: u64 = 1_193_182;
/// It is watched for 2 ms: exact to a few parts in a thousand, and short enough that a busy machine often runs through.
const PIT_TICKS: u16 = (PIT_HZ / 500) as u16;
/// Measurements at most, and how many thousandths of doubt need no other.
const WINDOWS: u32 = 50;
const GOOD: u64 = 4;
/// A timer that does not move is not waited for.
const MOST_SPINS: u32 = 2_000_000;

/// How often a second the counter counts, if the processor or its hypervisor says.
pub fn told_frequency(cpuid: impl Fn(u32, u32) -> Leaf) -> Option<u64> {
    const HYPERVISOR: u32 = 0x4000_0000;
    if cpuid(1, 0).ecx >> 31 == 1 && cpuid(HYPERVISOR, 0).eax >= HYPERVISOR + 0x10 {
        let khz = cpuid(HYPERVISOR + 0x10, 0).eax;
        if khz != 0 {
            return Some(u64::from(khz) * 1000);
        }
    }
    if cpuid(0, 0).eax >= 0x15 {
        let leaf = cpuid(0x15, 0);
        if leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0 {
            return Some(u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax));
        }
        // Processors that do not tell their crystal's frequency tell their own, and count at that.
        let megahertz = if cpuid(0, 0).eax >= 0x16 {
            cpuid(0x16, 0).eax & 0xffff
        } else {
            0
        };
        if leaf.ebx != 0 && megahertz != 0 {
            return Some(u64::from(megahertz) * 1_000_000);
        }
    }
    None
}

/// A frequency, and how far off it may be.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Times a second.
    pub hz: u64,
    /// Of a thousand parts, how many lay between two looks at the timer at most: the machine may have stood still there.
    pub doubt: u64,
}

/// Measures the frequency against a 16-bit timer that counts down at 1.193182 MHz.
pub fn measured_frequency(
    mut timer: impl FnMut() -> u16,
    mut counter: impl FnMut() -> u64,
) -> Option<Measured> {
    let before = counter();
    let start = timer();
    let began = counter();
    let (mut last, mut gap) = (began, began.wrapping_sub(before));
    for _ in 0..MOST_SPINS {
        let passed = start.wrapping_sub(timer());
        let now = counter();
        gap = gap.max(now.wrapping_sub(last));
        last = now;
        if passed >= PIT_TICKS {
            let ticks = u128::from(now.wrapping_sub(began));
            let hz = u64::try_from(ticks * u128::from(PIT_HZ) / u128::from(passed)).ok()?;
            let doubt = (u128::from(gap) * 1000 / ticks.max(1)) as u64;
            return (hz > 0).then_some(Measured { hz, doubt });
        }
    }
    None
}

/// The frequency by the measurement that is least in doubt, out of several unless one is good enough: a machine that is
/// emulated, or busy, may stand still during any of them.
pub fn agreed_frequency(mut measure: impl FnMut() -> Option<Measured>) -> Option<u64> {
    let mut best = measure()?;
    for _ in 1..WINDOWS {
        if best.doubt <= GOOD {
            break;
        }
        best = measure()
            .filter(|next| next.doubt < best.doubt)
            .unwrap_or(best);
    }
    Some(best.hz)
}

/// Finds the frequency, if anything tells it or it can be measured.
///
/// # Safety
/// For the bare machine, when firmware no longer uses the interval timer.
#[cfg(target_arch = "x86_64")]
pub unsafe fn find() -> Option<u64> {
    use super::cpu;
    // SAFETY: ports 0x40 and 0x43 are the interval timer's or nothing's. Channel 0 is set to run freely; reading it
    // needs a latch command first.
    let timer = || unsafe {
        cpu::out8(0x43, 0);
        let low = cpu::in8(0x40);
        u16::from_le_bytes([low, cpu::in8(0x40)])
    };
    let measure = || {
        // SAFETY: as above.
        unsafe {
            cpu::out8(0x43, 0x34);
            cpu::out8(0x40, 0xff);
            cpu::out8(0x40, 0xff);
        }
        measured_frequency(timer, cpu::time_stamp)
    };
    told_frequency(cpu::cpuid).or_else(|| agreed_frequency(measure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn what_is_told_is_believed() {
        let leaf = |eax, ebx, ecx| Leaf {
            eax,
            ebx,
            ecx,
            edx: 0,
        };
        let guest = told_frequency(|number, _| match number {
            1 => leaf(0, 0, 1 << 31),
            0x4000_0000 => leaf(0x4000_0010, 0, 0),
            0x4000_0010 => leaf(2_500_000, 0, 0),
            _ => leaf(0, 0, 0),
        });
        assert_eq!(guest, Some(2_500_000_000));
        let bare = told_frequency(|number, _| match number {
            0 => leaf(0x16, 0, 0),
            0x15 => leaf(2, 216, 24_000_000),
            _ => leaf(0, 0, 0),
        });
        assert_eq!(bare, Some(2_592_000_000));
        let no_crystal = told_frequency(|number, _| match number {
            0 => leaf(0x16, 0, 0),
            0x15 => leaf(2, 216, 0),
            0x16 => leaf(3400, 0, 0),
            _ => leaf(0, 0, 0),
        });
        assert_eq!(no_crystal, Some(3_400_000_000));
        assert_eq!(told_frequency(|_, _| leaf(0, 0, 0)), None);
        assert_eq!(told_frequency(|_, _| leaf(0, 1, u32::MAX)), None);
    }

    #[test]
    fn what_is_not_told_is_measured() {
        let ticks = Cell::new(0u64);
        let timer = || {
            ticks.set(ticks.get() + 7);
            (3000u64.wrapping_sub(ticks.get()) & 0xffff) as u16
        };
        let measured = measured_frequency(timer, || ticks.get() * 2000).unwrap();
        let error = measured.hz as f64 / (2000.0 * PIT_HZ as f64) - 1.0;
        assert!(error.abs() < 2e-3 && measured.doubt <= GOOD, "{error}");
        assert_eq!(measured_frequency(|| 5, || 1), None);
        assert_eq!(measured_frequency(|| 0, || 0), None);
    }

    #[test]
    fn a_machine_that_stands_still_is_measured_right() {
        // Time goes on by 3 µs a look; in some looks by 20 ms, or so long that the timer goes around.
        for still in [24_000u64, 70_000, 200_000] {
            let (ticks, looks) = (Cell::new(0u64), Cell::new(0u64));
            let pass = || {
                looks.set(looks.get() + 1);
                let stands = looks.get().is_multiple_of(2_900);
                ticks.set(ticks.get() + if stands { still } else { 4 });
            };
            let measure = || {
                measured_frequency(
                    || {
                        pass();
                        (5u64.wrapping_sub(ticks.get()) & 0xffff) as u16
                    },
                    || {
                        pass();
                        ticks.get() * 2000
                    },
                )
            };
            let hz = agreed_frequency(measure).unwrap();
            let error = hz as f64 / (2000.0 * PIT_HZ as f64) - 1.0;
            assert!(error.abs() < 5e-3, "{still}: {error}");
        }
    }

    #[test]
    fn the_measurement_that_is_least_in_doubt_is_believed() {
        let agreed = |list: &[(u64, u64)]| {
            let mut list = list.iter();
            agreed_frequency(|| list.next().map(|&(hz, doubt)| Measured { hz, doubt }))
        };
        assert_eq!(agreed(&[(1000, 2), (5, 0)]), Some(1000));
        assert_eq!(agreed(&[(7000, 800), (1000, 30), (1200, 90)]), Some(1000));
        assert_eq!(
            agreed(&[(7000, 800), (1000, 30), (1001, 3), (9, 0)]),
            Some(1001)
        );
        assert_eq!(agreed(&[]), None);
    }
}
