//! What families of towers differ in beside their weights: how they want to see images, and what stands around those in a
//! prompt.

use crate::projector::numbered;
use strata_chat::MediaPart;
use strata_engine::EmbeddedRun;
use strata_model::TowerConfig;
use strata_vision::{Filter, Fit, Recipe, Seen};

/// Tiles that InternVL cuts an image into at most.
const INTERNVL_TILES: usize = 12;

/// Tiles that Llama 4 does.
const LLAMA4_TILES: usize = 16;

/// Slices that MiniCPM-V does.
const MINICPMV_SLICES: usize = 9;

/// The token that a tokenizer has for a position of an image.
pub(super) fn placeholder(config: &TowerConfig) -> &'static str {
    match config.family {
        "gemma3" => "<image_soft_token>",
        "gemma4v" => "<|image|>",
        "internvl" => "<IMG_CONTEXT>",
        "llama4" => "<|patch|>",
        "pixtral" => "[IMG]",
        "qwen2vl_merger" | "qwen2.5vl_merger" | "qwen3vl_merger" => "<|image_pad|>",
        "resampler" => "<unk>",
        _ => "<image>",
    }
}

/// How a family wants to see images.
pub(super) fn recipe(config: &TowerConfig) -> Recipe {
    let side = config.patch_size * config.merge;
    let (least, most) = config.pixels;
    let fit = match config.family {
        "gemma3" => Fit::Stretch(Filter::Bilinear),
        "gemma4v" => Fit::Budget(config.positions()),
        "llama4" => Fit::Canvas(config.most_tiles.unwrap_or(LLAMA4_TILES)),
        "resampler" => Fit::Slices(config.most_tiles.unwrap_or(MINICPMV_SLICES)),
        "idefics3" => Fit::Tiled(config.longest.unwrap_or(4 * config.image_size)),
        "internvl" => Fit::Grid(config.most_tiles.unwrap_or(INTERNVL_TILES)),
        "pixtral" => Fit::Longest(config.image_size),
        "qwen2vl_merger" | "qwen2.5vl_merger" | "qwen3vl_merger" => Fit::Area {
            least: least.unwrap_or(4 * side * side),
            most: most.unwrap_or(1280 * side * side),
        },
        _ if !config.pinpoints.is_empty() => Fit::Pinpoints(config.pinpoints.clone()),
        _ => Fit::Pad,
    };
    Recipe {
        fit,
        size: config.image_size,
        square: side,
        mean: config.mean,
        deviation: config.deviation,
    }
}

/// What stands around a family's positions.
pub(super) fn around(config: &TowerConfig, seen: &Seen, runs: Vec<EmbeddedRun>) -> Vec<MediaPart> {
    let text = |text: &str| MediaPart::Text(text.into());
    let between = |before: &str, after: &str| {
        let runs = runs.iter().cloned().map(MediaPart::Run);
        let parts = [text(before)].into_iter().chain(runs);
        parts.chain([text(after)]).collect()
    };
    match config.family {
        "gemma3" => between("\n\n<start_of_image>", "<end_of_image>\n\n"),
        "gemma4v" => between("<|image>", "<image|>"),
        "llama4" => llama4(seen, runs),
        "resampler" => minicpmv(config.minicpmv, seen, runs),
        "internvl" => between("<img>", "</img>\n"),
        "qwen2vl_merger" | "qwen2.5vl_merger" | "qwen3vl_merger" => {
            between("<|vision_start|>", "<|vision_end|>")
        }
        "idefics3" => {
            const FAKE: &str = "<fake_token_around_image>";
            let mut parts = Vec::new();
            let tiles = runs.len() - 1;
            for (index, run) in runs.into_iter().enumerate() {
                let (row, column) = (index / seen.columns + 1, index % seen.columns + 1);
                parts.push(MediaPart::Text(if index < tiles {
                    format!("{FAKE}<row_{row}_col_{column}>")
                } else if tiles > 0 {
                    format!("\n{FAKE}<global-img>")
                } else {
                    format!("{FAKE}<global-img>")
                }));
                parts.push(MediaPart::Run(run));
                if index == tiles {
                    parts.push(text(FAKE));
                } else if column == seen.columns {
                    parts.push(text("\n"));
                }
            }
            parts
        }
        "pixtral" => {
            let side = config.patch_size * config.merge;
            let columns = seen.tiles[0].width / side;
            let rows = runs.iter().flat_map(|run| by_rows(run, columns));
            let rows: Vec<EmbeddedRun> = rows.collect();
            let last = rows.len() - 1;
            rows.into_iter()
                .enumerate()
                .flat_map(|(row, run)| {
                    let end = if row == last {
                        "[IMG_END]"
                    } else {
                        "[IMG_BREAK]"
                    };
                    [MediaPart::Run(run), text(end)]
                })
                .collect()
        }
        _ => between("", "\n"),
    }
}

/// A run's rows as runs of their own.
fn by_rows(run: &EmbeddedRun, columns: usize) -> impl Iterator<Item = EmbeddedRun> {
    let width = run.rows.len() / run.len * columns;
    run.rows
        .chunks_exact(width)
        .enumerate()
        .map(move |(row, rows)| EmbeddedRun {
            len: columns,
            rows: rows.into(),
            digest: numbered(run.digest, row),
            ..run.clone()
        })
}

/// Tiles with separators between them, and the whole image, which stands alone if there is one tile.
fn llama4(seen: &Seen, mut runs: Vec<EmbeddedRun>) -> Vec<MediaPart> {
    let text = |text: &str| MediaPart::Text(text.into());
    let whole = runs.pop();
    let mut parts = vec![text("<|image_start|>")];
    for (index, run) in runs.into_iter().enumerate() {
        parts.push(MediaPart::Run(run));
        let last = (index + 1).is_multiple_of(seen.columns);
        parts.push(text(if last {
            "<|tile_y_separator|>"
        } else {
            "<|tile_x_separator|>"
        }));
    }
    parts.push(text("<|image|>"));
    parts.extend(whole.map(MediaPart::Run));
    parts.push(text("<|image_end|>"));
    parts
}

/// The whole image, and its slices row by row.
fn minicpmv(release: usize, seen: &Seen, mut runs: Vec<EmbeddedRun>) -> Vec<MediaPart> {
    let text = |text: &str| MediaPart::Text(text.into());
    let mut parts = vec![text("<image>")];
    parts.extend(runs.pop().map(MediaPart::Run));
    parts.push(text("</image>"));
    // The second release has one mark around all slices, which are images themselves.
    let second = release == 2;
    let (begin, end) = if second {
        ("<image>", "</image>")
    } else {
        ("<slice>", "</slice>")
    };
    let slices = runs.len();
    if second && slices > 0 {
        parts.push(text("<slice>"));
    }
    for (index, run) in runs.into_iter().enumerate() {
        parts.extend([text(begin), MediaPart::Run(run), text(end)]);
        if (index + 1).is_multiple_of(seen.columns) && index + 1 < slices {
            parts.push(text("\n"));
        }
    }
    if second && slices > 0 {
        parts.push(text("</slice>"));
    }
    parts.push(text("\n"));
    parts
}

#[cfg(test)]
mod tests;
