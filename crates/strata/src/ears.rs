//! A model's ears: the audio tower beside it, and what stands in a prompt for audio.

use crate::error::Error;
use crate::load::{Machine, sha256};
use crate::projector::{ProjectorFile, numbered};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use strata_chat::{Audio, Ears, Fault, MediaPart};
use strata_engine::EmbeddedRun;
use strata_model::{AudioTower, AudioTowerConfig, Compute, Config};
use strata_platform::{Sha256, SystemMemory};
use strata_speech::{HOP, Limits, LogMel, RATE};

/// Bytes of embeddings that are kept for audio that comes again, as that of a conversation does with every turn.
const KEPT: usize = 256 << 20;

/// An audio tower and what it has heard last.
pub(crate) struct TowerEars {
    tower: AudioTower,
    mel: LogMel,
    limits: Limits,
    machine: Arc<Machine>,
    /// Of the projector's file.
    digest: [u8; 32],
    /// By the digest of the audio file; what was of use last is last.
    heard: Mutex<Vec<([u8; 32], Vec<EmbeddedRun>)>>,
}

impl fmt::Debug for TowerEars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = &self.tower.config().family;
        f.debug_tuple("TowerEars").field(family).finish()
    }
}

impl TowerEars {
    /// Loads the audio tower of a projector's file for a model, of which prompts have so many positions at most.
    pub(crate) fn load(
        file: &ProjectorFile,
        (config, context): (&Config, usize),
        machine: &Arc<Machine>,
        digested: bool,
    ) -> Result<Self, Error> {
        let set = file.parse()?;
        let tower = AudioTower::load(&set, &SystemMemory, &*machine.pool)
            .map_err(|error| file.fault(format_args!("cannot be used: {error}")))?;
        let own = tower.config();
        if config.embedded_row() != own.text_width {
            return Err(file.fault(format_args!(
                "makes embeddings of {} numbers, and the model's have {}",
                own.text_width,
                config.embedded_row()
            )));
        }
        Ok(Self {
            mel: LogMel::new(own.bands),
            limits: limits(own, context),
            machine: Arc::clone(machine),
            digest: if digested { sha256(&set) } else { [0; 32] },
            heard: Mutex::default(),
            tower,
        })
    }

    /// Its sizes.
    pub(crate) fn config(&self) -> &AudioTowerConfig {
        self.tower.config()
    }

    /// Bytes of its matrices.
    pub(crate) fn bytes(&self) -> usize {
        self.tower.packed_bytes()
    }

    fn known(&self, key: &[u8; 32]) -> Option<Vec<EmbeddedRun>> {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let at = heard.iter().position(|(known, _)| known == key)?;
        let entry = heard.remove(at);
        let runs = entry.1.clone();
        heard.push(entry);
        Some(runs)
    }

    fn keep(&self, key: [u8; 32], runs: &[EmbeddedRun]) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push((key, runs.to_vec()));
        let bytes = |(_, runs): &([u8; 32], Vec<EmbeddedRun>)| -> usize {
            let floats = runs.iter().map(|run| run.rows.len());
            floats.sum::<usize>() * size_of::<f32>()
        };
        let mut all: usize = heard.iter().map(bytes).sum();
        while all > KEPT && heard.len() > 1 {
            all -= bytes(&heard.remove(0));
        }
    }

    /// The positions of samples: a run for each window, embedded in a turn of its own.
    fn runs(&self, samples: &[f32]) -> Result<Vec<EmbeddedRun>, Fault> {
        let mut sum = Sha256::new();
        sum.update(self.digest);
        for sample in samples {
            sum.update(sample.to_le_bytes());
        }
        let digest = sum.finalize();
        let config = self.config();
        let (frames, window) = (samples.len().div_ceil(HOP), config.frames());
        let windows = frames.div_ceil(window);
        let mel = self.mel.spectrogram(samples, windows * window * HOP);
        let mut runs = Vec::with_capacity(windows);
        for index in 0..windows {
            let first = index * window;
            let sound = window.min(frames - first);
            let values = mel.window(first, window);
            let compute = Compute {
                kernels: self.machine.kernels,
                pool: &*self.machine.pool,
            };
            let turns = self.machine.turns();
            let rows = turns.take(|| self.tower.hear(&compute, &values, sound));
            let rows = rows.map_err(|error| Fault::bad_request(&error))?;
            if rows.is_empty() {
                continue;
            }
            runs.push(EmbeddedRun {
                start: 0,
                len: rows.len() / config.text_width,
                rows: rows.into(),
                digest: numbered(digest, index),
                mutual: false,
                grid: None,
            });
        }
        if runs.is_empty() {
            let milliseconds = samples.len() * 1000 / RATE;
            return Err(Fault::bad_request(format_args!(
                "the audio is {milliseconds} ms long, too short for the model to hear"
            )));
        }
        Ok(runs)
    }
}

impl Ears for TowerEars {
    fn hear(&self, audio: &Audio, number: usize) -> Result<Vec<MediaPart>, Fault> {
        let key = Sha256::digest(&audio.bytes);
        let runs = match self.known(&key) {
            Some(runs) => runs,
            None => {
                let samples = strata_speech::decode(&audio.bytes, self.limits);
                let samples = samples.map_err(|error| Fault::bad_request(&error))?;
                let runs = self.runs(&samples)?;
                self.keep(key, &runs);
                runs
            }
        };
        Ok(around(self.config().family, number, runs))
    }

    fn placeholder(&self) -> &str {
        match self.config().family {
            "qwen2a" => "<|AUDIO|>",
            "voxtral" => "[AUDIO]",
            _ => "<|audio|>",
        }
    }
}

/// No more sound than a context has positions for.
fn limits(config: &AudioTowerConfig, context: usize) -> Limits {
    let window = config.frames();
    let windows = context / config.text_positions(window).max(1) + 1;
    let seconds = windows.saturating_mul(window).saturating_mul(HOP) / RATE;
    let whole = Limits::default();
    Limits {
        seconds: (seconds + 1).min(whole.seconds),
        ..whole
    }
}

/// What stands around a family's positions.
fn around(family: &str, number: usize, runs: Vec<EmbeddedRun>) -> Vec<MediaPart> {
    let (before, after) = match family {
        "qwen2a" => (format!("Audio {number}: <|audio_bos|>"), "<|audio_eos|>\n"),
        "voxtral" => ("[BEGIN_AUDIO]".into(), ""),
        _ => (String::new(), ""),
    };
    let text = |text: String| (!text.is_empty()).then_some(MediaPart::Text(text));
    let runs = runs.into_iter().map(MediaPart::Run);
    let parts = text(before).into_iter().chain(runs);
    parts.chain(text(after.into())).collect()
}
