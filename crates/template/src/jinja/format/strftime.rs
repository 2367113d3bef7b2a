//! Dates as `datetime.strftime` writes them in the C locale.
use crate::jinja::error::{Run, TypeFault};
use crate::jinja::eval::Interp;
use crate::jinja::value::{Str, Value};
use alloc::format;

/// A local date and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    /// The year, from 1.
    pub year: u16,
    /// The month, 1 to 12.
    pub month: u8,
    /// The day of the month, 1 to 31.
    pub day: u8,
    /// The hour, 0 to 23.
    pub hour: u8,
    /// The minute, 0 to 59.
    pub minute: u8,
    /// The second, 0 to 59.
    pub second: u8,
    /// Microseconds.
    pub microsecond: u32,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

impl DateTime {
    /// The date and time that is `seconds` after 1970-01-01 00:00, on a clock without zones: add the local offset.
    pub fn from_unix(seconds: i64) -> DateTime {
        // Within the years that the fields can hold.
        let seconds = seconds.clamp(-62_135_596_800, 253_402_300_799);
        let days = seconds.div_euclid(86_400);
        let time = seconds.rem_euclid(86_400);
        // Civil date from days, counted in eras of 400 years that start on 1 March.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 {
            month_from_march + 3
        } else {
            month_from_march - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        DateTime {
            year: u16::try_from(year).unwrap_or(1),
            month: month as u8,
            day: day as u8,
            hour: (time / 3600) as u8,
            minute: (time / 60 % 60) as u8,
            second: (time % 60) as u8,
            microsecond: 0,
        }
    }

    /// Days before this one in its year.
    fn day_of_year(&self) -> u32 {
        const BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let year = self.year;
        let leap =
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let month = usize::from(self.month).saturating_sub(1).min(11);
        BEFORE[month] + u32::from(self.day.max(1)) - 1 + u32::from(leap && month > 1)
    }

    /// 0 is Sunday.
    fn weekday(&self) -> u32 {
        let before = u32::from(self.year.max(1)) - 1;
        let days = before * 365 + before / 4 - before / 100 + before / 400 + self.day_of_year();
        (days + 1) % 7
    }
}

/// `now.strftime(pattern)`.
pub(crate) fn strftime(interp: &mut Interp<'_>, pattern: &Str, now: &DateTime) -> Run<Value> {
    let mut buffer = interp.buffer()?;
    let mut chars = pattern.chars();
    interp.touch(pattern.len().saturating_mul(4))?;
    while let Some(c) = chars.next() {
        if c != '%' {
            buffer.push(c)?;
            continue;
        }
        let mut code = chars.next();
        // `%-d` and its like leave out leading zeros.
        let unpadded = code == Some('-');
        if unpadded {
            code = chars.next();
        }
        let Some(code) = code else {
            buffer.push('%')?;
            break;
        };
        let Some(text) = field(code, now, unpadded) else {
            return Err(TypeFault::Unsupported("a code in a strftime format").into());
        };
        buffer.push_str(&text)?;
    }
    Ok(Value::Str(Str::from_buffer(buffer)))
}

fn field(code: char, now: &DateTime, unpadded: bool) -> Option<alloc::string::String> {
    let weekday = now.weekday();
    let day_of_year = now.day_of_year();
    let month = MONTHS[usize::from(now.month).saturating_sub(1).min(11)];
    let day_name = WEEKDAYS[(weekday % 7) as usize];
    let hour12 = match now.hour % 12 {
        0 => 12,
        hour => hour,
    };
    let number = |value: u32, width: usize| {
        if unpadded {
            format!("{value}")
        } else {
            format!("{value:0width$}")
        }
    };
    let two = |value: u8| number(u32::from(value), 2);
    let short = |name: &str| name.get(..3).unwrap_or(name).into();
    Some(match code {
        'Y' => format!("{}", now.year),
        'y' => number(u32::from(now.year % 100), 2),
        'C' => number(u32::from(now.year / 100), 2),
        'm' => two(now.month),
        'd' => two(now.day),
        'e' if unpadded => format!("{}", now.day),
        'e' => format!("{:>2}", now.day),
        'H' => two(now.hour),
        'I' => two(hour12),
        'M' => two(now.minute),
        'S' => two(now.second),
        'f' => format!("{:06}", now.microsecond),
        'j' => number(day_of_year + 1, 3),
        'B' => month.into(),
        'b' | 'h' => short(month),
        'A' => day_name.into(),
        'a' => short(day_name),
        'p' => if now.hour < 12 { "AM" } else { "PM" }.into(),
        'w' => format!("{weekday}"),
        'u' => format!("{}", (weekday + 6) % 7 + 1),
        'U' => number((day_of_year + 7 - weekday) / 7, 2),
        'W' => number((day_of_year + 7 - (weekday + 6) % 7) / 7, 2),
        'D' | 'x' => format!("{:02}/{:02}/{:02}", now.month, now.day, now.year % 100),
        'F' => format!("{}-{:02}-{:02}", now.year, now.month, now.day),
        'T' | 'X' => format!("{:02}:{:02}:{:02}", now.hour, now.minute, now.second),
        'R' => format!("{:02}:{:02}", now.hour, now.minute),
        'c' => format!(
            "{} {} {:>2} {:02}:{:02}:{:02} {}",
            day_name.get(..3)?,
            month.get(..3)?,
            now.day,
            now.hour,
            now.minute,
            now.second,
            now.year
        ),
        'z' | 'Z' => "".into(),
        'n' => "\n".into(),
        't' => "\t".into(),
        '%' => "%".into(),
        _ => return None,
    })
}
