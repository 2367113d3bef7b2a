//! Pictures as SVG text: rows of boxes, bars, curves and shaded tables. They take the page's colour and width.

use std::fmt::Write;

const WIDTH: f64 = 480.0;
const ROW: f64 = 34.0;
const LABEL: f64 = 122.0;

/// A box: its text and how wide it is beside the others of its row.
pub(crate) type Cell = (String, f64);

/// Makes an SVG of a height out of its shapes.
fn document(title: &str, height: f64, shapes: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\" \
         style=\"width:100%;max-width:{WIDTH}px;height:auto\" fill=\"currentColor\" \
         font-family=\"sans-serif\" font-size=\"14\">\n<title>{title}</title>\n{shapes}</svg>\n"
    )
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

fn rect(out: &mut String, [x, y, width, height]: [f64; 4], opacity: f64) {
    _ = writeln!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" stroke=\"currentColor\" \
         fill-opacity=\"{opacity:.2}\"/>"
    );
}

/// Rows of boxes side by side, each row with a label; boxes of a row fill its width.
pub(crate) fn rows(title: &str, rows: &[(&str, Vec<Cell>)]) -> String {
    let mut out = String::new();
    for (i, (label, cells)) in rows.iter().enumerate() {
        let y = i as f64 * ROW + 4.0;
        text(&mut out, LABEL - 8.0, y + 18.0, "end", label);
        let total: f64 = cells.iter().map(|cell| cell.1).sum();
        let mut x = LABEL;
        for (j, (name, share)) in cells.iter().enumerate() {
            let width = share / total * (WIDTH - LABEL - 4.0);
            rect(
                &mut out,
                [x, y, width, ROW - 8.0],
                if j % 2 == 0 { 0.08 } else { 0.18 },
            );
            text(&mut out, x + width / 2.0, y + 18.0, "middle", name);
            x += width;
        }
    }
    document(title, rows.len() as f64 * ROW + 4.0, &out)
}

/// A bar for each number, with the number beside it.
pub(crate) fn bars(title: &str, bars: &[(String, f64)]) -> String {
    let most = bars
        .iter()
        .map(|bar| bar.1)
        .fold(f64::MIN_POSITIVE, f64::max);
    let mut out = String::new();
    for (i, (label, value)) in bars.iter().enumerate() {
        let y = i as f64 * ROW + 4.0;
        text(&mut out, LABEL - 8.0, y + 18.0, "end", label);
        let width = value / most * (WIDTH - LABEL - 70.0);
        rect(&mut out, [LABEL, y, width, ROW - 8.0], 0.18);
        let number = if *value >= 100.0 {
            format!("{value:.0}")
        } else {
            format!("{value:.3}")
        };
        text(&mut out, LABEL + width + 6.0, y + 18.0, "start", &number);
    }
    document(title, bars.len() as f64 * ROW + 4.0, &out)
}

/// A table of shares of 1, darker where they are larger.
pub(crate) fn shades(title: &str, columns: &[String], table: &[(String, Vec<f32>)]) -> String {
    let width = (WIDTH - LABEL - 4.0) / columns.len().max(1) as f64;
    let mut out = String::new();
    for (j, column) in columns.iter().enumerate() {
        text(
            &mut out,
            LABEL + (j as f64 + 0.5) * width,
            18.0,
            "middle",
            column,
        );
    }
    for (i, (label, shares)) in table.iter().enumerate() {
        let y = (i as f64 + 1.0) * ROW;
        text(&mut out, LABEL - 8.0, y + 18.0, "end", label);
        for (j, share) in shares.iter().enumerate() {
            let x = LABEL + j as f64 * width;
            rect(&mut out, [x, y, width, ROW - 4.0], f64::from(*share) * 0.35);
            let number = format!("{share:.2}");
            text(&mut out, x + width / 2.0, y + 18.0, "middle", &number);
        }
    }
    document(title, (table.len() as f64 + 1.0) * ROW + 4.0, &out)
}

/// A curve and its name.
pub(crate) type Curve = (&'static str, fn(f64) -> f64);

/// Curves over a range, named at their right ends.
pub(crate) fn curves(title: &str, [from, to]: [f64; 2], curves: &[Curve]) -> String {
    const STEPS: usize = 80;
    const HEIGHT: f64 = 240.0;
    let x_of = |step: usize| from + (to - from) * step as f64 / STEPS as f64;
    let all = || {
        curves
            .iter()
            .flat_map(|(_, f)| (0..=STEPS).map(move |step| f(x_of(step))))
    };
    let (low, high) = (all().fold(0.0, f64::min), all().fold(0.0, f64::max));
    let y_of = |y: f64| 8.0 + (high - y) / (high - low) * (HEIGHT - 16.0);
    let place = |step: usize| 8.0 + (WIDTH - 90.0) * step as f64 / STEPS as f64;
    let mut out = String::new();
    _ = writeln!(
        out,
        "<path d=\"M8 {0:.1}H{1:.1}\" stroke=\"currentColor\" stroke-opacity=\"0.4\"/>",
        y_of(0.0),
        WIDTH - 82.0
    );
    for (i, (name, f)) in curves.iter().enumerate() {
        let points: Vec<String> = (0..=STEPS)
            .map(|step| format!("{:.1},{:.1}", place(step), y_of(f(x_of(step)))))
            .collect();
        let dashes = ["none", "6 3", "2 3"][i % 3];
        _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\" \
             stroke-dasharray=\"{dashes}\"/>",
            points.join(" ")
        );
        let y = y_of(f(to)) + 4.0 + 14.0 * i as f64;
        text(&mut out, WIDTH - 78.0, y, "start", name);
    }
    document(title, HEIGHT, &out)
}
