//! An image, from its file to the logits behind its positions: what each stage takes.

use super::Arguments;
use super::media::{Stages, share, turn_by_turn};
use crate::failure::{Failure, Kind};
use crate::machine_limits;
use crate::scorer::{self, Scorer};
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;
use strata::load::{CheckedModel, ModelFile, TokenizerUse};
use strata::{Eyes, Glance};
use strata_host::{Effort, Usage};
use strata_model::{EmbeddedRun, TowerConfig};
use strata_platform::Pool;

/// Pixels on a side of the image that is made where no file is named.
const SIDE: usize = 1024;
/// Positions that an image may take.
const POSITIONS: usize = 4096;

/// Measures one image after the other.
pub(super) fn run(arguments: &Arguments, file: &ModelFile) -> Result<(), Failure> {
    let picture = match &arguments.image {
        Some(Some(path)) => std::fs::read(path).map_err(|e| Failure::io(path.display(), &e))?,
        _ => photograph(),
    };
    let machine = Arc::new(arguments.compute.machine()?);
    let positions = POSITIONS.max(arguments.prompt as usize);
    let checked = CheckedModel::new(file, Some(positions), TokenizerUse::Optional)?;
    let needs = scorer::needs(positions, &arguments.compute, &machine);
    let (loaded, kv) = arguments.compute.load(checked, needs, &machine)?;
    let projector = arguments.mmproj.as_deref();
    let eyes = Eyes::open(file, projector, loaded.model.config(), &machine)?;
    let eyes = eyes.ok_or_else(|| {
        let sentence = format_args!("{} has no projector", arguments.model.display());
        Failure::new(Kind::Usage, sentence).hint("name one with --mmproj")
    })?;
    machine.settle();
    let mut scorer = Scorer::new(&loaded, kv, &needs, &machine);
    let mut see = || -> Result<(Stages, Glance), Failure> {
        let glance = eyes.look(&picture)?;
        scorer.restart();
        let start = Instant::now();
        for run in &glance.runs {
            scorer.feed_embedded(run)?;
        }
        let seconds = |time: std::time::Duration| time.as_secs_f64();
        let stages = Stages(vec![
            ("decode_s", seconds(glance.decode)),
            ("fit_s", seconds(glance.fit)),
            ("tower_s", seconds(glance.tower)),
            ("projector_s", seconds(glance.projector)),
            ("prefill_s", seconds(start.elapsed())),
        ]);
        Ok((stages, glance))
    };
    if arguments.in_turns {
        turn_by_turn("image", || {
            let (stages, glance) = see()?;
            let mut json = stages.json();
            json["total_s"] = stages.sum().into();
            json["positions"] = positions_of(&glance.runs).into();
            Ok(json)
        })?;
        let json = serde_json::json!({
            "peak_rss_bytes": Usage::now().map_or(0, |usage| usage.peak_bytes),
            "isa": machine.kernels.isa().name(),
        });
        return writeln!(std::io::stdout().lock(), "{json}")
            .map_err(|error| Failure::stdout(&error));
    }
    let mut all = Vec::new();
    let mut last = None;
    for _ in 0..arguments.repeat {
        let (stages, glance) = see()?;
        all.push(stages);
        last = Some(glance);
    }
    let peak = arguments
        .float_peak
        .then(|| machine_limits::float_peak(&machine, Effort::Full));
    let (Some(glance), stages) = (last, Stages::medians(&all)) else {
        return Ok(());
    };
    let operations = operations(eyes.config(), &glance.patches);
    let (width, height) = glance.size;
    let printed = if arguments.json {
        let mut json = stages.json();
        json["model"] = arguments.model.display().to_string().into();
        json["total_s"] = stages.sum().into();
        json["image"] = serde_json::json!([width, height]);
        json["patches"] = glance.patches.iter().sum::<usize>().into();
        json["positions"] = positions_of(&glance.runs).into();
        json["tower_operations"] = operations.into();
        json["isa"] = machine.kernels.isa().name().into();
        json["threads"] = machine.pool.workers().into();
        json["peak_rss_bytes"] = Usage::now().map_or(0, |usage| usage.peak_bytes).into();
        if let Some(peak) = peak {
            json["float_peak_ops_s"] = peak.into();
            json["float_share"] = share(operations, stages.get("tower_s"), peak).into();
        }
        writeln!(std::io::stdout().lock(), "{json}")
    } else {
        let mut out = std::io::stdout().lock();
        let title = format!(
            "image of {width}×{height}: {} patches, {} positions",
            glance.patches.iter().sum::<usize>(),
            positions_of(&glance.runs),
        );
        let rest = format!(
            "isa {}, threads {}",
            machine.kernels.isa(),
            machine.pool.workers()
        );
        stages.print(&mut out, &title).and_then(|()| {
            let speed = operations / stages.get("tower_s");
            write!(out, "tower {:.3} Tflop/s", speed / 1e12)?;
            if let Some(peak) = peak {
                let share = 100.0 * share(operations, stages.get("tower_s"), peak);
                write!(out, ", {share:.0}% of the float peak {:.3}", peak / 1e12)?;
            }
            writeln!(out, "; {rest}")
        })
    };
    printed.map_err(|error| Failure::stdout(&error))
}

fn positions_of(runs: &[EmbeddedRun]) -> usize {
    runs.iter().map(|run| run.len).sum()
}

/// What a tower's layers compute of tiles of so many patches; a multiplication and an addition are two.
fn operations(config: &TowerConfig, patches: &[usize]) -> f64 {
    let (width, ffn) = (config.width as f64, config.ffn as f64);
    let layer = |patches: f64| {
        let matrices = 4.0 * width * width + 2.0 * width * ffn;
        // Scores, and values that they weigh. Windows are less.
        2.0 * patches * matrices + 4.0 * patches * patches * width
    };
    let tiles = patches.iter().map(|&patches| layer(patches as f64));
    config.layers as f64 * tiles.sum::<f64>()
}

/// An image like a photograph: slopes, edges, and a little noise. A PNG file.
fn photograph() -> Vec<u8> {
    let mut state = 1u32;
    let mut pixels = Vec::with_capacity(SIDE * SIDE * 3);
    for y in 0..SIDE {
        for x in 0..SIDE {
            for channel in 0..3 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let noise = state >> 29;
                let edge = if (x / 128 + y / 96) % 2 == 0 { 40 } else { 0 };
                let slope = (x * (channel + 1) + y * (3 - channel)) / 32;
                pixels.push((slope as u32 + edge + noise) as u8);
            }
        }
    }
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, SIDE as u32, SIDE as u32);
    encoder.set_color(png::ColorType::Rgb);
    let written = encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(&pixels));
    written.expect("an image in memory can be written");
    file
}
