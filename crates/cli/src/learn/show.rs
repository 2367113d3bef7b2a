//! The stage of a demonstration: lines that come one after the other on a terminal, and at once everywhere else.

use crate::failure::Failure;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// The fewest columns that demonstrations are made for, and those where nobody says.
const NARROWEST: usize = 40;
const USUAL: usize = 80;

/// How long a line stands before the next.
const LINE: Duration = Duration::from_millis(60);

/// How long a picture stands before it changes.
const FRAME: Duration = Duration::from_millis(350);

/// Where a demonstration is shown.
pub(super) struct Show {
    out: io::StdoutLock<'static>,
    /// Whether it moves.
    moves: bool,
    columns: usize,
    /// Lines of the picture that stands, to be drawn over.
    standing: usize,
}

impl Show {
    /// Standard output. It stands still where that is no terminal, or where `still` says so.
    pub(super) fn new(still: bool) -> Self {
        let told = std::env::var("COLUMNS").ok();
        let told = told.and_then(|columns| columns.parse().ok());
        let size = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            out: io::stdout().lock(),
            moves: io::stdout().is_terminal() && !dumb && !still,
            columns: told.or_else(size).unwrap_or(USUAL).max(NARROWEST),
            standing: 0,
        }
    }

    /// How wide a line can be.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// A line, cut where the screen ends.
    pub(super) fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        self.settle();
        self.write(&[text.as_ref().into()])?;
        self.wait(LINE);
        Ok(())
    }

    /// Words, broken into lines between them.
    pub(super) fn say(&mut self, text: &str) -> Result<(), Failure> {
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > self.columns {
                self.line(&line)?;
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(&line)
    }

    /// A picture that takes the place of the one before it. Where nothing moves only the last one is shown, so `last` says
    /// which that is.
    pub(super) fn frame(&mut self, lines: &[String], last: bool) -> Result<(), Failure> {
        if !self.moves {
            return if last { self.write(lines) } else { Ok(()) };
        }
        if self.standing > 0 {
            // Up, and clear to the end of the screen.
            let up = format!("\x1b[{}A\x1b[J", self.standing);
            self.raw(&up)?;
        }
        self.write(lines)?;
        self.standing = if last { 0 } else { lines.len() };
        self.wait(FRAME);
        Ok(())
    }

    /// What stands is not drawn over any more.
    fn settle(&mut self) {
        self.standing = 0;
    }

    fn write(&mut self, lines: &[String]) -> Result<(), Failure> {
        for line in lines {
            let line = clip(line, self.columns);
            self.raw(&format!("{}\n", line.trim_end()))?;
        }
        Ok(())
    }

    fn raw(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.out.write_all(text.as_bytes());
        written
            .and_then(|()| self.out.flush())
            .map_err(|error| Failure::stdout(&error))
    }

    fn wait(&self, time: Duration) {
        if self.moves {
            std::thread::sleep(time);
        }
    }
}

/// A text of so many characters at most.
pub(super) fn clip(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// A token's text in which spaces and ends of lines can be seen.
pub(super) fn visible(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.replace(' ', "·").replace('\n', "↵").replace('\t', "→")
}

/// A bar of eighths of a character: `part` of so many characters.
pub(super) fn bar(part: f64, characters: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (part.clamp(0.0, 1.0) * characters as f64 * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
    }
    let filled = bar.chars().count();
    bar.extend(std::iter::repeat_n(' ', characters.saturating_sub(filled)));
    bar
}

/// A shade for a share from 0 to 1.
pub(super) fn shade(share: f32) -> char {
    const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
    let steps = [0.02, 0.1, 0.3, 0.6];
    SHADES[steps.iter().filter(|&&step| share >= step).count()]
}

/// A curve of one line: each value as a bar of an eighth to eight eighths of a character's height, `most` the highest.
pub(super) fn curve(values: impl Iterator<Item = f32>, most: f32) -> String {
    const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    values
        .map(|value| {
            let part = (value.abs() / most.max(f32::MIN_POSITIVE)).clamp(0.0, 1.0);
            HEIGHTS[(part * 8.0).round() as usize]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawings_are_as_wide_as_they_should_be() {
        for (part, shown) in [(0.0, "    "), (0.5, "██  "), (1.0, "████"), (0.53, "██▏ ")]
        {
            assert_eq!(bar(part, 4), shown);
        }
        assert_eq!(bar(7.0, 2), "██");
        assert_eq!(curve([0.0, -1.0, 2.0].into_iter(), 2.0), " ▄█");
        assert_eq!(clip("abcdef", 4), "abc…");
        assert_eq!(visible(b" a\n"), "·a↵");
        assert_eq!(shade(0.01), ' ');
        assert_eq!(shade(0.99), '█');
    }
}
