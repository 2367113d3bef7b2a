//! Charts as SVG, which follows the reader's light or dark colours.

use super::{Chart, Tone};
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const LABEL: f64 = 170.0;
const WORDS: f64 = 110.0;
const MARGIN: f64 = 24.0;
/// From one bar to the next, and the height of one.
const STEP: f64 = 28.0;
const THICK: f64 = 16.0;

const STYLE: &str = "\
text{font:14px system-ui,sans-serif;fill:#1d2423}\
.title{font-weight:600}.value{text-anchor:end;font-variant-numeric:tabular-nums}\
.back{fill:#fff}.track{fill:#eeece5}.bar{fill:#14655a}.faint{fill:#b9c4c1}\
.mark{stroke:#b3541e;stroke-width:2}.name{fill:#b3541e}\
@media (prefers-color-scheme:dark){text{fill:#e3e8e6}.back{fill:#14181a}.track{fill:#262e31}\
.bar{fill:#6fd0b3}.faint{fill:#46524f}.mark{stroke:#f0a36b}.name{fill:#f0a36b}}";

/// An image of its own.
pub(super) fn image(title: &str, charts: &[Chart]) -> String {
    let mut body = String::new();
    let mut y = MARGIN;
    for chart in charts {
        y = draw(chart, y, &mut body);
    }
    let (height, title) = (y.ceil(), escaped(title));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n{body}</svg>\n"
    )
}

/// A page with the image in it.
pub(super) fn page(title: &str, charts: &[Chart]) -> String {
    let (name, image) = (escaped(title), image(title, charts));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{name}</title>\n\
         <style>:root{{color-scheme:light dark}}body{{font-family:system-ui,sans-serif;max-width:{WIDTH}px;margin:2rem auto;padding:0 1rem}}\
         svg{{max-width:100%;height:auto}}</style>\n<h1>{name}</h1>\n{image}</html>\n"
    )
}

/// Draws a chart from `y` on, and says where the next begins.
fn draw(chart: &Chart, mut y: f64, out: &mut String) -> f64 {
    let room = WIDTH - 2.0 * MARGIN - LABEL - WORDS;
    let left = MARGIN + LABEL;
    let length = |value: f64| chart.share(value) * room;
    let title = escaped(&chart.title);
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"{MARGIN}\" y=\"{}\">{title}</text>",
        y + 12.0
    );
    y += STEP;
    let first = y;
    for bar in &chart.bars {
        let (label, words) = (escaped(&bar.label), escaped(&bar.words));
        let class = match bar.tone {
            Tone::Solid => "bar",
            Tone::Faint => "faint",
        };
        let baseline = y + THICK - 3.0;
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{baseline}\">{label}</text>\
             <rect class=\"track\" x=\"{left}\" y=\"{y}\" width=\"{room}\" height=\"{THICK}\" rx=\"3\"/>\
             <rect class=\"{class}\" x=\"{left}\" y=\"{y}\" width=\"{:.2}\" height=\"{THICK}\" rx=\"3\"/>\
             <text class=\"value\" x=\"{}\" y=\"{baseline}\">{words}</text>",
            length(bar.value),
            WIDTH - MARGIN
        );
        y += STEP;
    }
    if let Some((value, name)) = &chart.mark {
        let x = left + length(*value);
        let (end, name) = (y - STEP + THICK + 4.0, escaped(name));
        let anchor = if x > WIDTH / 2.0 { "end" } else { "start" };
        let _ = writeln!(
            out,
            "<line class=\"mark\" x1=\"{x:.2}\" x2=\"{x:.2}\" y1=\"{}\" y2=\"{end}\"/>\
             <text class=\"name\" x=\"{x:.2}\" y=\"{}\" text-anchor=\"{anchor}\">{name}</text>",
            first - 4.0,
            end + 16.0
        );
        y += 12.0;
    }
    y + MARGIN
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // Characters that XML has no place for.
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::Bar;
    use super::*;

    #[test]
    fn an_image_is_well_formed_whatever_it_is_about() {
        let bar = |label: &str, value| Bar {
            label: label.into(),
            value,
            words: "1 & 2".into(),
            tone: Tone::Faint,
        };
        let chart = Chart {
            title: "<script>\u{1}\"</title>".into(),
            bars: vec![bar("a", 1.0), bar("b", f64::NAN), bar("c", f64::INFINITY)],
            mark: Some((0.5, "'limit' <".into())),
        };
        for text in [
            image("<&>", &[chart.clone(), Chart::default()]),
            page("<&>", &[chart]),
        ] {
            assert!(
                !text.contains("<script") && !text.contains('\u{1}'),
                "{text}"
            );
            assert!(text.contains("<title>&lt;&amp;&gt;</title>") && text.contains("1 &amp; 2"));
            for odd in ["NaN\"", "inf\""] {
                assert!(!text.contains(odd), "{text}");
            }
            for tag in ["svg", "text", "title", "style"] {
                let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
                assert_eq!(
                    text.matches(&open).count(),
                    text.matches(&close).count(),
                    "{tag}"
                );
            }
        }
    }
}
