//! What stands around tiles: as the processor of transformers writes it, and MiniCPM-V's own.

use super::*;

fn runs(count: usize) -> Vec<EmbeddedRun> {
    let run = |index: usize| EmbeddedRun {
        start: 0,
        len: index + 1,
        rows: vec![0.0; index + 1].into(),
        digest: [0; 32],
        mutual: false,
        grid: None,
    };
    (0..count).map(run).collect()
}

fn seen(rows: usize, columns: usize) -> Seen {
    Seen {
        tiles: Vec::new(),
        rows,
        columns,
    }
}

/// Runs as their lengths.
fn written(parts: &[MediaPart]) -> String {
    let part = |part: &MediaPart| match part {
        MediaPart::Text(text) => text.to_string(),
        MediaPart::Run(run) => run.len.to_string(),
    };
    parts.iter().map(part).collect()
}

#[test]
fn llama_4_separates_tiles_and_ends_with_the_whole() {
    let one = written(&llama4(&seen(1, 1), runs(1)));
    assert_eq!(one, "<|image_start|><|image|>1<|image_end|>");
    let tiled = written(&llama4(&seen(2, 2), runs(5)));
    let rows =
        "1<|tile_x_separator|>2<|tile_y_separator|>3<|tile_x_separator|>4<|tile_y_separator|>";
    let expected = format!("<|image_start|>{rows}<|image|>5<|image_end|>");
    assert_eq!(tiled, expected);
}

#[test]
fn minicpm_begins_with_the_whole() {
    let third = |rows, columns, count| written(&minicpmv(3, &seen(rows, columns), runs(count)));
    assert_eq!(third(1, 1, 1), "<image>1</image>\n");
    let slices = "<slice>1</slice><slice>2</slice>\n<slice>3</slice><slice>4</slice>\n";
    assert_eq!(third(2, 2, 5), format!("<image>5</image>{slices}"));
    let second = written(&minicpmv(2, &seen(2, 1), runs(3)));
    let expected = "<image>3</image><slice><image>1</image>\n<image>2</image></slice>\n";
    assert_eq!(second, expected);
}
