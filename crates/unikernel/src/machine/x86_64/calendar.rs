//! What day it is, by the PC's battery-backed clock (MC146818).
#![cfg_attr(target_arch = "x86_64", allow(unsafe_code))]

const SECONDS: u8 = 0;
const MINUTES: u8 = 2;
const HOURS: u8 = 4;
const DAY: u8 = 7;
const MONTH: u8 = 8;
const YEAR: u8 = 9;
const STATUS_A: u8 = 10;
const STATUS_B: u8 = 11;

const UPDATING: u8 = 0x80;
const BINARY: u8 = 4;
const HOURS_24: u8 = 2;
const AFTERNOON: u8 = 0x80;

/// Seconds since 1970 by a clock whose registers are read so; nothing if there is no clock that makes sense.
pub fn unix_seconds(mut register: impl FnMut(u8) -> u8) -> Option<u64> {
    let mut read = || {
        let mut spins = 10_000;
        while register(STATUS_A) & UPDATING != 0 {
            spins -= 1;
            if spins == 0 {
                return None;
            }
        }
        Some([SECONDS, MINUTES, HOURS, DAY, MONTH, YEAR, STATUS_B].map(&mut register))
    };
    // It may have changed while it was read.
    let mut before = read()?;
    for _ in 0..8 {
        let again = read()?;
        if again == before {
            return seconds(before);
        }
        before = again;
    }
    None
}

fn seconds([second, minute, hour, day, month, year, status]: [u8; 7]) -> Option<u64> {
    let number = |value: u8| match status & BINARY {
        0 => (value >> 4) * 10 + (value & 15),
        _ => value,
    };
    let hour = match status & HOURS_24 {
        0 => number(hour & !AFTERNOON) % 12 + if hour & AFTERNOON != 0 { 12 } else { 0 },
        _ => number(hour),
    };
    let [second, minute, day, month, year] = [second, minute, day, month, year].map(number);
    let fine = second < 60
        && minute < 60
        && hour < 24
        && (1..=31).contains(&day)
        && (1..=12).contains(&month)
        && year < 100;
    if !fine {
        return None;
    }
    let days = days(2000 + u64::from(year), u64::from(month), u64::from(day));
    let [hour, minute, second] = [hour, minute, second].map(u64::from);
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days since 1970, for years from 1970 on: years are counted from March, so that the leap day is the last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let leaps = year / 4 - year / 100 + year / 400;
    365 * year + leaps + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// Seconds since 1970, if the machine has a clock.
///
/// # Safety
/// For the bare machine.
#[cfg(target_arch = "x86_64")]
pub unsafe fn now() -> Option<u64> {
    use super::cpu;
    // SAFETY: these ports are the clock's or nothing's. The high bit that masks the NMI stays clear.
    unix_seconds(|register| unsafe {
        cpu::out8(0x70, register);
        cpu::in8(0x71)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(registers: [u8; 7]) -> Option<u64> {
        let names = [SECONDS, MINUTES, HOURS, DAY, MONTH, YEAR, STATUS_B];
        unix_seconds(|register| {
            let place = names.iter().position(|&name| name == register);
            place.map_or(0, |place| registers[place])
        })
    }

    #[test]
    fn dates_are_read_in_both_notations() {
        assert_eq!(at([0, 0, 0, 1, 1, 0, 6]), Some(946_684_800));
        assert_eq!(
            at([0x59, 0x59, 0x23, 0x29, 2, 0x24, 2]),
            Some(1_709_251_199)
        );
        // 12:30 at night and at noon.
        assert_eq!(at([0, 30, 12, 1, 1, 0, 4]), Some(946_684_800 + 1800));
        assert_eq!(at([0, 30, 0x8c, 1, 1, 0, 4]), Some(946_684_800 + 45_000));
    }

    #[test]
    fn no_clock_is_none() {
        assert_eq!(unix_seconds(|_| 0xff), None);
        assert_eq!(at([99, 0, 0, 1, 1, 0, 6]), None);
        assert_eq!(at([0, 0, 0, 0, 0, 0, 6]), None);
        let mut time = 0;
        let restless = unix_seconds(|register| {
            time += 1;
            if register == SECONDS { time % 60 } else { 1 }
        });
        assert_eq!(restless, None);
    }
}
