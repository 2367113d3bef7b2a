//! Tables, sizes and ages as Ollama prints them.

use std::io::Write;
use std::time::SystemTime;

/// Prints rows in columns, four blanks apart.
pub(super) fn print(
    rows: &[Vec<String>],
    indent: &str,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::from(indent);
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}    "));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Bytes in units of a thousand: `2.0 GB`, `637 MB`.
pub(super) fn bytes(bytes: u64) -> String {
    let units = [
        (1_000_000_000_000, "TB"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1_000, "KB"),
    ];
    let Some((unit, name)) = units.into_iter().find(|&(unit, _)| bytes >= unit) else {
        return format!("{bytes} B");
    };
    let value = bytes as f64 / unit as f64;
    if value >= 10.0 || bytes.is_multiple_of(unit) {
        format!("{} {name}", bytes / unit)
    } else {
        format!("{value:.1} {name}")
    }
}

/// How long ago: `2 weeks ago`.
pub(super) fn age(time: SystemTime) -> String {
    let Ok(age) = SystemTime::now().duration_since(time) else {
        return "just now".into();
    };
    format!("{} ago", span(age.as_secs()))
}

/// How long: `2 weeks`.
pub(super) fn span(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match (seconds, hours) {
        (0, _) => "Less than a second".into(),
        (1, _) => "1 second".into(),
        (2..60, _) => format!("{seconds} seconds"),
        (60..120, _) => "About a minute".into(),
        (_, 0) => format!("{minutes} minutes"),
        (_, 1) => "About an hour".into(),
        (_, 2..48) => format!("{hours} hours"),
        (_, 48..336) => format!("{} days", hours / 24),
        (_, 336..1440) => format!("{} weeks", hours / 24 / 7),
        (_, 1440..17_520) => format!("{} months", hours / 24 / 30),
        _ => format!("{} years", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn sizes_and_ages_are_short() {
        for (count, expected) in [
            (999, "999 B"),
            (2_019_393_189, "2.0 GB"),
            (637_700_138, "637 MB"),
            (5_000_000, "5 MB"),
            (1_500, "1.5 KB"),
        ] {
            assert_eq!(bytes(count), expected);
        }
        for (seconds, expected) in [
            (90, "About a minute ago"),
            (3 * 3600, "3 hours ago"),
            (15 * 86_400, "2 weeks ago"),
            (400 * 86_400, "13 months ago"),
        ] {
            assert_eq!(
                age(SystemTime::now() - Duration::from_secs(seconds)),
                expected
            );
        }
    }
}
