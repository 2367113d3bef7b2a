//! A minute of audio through Whisper: the spectrogram, windows, and tokens.

use super::Arguments;
use super::media::{Stages, share, turn_by_turn};
use crate::failure::{Failure, Kind};
use crate::machine_limits::{self, median};
use std::io::Write;
use std::time::Instant;
use strata::load::{Machine, ModelFile};
use strata_host::{Effort, Usage};
use strata_model::{Compute, Whisper, WhisperConfig};
use strata_platform::{Pool, SystemMemory};
use strata_speech::{LogMel, RATE};

/// What is heard.
const SECONDS: usize = 60;
/// Tokens before the first one that is written, as a prompt has: start, language, task, no stamps.
const PROMPT: usize = 4;

/// What one round took.
struct Round {
    /// The spectrogram, the encoder with the decoder's keys and values for a window, and its first token.
    stages: Stages,
    /// Tokens a second, one by one.
    decode: f64,
}

/// Measures one round after the other.
pub(super) fn run(arguments: &Arguments, file: &ModelFile) -> Result<(), Failure> {
    let machine = arguments.compute.machine()?;
    let set = file.parse()?;
    let model = Whisper::load(&set, &SystemMemory, &*machine.pool)
        .map_err(|error| Failure::new(Kind::Failed, error))?;
    let config = model.config();
    let tokens = (arguments.tokens as usize).min(config.text_positions - PROMPT);
    let samples = sound();
    machine.settle();
    let round = || round(&model, &machine, &samples, tokens);
    if arguments.in_turns {
        turn_by_turn("audio", || {
            let Round { stages, decode } = round()?;
            let mut json = stages.json();
            json["window_s"] = (stages.get("encoder_s") + stages.get("first_s")).into();
            json["decode_tok_s"] = decode.into();
            Ok(json)
        })?;
        let json = serde_json::json!({
            "peak_rss_bytes": Usage::now().map_or(0, |usage| usage.peak_bytes),
            "isa": machine.kernels.isa().name(),
        });
        return writeln!(std::io::stdout().lock(), "{json}")
            .map_err(|error| Failure::stdout(&error));
    }
    let rounds: Vec<Round> = (0..arguments.repeat)
        .map(|_| round())
        .collect::<Result<_, _>>()?;
    let stages: Vec<Stages> = rounds.iter().map(|round| round.stages.clone()).collect();
    let stages = Stages::medians(&stages);
    let mut decode: Vec<f64> = rounds.iter().map(|round| round.decode).collect();
    let decode = median(&mut decode);
    let peak = arguments
        .float_peak
        .then(|| machine_limits::float_peak(&machine, Effort::Full));
    let operations = operations(config);
    let encoder = stages.get("encoder_s");
    let printed = if arguments.json {
        let mut json = stages.json();
        json["model"] = arguments.model.display().to_string().into();
        json["window_s"] = (encoder + stages.get("first_s")).into();
        json["decode_tok_s"] = decode.into();
        json["decode_tokens"] = tokens.into();
        json["encoder_operations"] = operations.into();
        json["isa"] = machine.kernels.isa().name().into();
        json["threads"] = machine.pool.workers().into();
        json["peak_rss_bytes"] = Usage::now().map_or(0, |usage| usage.peak_bytes).into();
        if let Some(peak) = peak {
            json["float_peak_ops_s"] = peak.into();
            json["float_share"] = share(operations, encoder, peak).into();
        }
        writeln!(std::io::stdout().lock(), "{json}")
    } else {
        let mut out = std::io::stdout().lock();
        let window = config.frames() / 100;
        let title = format!(
            "{SECONDS} s of audio: spectrogram of all, encoder and first token of a window of {window} s"
        );
        stages.print(&mut out, &title).and_then(|()| {
            writeln!(out, "decode {tokens} tokens  {decode:.2} tok/s")?;
            write!(out, "encoder {:.3} Tflop/s", operations / encoder / 1e12)?;
            if let Some(peak) = peak {
                let share = 100.0 * share(operations, encoder, peak);
                write!(out, ", {share:.0}% of the float peak {:.3}", peak / 1e12)?;
            }
            let isa = machine.kernels.isa();
            writeln!(out, "; isa {isa}, threads {}", machine.pool.workers())
        })
    };
    printed.map_err(|error| Failure::stdout(&error))
}

fn round(
    model: &Whisper,
    machine: &Machine,
    samples: &[f32],
    tokens: usize,
) -> Result<Round, Failure> {
    let failed = |error| Failure::new(Kind::Failed, error);
    let config = model.config();
    let compute = Compute {
        kernels: machine.kernels,
        pool: &*machine.pool,
    };
    let start = Instant::now();
    let mel = LogMel::new(config.bands).spectrogram(samples, samples.len());
    let mel_s = start.elapsed().as_secs_f64();
    // Windows that the minute has.
    let windows = mel.frames().div_ceil(config.frames()).max(1);
    let (mut encoder_s, mut first_s) = (0.0, 0.0);
    let mut last = None;
    for window in 0..windows {
        let window = mel.window(window * config.frames(), config.frames());
        let start = Instant::now();
        let heard = model.hear(&compute, &window).map_err(failed)?;
        encoder_s += start.elapsed().as_secs_f64() / windows as f64;
        let start = Instant::now();
        let mut state = model.state();
        let prompt: Vec<u32> = (0..PROMPT as u32).collect();
        let logits = model.write(&compute, (&heard, &mut state), &prompt, 1, None);
        let token = machine.kernels.argmax(&logits.map_err(failed)?);
        first_s += start.elapsed().as_secs_f64() / windows as f64;
        last = Some((heard, state, token as u32));
    }
    let Some((heard, mut state, mut token)) = last else {
        return Err(Failure::new(Kind::Failed, "there are no windows"));
    };
    let start = Instant::now();
    for _ in 0..tokens {
        let logits = model.write(&compute, (&heard, &mut state), &[token], 1, None);
        token = machine.kernels.argmax(&logits.map_err(failed)?) as u32;
    }
    Ok(Round {
        stages: Stages(vec![
            ("mel_s", mel_s),
            ("encoder_s", encoder_s),
            ("first_s", first_s),
        ]),
        decode: tokens as f64 / start.elapsed().as_secs_f64(),
    })
}

/// What the encoder and the decoder's keys and values compute for a window; a multiplication and an addition are two.
fn operations(config: &WhisperConfig) -> f64 {
    let (width, positions) = (config.width as f64, config.audio_positions as f64);
    let layer = 4.0 * width * width + 2.0 * width * config.encoder_ffn as f64;
    let attention = 4.0 * positions * positions * width;
    let convolutions = 2.0 * 3.0 * config.bands as f64 * width + 3.0 * width * width;
    let kept = config.decoder_layers as f64 * 2.0 * width * width;
    config.encoder_layers as f64 * (2.0 * positions * layer + attention)
        + 2.0 * positions * (convolutions + kept)
}

/// A tone and noise.
fn sound() -> Vec<f32> {
    let mut state = 1u32;
    let samples = (0..SECONDS * RATE).map(|index| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = (state >> 8) as f32 / (1 << 24) as f32 - 0.5;
        let angle = index as f32 * (core::f32::consts::TAU * 220.0 / RATE as f32);
        0.3 * angle.sin() + 0.1 * noise
    });
    samples.collect()
}
