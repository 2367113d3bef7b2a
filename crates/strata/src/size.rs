//! Numbers of bytes, as people write and read them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes: `512M` and `6G` go by thousands, `512MiB` and `6GiB` by 1024.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = text[digits.len()..].to_ascii_lowercase();
        let factor: u64 = match unit.as_str() {
            "" | "b" => 1,
            "k" | "kb" => 1_000,
            "m" | "mb" => 1_000_000,
            "g" | "gb" => 1_000_000_000,
            "t" | "tb" => 1_000_000_000_000,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            "tib" => 1 << 40,
            _ => return Err("unknown unit; use K, M, G, T, KiB, MiB, GiB or TiB"),
        };
        let number: f64 = digits
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite() && *number > 0.0)
            .ok_or("expected a size such as 512M or 6G")?;
        Ok(Self((number * factor as f64) as u64))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_000_000 => write!(f, "{:.1} kB", bytes / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} MB", bytes / 1e6),
            _ => write!(f, "{:.2} GB", bytes / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_thousands_or_in_powers_of_two() {
        for (text, bytes) in [
            ("512M", 512_000_000),
            ("6G", 6_000_000_000),
            ("6GiB", 6 << 30),
            ("1.5gb", 1_500_000_000),
            ("0.5KiB", 512),
            ("7", 7),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "G", "-1G", "nanM", "6X", "6 G", "infG", "0"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
