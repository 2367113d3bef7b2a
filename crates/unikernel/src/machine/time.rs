//! The time-stamp counter as a clock.
#![cfg_attr(target_arch = "x86_64", allow(unsafe_code))]

use super::features::Leaf;

/// Ticks a second of the PC's interval timer.
const PIT_HZ: u64 = 1_193_182;
/// It is watched for 5 ms, which is exact to a few parts in ten thousand.
const PIT_TICKS: u16 = (PIT_HZ / 200) as u16;
/// A timer that does not move is not waited for.
const PATIENCE: u32 = 2_000_000;

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
    }
    None
}

/// Measures the frequency against a 16-bit timer that counts down at 1.193182 MHz.
pub fn measured_frequency(
    mut timer: impl FnMut() -> u16,
    mut counter: impl FnMut() -> u64,
) -> Option<u64> {
    let (start, began) = (timer(), counter());
    for _ in 0..PATIENCE {
        let passed = start.wrapping_sub(timer());
        let now = counter();
        // A jump means that it was looked at too late to tell how often the timer went around.
        if passed >= PIT_TICKS {
            let ticks = u128::from(now.wrapping_sub(began)) * u128::from(PIT_HZ);
            return u64::try_from(ticks / u128::from(passed))
                .ok()
                .filter(|&hz| hz > 0);
        }
    }
    None
}

/// A frequency that two measurements agree on: a machine that is emulated may stand still during one of them.
pub fn agreed_frequency(mut measure: impl FnMut() -> Option<u64>) -> Option<u64> {
    let mut last = measure()?;
    for _ in 0..8 {
        let next = measure()?;
        if next.abs_diff(last) <= last / 100 {
            break;
        }
        last = next;
    }
    Some(last)
}

/// Converts ticks to nanoseconds with one multiplication.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Nanoseconds a tick, times 2³².
    factor: u64,
}

impl Scale {
    /// For a counter of `hz` ticks a second, at least one.
    pub const fn new(hz: u64) -> Self {
        let hz = if hz == 0 { 1 } else { hz };
        Self {
            factor: ((1_000_000_000u128 << 32) / hz as u128) as u64,
        }
    }

    /// How long that many ticks are.
    pub fn nanoseconds(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.factor)) >> 32) as u64
    }
}

#[cfg(target_arch = "x86_64")]
mod clock {
    //! The machine's clock.

    use super::{Scale, agreed_frequency, measured_frequency, told_frequency};
    use crate::machine::cpu;
    use core::sync::atomic::{AtomicU64, Ordering};
    use strata_platform::Clock;

    /// Where nothing tells the frequency. Too high is better than too low: waits are then too long.
    const GUESS: u64 = 4_000_000_000;

    static HZ: AtomicU64 = AtomicU64::new(GUESS);
    static FACTOR: AtomicU64 = AtomicU64::new(Scale::new(GUESS).factor);
    static START: AtomicU64 = AtomicU64::new(0);

    /// Finds the frequency. Time begins now.
    ///
    /// # Safety
    /// For the bare machine, when firmware no longer uses the interval timer.
    pub unsafe fn start() {
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
        let hz = told_frequency(cpu::cpuid).or_else(|| agreed_frequency(measure));
        let hz = hz.unwrap_or(GUESS);
        HZ.store(hz, Ordering::Relaxed);
        FACTOR.store(Scale::new(hz).factor, Ordering::Relaxed);
        START.store(cpu::time_stamp(), Ordering::Release);
    }

    /// How often a second the time-stamp counter counts.
    pub fn frequency() -> u64 {
        HZ.load(Ordering::Relaxed)
    }

    /// Nanoseconds since [`start`].
    pub fn now() -> u64 {
        let ticks = cpu::time_stamp().wrapping_sub(START.load(Ordering::Acquire));
        let factor = FACTOR.load(Ordering::Relaxed);
        Scale { factor }.nanoseconds(ticks)
    }

    /// Waits, awake.
    pub fn wait(microseconds: u64) {
        let ticks = u128::from(frequency()) * u128::from(microseconds) / 1_000_000;
        let start = cpu::time_stamp();
        while u128::from(cpu::time_stamp().wrapping_sub(start)) < ticks {
            core::hint::spin_loop();
        }
    }

    /// The clock that the engine asks.
    #[derive(Copy, Clone, Debug, Default)]
    pub struct TimeStamps;

    impl Clock for TimeStamps {
        fn now_ns(&self) -> u64 {
            now()
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use clock::{TimeStamps, frequency, now, start, wait};

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
        let hz = measured_frequency(timer, || ticks.get() * 2000).unwrap();
        let error = hz as f64 / (2000.0 * PIT_HZ as f64) - 1.0;
        assert!(error.abs() < 2e-3, "{error}");
        assert_eq!(measured_frequency(|| 5, || 1), None);
        assert_eq!(measured_frequency(|| 0, || 0), None);
    }

    #[test]
    fn a_measurement_that_no_other_confirms_is_not_believed() {
        let agreed = |list: &[u64]| {
            let mut list = list.iter();
            agreed_frequency(|| list.next().copied())
        };
        assert_eq!(agreed(&[1000, 1005]), Some(1000));
        assert_eq!(agreed(&[7000, 1000, 1009]), Some(1000));
        assert_eq!(agreed(&[500, 7000, 1000, 995]), Some(1000));
        assert_eq!(agreed(&[5]), None);
        assert!(agreed(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]).is_some());
    }

    #[test]
    fn ticks_become_nanoseconds() {
        for hz in [1_000_000u64, 2_345_678_901, 5_000_000_000] {
            for seconds in [1, 3600, 86_400 * 365] {
                let exact = seconds as f64 * 1e9;
                let got = Scale::new(hz).nanoseconds(hz * seconds) as f64;
                assert!((got / exact - 1.0).abs() < 1e-8, "{hz} {seconds}");
            }
        }
        let _ = Scale::new(0).nanoseconds(u64::MAX);
    }
}
