//! Bar charts of what a command found: under its words in a terminal, and in a file as SVG or as a page.

mod svg;

use crate::failure::Failure;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// Where charts go.
#[derive(clap::Args)]
pub(crate) struct ChartArguments {
    /// Write a chart as an SVG image
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a chart as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Values of one kind, drawn to the same scale.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
    /// A value that the bars are held against, and its name.
    pub(crate) mark: Option<(f64, String)>,
}

/// One value.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// The value in words.
    pub(crate) words: String,
    pub(crate) tone: Tone,
}

/// How a bar is drawn.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Solid,
    /// What does not count: a model that does not fit.
    Faint,
}

impl ChartArguments {
    /// Writes the files that were asked for.
    pub(crate) fn write(&self, title: &str, charts: &[Chart]) -> Result<(), Failure> {
        let image = |path: &PathBuf, text: String| {
            std::fs::write(path, text).map_err(|error| Failure::io(path.display(), &error))
        };
        if let Some(path) = &self.svg {
            image(path, svg::image(title, charts))?;
        }
        if let Some(path) = &self.html {
            image(path, svg::page(title, charts))?;
        }
        Ok(())
    }
}

/// Draws charts where a person looks; programs that read the words get no bars.
pub(crate) fn print(out: &mut impl Write, charts: &[Chart]) -> std::io::Result<()> {
    if !std::io::stdout().is_terminal() {
        return Ok(());
    }
    let size = terminal_size::terminal_size();
    let width = size.map_or(80, |(width, _)| usize::from(width.0));
    for chart in charts {
        writeln!(out, "\n{}", chart.title)?;
        for line in chart.lines(width) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

impl Chart {
    /// What the longest bar stands for.
    fn top(&self) -> f64 {
        let mark = self.mark.as_ref().map_or(0.0, |(value, _)| *value);
        let values = self.bars.iter().map(|bar| bar.value);
        let top = values
            .filter(|value| value.is_finite())
            .fold(mark, f64::max);
        if top > 0.0 { top } else { 1.0 }
    }

    /// A value as a share of the longest bar.
    fn share(&self, value: f64) -> f64 {
        let share = value / self.top();
        if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        }
    }

    /// The chart as lines of a terminal that is so many columns wide.
    fn lines(&self, width: usize) -> Vec<String> {
        let longest = |texts: &mut dyn Iterator<Item = &String>| {
            texts.map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let label = longest(&mut self.bars.iter().map(|bar| &bar.label));
        let words = longest(&mut self.bars.iter().map(|bar| &bar.words));
        // Between and after the columns are spaces; the last column of a terminal stays empty.
        let room = width.saturating_sub(label + words + 4).clamp(4, 60);
        let column = |value: f64| ((self.share(value) * room as f64) as usize).min(room - 1);
        let mark = self.mark.as_ref().map(|(value, _)| column(*value));
        let mut lines: Vec<String> = self
            .bars
            .iter()
            .map(|bar| {
                let drawn = blocks(self.share(bar.value), bar.tone, room, mark);
                format!("{:<label$} {drawn} {:>words$}", bar.label, bar.words)
            })
            .collect();
        if let (Some((_, name)), Some(at)) = (&self.mark, mark) {
            let before = label + 1 + at;
            // The name stands on the side where it fits.
            let line = if before + 2 + name.chars().count() < width {
                format!("{:before$}╵ {name}", "")
            } else {
                format!("{:>1$}╵", format!("{name} "), before)
            };
            lines.push(line);
        }
        lines
    }
}

/// A bar in eighths of a column, with the mark where it does not reach.
fn blocks(share: f64, tone: Tone, room: usize, mark: Option<usize>) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share * room as f64 * 8.0).round() as usize;
    // What is not nothing is to be seen.
    let eighths = eighths.max(usize::from(share > 0.0));
    (0..room)
        .map(|at| match eighths.saturating_sub(at * 8) {
            0 if mark == Some(at) => '│',
            left if tone == Tone::Faint && left > 0 => '░',
            left if left >= 8 => '█',
            left => EIGHTHS[left],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: f64) -> Bar {
        Bar {
            label: label.into(),
            value,
            words: format!("{value}"),
            tone: Tone::Solid,
        }
    }

    fn chart(values: &[(&str, f64)]) -> Chart {
        Chart {
            title: "t".into(),
            bars: values
                .iter()
                .map(|&(label, value)| bar(label, value))
                .collect(),
            mark: None,
        }
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let mut chart = chart(&[("a", 4.0), ("bb", 2.0), ("c", 0.1), ("d", 0.0)]);
        let lines = chart.lines(18);
        assert_eq!(
            lines,
            [
                "a  █████████   4",
                "bb ████▌       2",
                "c  ▎         0.1",
                "d              0",
            ]
        );
        chart.mark = Some((3.0, "limit".into()));
        chart.bars[0].tone = Tone::Faint;
        let lines = chart.lines(18);
        assert_eq!(lines[0], "a  ░░░░░░░░░   4");
        assert_eq!(lines[1], "bb ████▌ │     2");
        assert_eq!(lines[4], "         ╵ limit");
    }

    #[test]
    fn lines_fit_any_terminal_and_odd_values_break_nothing() {
        let mut odd = chart(&[
            ("nan", f64::NAN),
            ("inf", f64::INFINITY),
            ("neg", -1.0),
            ("x", 1.0),
        ]);
        odd.mark = Some((1.0, "here".into()));
        for width in [20, 40, 80, 500] {
            for line in odd.lines(width) {
                assert!(line.chars().count() < width, "{width} {line:?}");
            }
        }
        assert_eq!(chart(&[]).lines(80), [""; 0]);
        odd.lines(0);
    }
}
