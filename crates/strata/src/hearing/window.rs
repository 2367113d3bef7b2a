//! One window's text: decoded, looked at, and decoded again more freely if it reads badly.

use super::rules::{self, FORBIDDEN};
use super::whisper::WhisperEars;
use crate::error::{Error, ErrorKind};
use strata_model::{Compute, Heard, WhisperError, WhisperState};

/// Temperatures that are tried one after the other.
const TEMPERATURES: [f32; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];

/// What text reads badly.
#[derive(Copy, Clone, Debug)]
pub(super) struct Thresholds {
    /// Text that shrinks more repeats itself.
    pub(super) most_compression: f32,
    /// Text below this mean is a guess.
    pub(super) least_logprob: f32,
    /// A window is silent above this, if its text is a guess.
    pub(super) silence: f32,
}

impl Thresholds {
    /// Those of Whisper's authors.
    pub(super) const AUTHORS: Self = Self {
        most_compression: 2.4,
        least_logprob: -1.0,
        silence: 0.6,
    };

    /// Whether a text is to be tried again.
    fn reads_badly(&self, found: &WindowText) -> bool {
        // Silence need not be tried again.
        (found.compression > self.most_compression || self.is_guess(found))
            && !self.is_silent(found)
    }

    pub(super) fn is_silent(&self, found: &WindowText) -> bool {
        found.no_speech > self.silence && self.is_guess(found)
    }

    fn is_guess(&self, found: &WindowText) -> bool {
        found.mean_logprob < self.least_logprob
    }
}

/// What is asked of a window.
pub(super) struct WindowRequest<'a> {
    /// Everything that comes before what is written.
    pub(super) prompt: &'a [u32],
    pub(super) stamps: bool,
    /// The one to use; all of them in turn where none is given.
    pub(super) temperature: Option<f32>,
    /// How many tokens may be written.
    pub(super) most: usize,
    /// What text is tried again; none where nothing is.
    pub(super) thresholds: Option<Thresholds>,
    /// Where random choices begin.
    pub(super) seed: u64,
}

/// What a window says.
#[derive(Clone, Debug)]
pub(super) struct WindowText {
    /// Without the end.
    pub(super) tokens: Vec<u32>,
    pub(super) temperature: f32,
    pub(super) mean_logprob: f32,
    pub(super) compression: f32,
    pub(super) no_speech: f32,
}

pub(super) fn bad_input(error: &WhisperError) -> Error {
    Error::new(ErrorKind::Internal, error)
}

/// splitmix64: the next number in [0, 1).
fn uniform(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *seed;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ x >> 31) >> 11) as f64 / (1u64 << 53) as f64
}

impl WhisperEars {
    /// Runs one task in a turn of its own.
    pub(super) fn turn<T>(&self, work: impl FnOnce(&Compute<'_>) -> T) -> T {
        let machine = &self.machine;
        let compute = Compute {
            kernels: machine.kernels,
            pool: &*machine.pool,
        };
        machine.turns().take(|| work(&compute))
    }

    pub(super) fn write(
        &self,
        heard: &Heard,
        state: &mut WhisperState,
        tokens: &[u32],
        rows: usize,
    ) -> Result<Vec<f32>, Error> {
        let made = self.turn(|compute| {
            self.model
                .write(compute, (heard, state), tokens, rows, None)
        });
        made.map_err(|error| bad_input(&error))
    }

    /// Decodes a window, at one temperature or at as many as it takes.
    pub(super) fn window_text(
        &self,
        heard: &Heard,
        asked: &WindowRequest<'_>,
    ) -> Result<WindowText, Error> {
        let vocabulary = self.model.config().vocabulary;
        let mut state = self.model.state();
        let start = asked
            .prompt
            .iter()
            .position(|&token| token == self.tokens.start);
        let rows = asked.prompt.len() - start.unwrap_or(0);
        let logits = self.write(heard, &mut state, asked.prompt, rows)?;
        // How likely nothing is said is told right after the start.
        let no_speech = {
            let mut first = logits[..vocabulary].to_vec();
            self.machine.kernels.softmax(&mut first);
            first[self.tokens.no_speech as usize]
        };
        let first = &logits[(rows - 1) * vocabulary..];
        let one;
        let temperatures = match asked.temperature {
            Some(temperature) if temperature > 0.0 => {
                one = [temperature];
                &one[..]
            }
            _ => &TEMPERATURES[..],
        };
        let mut best = None;
        for &temperature in temperatures {
            state.truncate(asked.prompt.len());
            let (tokens, mean_logprob) =
                self.one_try(heard, &mut state, first, asked, temperature)?;
            let found = WindowText {
                compression: compression(&self.text(&tokens)),
                tokens,
                temperature,
                mean_logprob,
                no_speech,
            };
            let bad = asked.thresholds.is_some_and(|it| it.reads_badly(&found));
            best = Some(found);
            if !bad {
                break;
            }
        }
        best.ok_or_else(|| Error::new(ErrorKind::Internal, "no temperature was tried"))
    }

    /// Writes until the end; gives the tokens and the mean of their log-probabilities.
    fn one_try(
        &self,
        heard: &Heard,
        state: &mut WhisperState,
        first: &[f32],
        asked: &WindowRequest<'_>,
        temperature: f32,
    ) -> Result<(Vec<u32>, f32), Error> {
        let kernels = self.machine.kernels;
        let mut seed = asked.seed ^ u64::from(temperature.to_bits());
        let (mut written, mut sum) = (Vec::new(), 0.0);
        let mut logits = first.to_vec();
        loop {
            rules::apply(kernels, &self.tokens, &written, asked.stamps, &mut logits);
            let token = if temperature > 0.0 {
                sample(kernels, &logits, temperature, &mut seed)
            } else {
                kernels.argmax(&logits)
            };
            sum += logits[token] - rules::log_sum(kernels, &logits);
            if token as u32 == self.tokens.end {
                break;
            }
            written.push(token as u32);
            if written.len() >= asked.most {
                break;
            }
            logits = self.write(heard, state, &[token as u32], 1)?;
        }
        Ok((written.clone(), sum / (written.len() + 1) as f32))
    }

    /// The text of tokens, without stamps and other special ones.
    pub(super) fn text(&self, tokens: &[u32]) -> String {
        let mut bytes = Vec::new();
        let plain = tokens.iter().filter(|&&token| token < self.tokens.end);
        plain.for_each(|&token| self.tokenizer.append_bytes(token, &mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn sample(
    kernels: &strata_kernels::Kernels,
    logits: &[f32],
    temperature: f32,
    seed: &mut u64,
) -> usize {
    let mut shares: Vec<f32> = logits
        .iter()
        .map(|&logit| (logit / temperature).max(FORBIDDEN))
        .collect();
    kernels.softmax(&mut shares);
    let total: f64 = shares.iter().map(|&share| f64::from(share)).sum();
    let mut left = uniform(seed) * total;
    let mut last = 0;
    for (token, &share) in shares.iter().enumerate() {
        if share > 0.0 {
            last = token;
            left -= f64::from(share);
            if left < 0.0 {
                break;
            }
        }
    }
    last
}

/// How much a text shrinks.
pub(super) fn compression(text: &str) -> f32 {
    if text.is_empty() {
        return 0.0;
    }
    let small = miniz_oxide::deflate::compress_to_vec_zlib(text.as_bytes(), 6);
    text.len() as f32 / small.len() as f32
}
