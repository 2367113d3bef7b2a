//! Choosing the next token from logits.

mod breakers;
mod candidates;
mod dry;
mod history;
mod settings;
mod stages;
mod truncate;

#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use alloc::vec::Vec;

use thiserror::Error;

use crate::random::{Random, Stream};
pub(crate) use candidates::{Normalizer, gather_top};
use candidates::{entropy, gather, largest, pick, softmax};
use history::History;

pub use breakers::breakers;
pub use candidates::Candidate;
pub use settings::{
    Dry, DynamicTemperature, Lookback, Mirostat, Penalties, SamplerSettings, SettingsError, Xtc,
};
pub use stages::Stage;

/// Logits from which no token can be chosen, or a saved state that cannot be continued.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum SampleError {
    /// Not one logit for each token.
    #[error("there are {found} logits for a vocabulary of {expected} tokens")]
    Length {
        /// The vocabulary.
        expected: usize,
        /// What came.
        found: usize,
    },
    /// NaN or plus infinity.
    #[error("the logit of token {token} is {value}")]
    NotFinite {
        /// The first such token.
        token: u32,
        /// Its logit.
        value: f32,
    },
    /// Every logit is minus infinity.
    #[error("every token is banned")]
    AllBanned,
    /// A saved state that no run of the sampler leaves.
    #[error("the saved sampler state does not fit these settings")]
    State,
}

/// What was chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The token.
    pub token: u32,
    /// Its probability among the candidates that were left.
    pub probability: f32,
}

/// Buffers for [`Sampler::sample`], as large as the vocabulary: one for each worker, not for each sequence.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    scores: Vec<f32>,
    candidates: Vec<Candidate>,
    runs: dry::Runs,
}

impl Workspace {
    /// Empty buffers. They grow at the first token and stay.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What the last token was drawn from. The order is fixed, but not always by probability.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }
}

/// What a sampler needs to continue elsewhere, besides its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerState {
    /// How many tokens were accepted after the prompt.
    pub position: u64,
    /// The surprise that mirostat allows at present, in bits.
    pub mu: f32,
    /// The latest tokens, oldest first, as far back as the settings look.
    pub recent: Vec<u32>,
}

/// Chooses tokens for one sequence. A clone is a fork: it draws the same numbers until it is given another seed.
///
/// [`sample`](Self::sample) changes nothing that a later choice depends on, and [`accept`](Self::accept) moves on by
/// one token, whichever it is. So a guess can be checked, a token forced, or a choice repeated.
#[derive(Debug, Clone)]
pub struct Sampler {
    settings: Arc<SamplerSettings>,
    vocabulary: usize,
    history: History,
    position: u64,
    mu: f32,
    /// The last choice, and what mu becomes if it is accepted.
    proposed: Option<(u32, f32)>,
}

impl Sampler {
    /// A sampler at the beginning of a text, for logits of that many tokens.
    pub fn new(mut settings: SamplerSettings, vocabulary: usize) -> Result<Self, SettingsError> {
        settings.validate()?;
        settings.check_tokens(vocabulary)?;
        settings.dry.breakers.sort_unstable();
        Ok(Self {
            history: History::new(&settings),
            vocabulary,
            position: 0,
            mu: match settings.mirostat {
                Mirostat::Off => 0.0,
                Mirostat::V2 { tau, .. } => 2.0 * tau,
            },
            proposed: None,
            settings: Arc::new(settings),
        })
    }

    /// The sampler at the same place of the same text, with other settings that look back as far.
    fn with_settings(&self, settings: SamplerSettings) -> Self {
        let mut history = History::new(&settings);
        for token in self.history.tokens() {
            history.push(token);
        }
        Self {
            history,
            settings: Arc::new(settings),
            ..self.clone()
        }
    }

    /// What the sampler was made with.
    #[must_use]
    pub fn settings(&self) -> &SamplerSettings {
        &self.settings
    }

    /// Tokens that come before the first choice: the penalties see them, the draws do not count them.
    pub fn prime(&mut self, prompt: &[u32]) {
        for &token in prompt {
            self.history.push(token);
        }
    }

    /// Takes a token into the text, chosen or not.
    pub fn accept(&mut self, token: u32) {
        self.history.push(token);
        self.position = self.position.wrapping_add(1);
        if let Some((proposed, mu)) = self.proposed.take()
            && proposed == token
        {
            self.mu = mu;
        }
    }

    /// Gives the draws of this sampler another seed, as the second of two forks wants.
    pub fn reseed(&mut self, seed: u64) {
        Arc::make_mut(&mut self.settings).seed = seed;
    }

    /// What to save.
    #[must_use]
    pub fn state(&self) -> SamplerState {
        SamplerState {
            position: self.position,
            mu: self.mu,
            recent: self.history.tokens().collect(),
        }
    }

    /// Continues from a saved state.
    pub fn restore(&mut self, state: &SamplerState) -> Result<(), SampleError> {
        let known = |&token: &u32| (token as usize) < self.vocabulary;
        if !state.mu.is_finite() || !state.recent.iter().all(known) {
            return Err(SampleError::State);
        }
        self.history = History::new(&self.settings);
        self.prime(&state.recent);
        self.position = state.position;
        self.mu = state.mu;
        self.proposed = None;
        Ok(())
    }

    /// Chooses the next token. Gives the same answer until a token is accepted.
    pub fn sample(
        &mut self,
        logits: &[f32],
        workspace: &mut Workspace,
    ) -> Result<Choice, SampleError> {
        if logits.len() != self.vocabulary {
            return Err(SampleError::Length {
                expected: self.vocabulary,
                found: logits.len(),
            });
        }
        let Workspace {
            scores,
            candidates,
            runs,
        } = workspace;
        self.proposed = None;
        let scores = self.adjust(logits, scores, runs);
        let best = best(scores)?;
        if self.settings.temperature == 0.0 {
            candidates.clear();
            candidates.push(Candidate {
                probability: 1.0,
                ..best
            });
        } else if let Mirostat::V2 { .. } = self.settings.mirostat {
            gather(scores, f32::NEG_INFINITY, candidates);
            self.heat(candidates);
            truncate::mirostat(candidates, self.mu);
            softmax(candidates);
        } else {
            self.truncate(scores, best.logit, candidates);
            self.heat(candidates);
            softmax(candidates);
        }
        let chosen = pick(candidates, self.draw(Stream::Token));
        self.proposed = Some((chosen.token, self.next_mu(chosen.probability)));
        Ok(Choice {
            token: chosen.token,
            probability: chosen.probability,
        })
    }

    fn draw(&self, stream: Stream) -> f64 {
        Random::new(self.settings.seed, stream)
            .at(self.position)
            .next_f64()
    }

    /// The logits with bias and penalties; a copy only where there are any.
    fn adjust<'a>(
        &self,
        logits: &'a [f32],
        scores: &'a mut Vec<f32>,
        runs: &mut dry::Runs,
    ) -> &'a [f32] {
        let settings = &*self.settings;
        if settings.logit_bias.is_empty() && self.history.len() == 0 {
            return logits;
        }
        scores.clear();
        scores.extend_from_slice(logits);
        for &(token, bias) in &settings.logit_bias {
            if let Some(score) = scores.get_mut(token as usize) {
                *score += bias;
            }
        }
        let penalties = &settings.penalties;
        for &(token, count) in self.history.counts() {
            if let Some(score) = scores.get_mut(token as usize) {
                if *score <= 0.0 {
                    *score *= penalties.repeat;
                } else {
                    *score /= penalties.repeat;
                }
                *score -= count as f32 * penalties.frequency + penalties.presence;
            }
        }
        if settings.dry.is_on() {
            dry::penalize(&settings.dry, &self.history, scores, runs);
        }
        scores
    }

    /// Everything between the penalties and the temperature.
    fn truncate(&self, scores: &[f32], max: f32, candidates: &mut Vec<Candidate>) {
        let s = &*self.settings;
        let min_keep = s.min_keep as usize;
        let mut floor = f32::NEG_INFINITY;
        if s.top_n_sigma > 0.0 {
            floor = truncate::sigma_floor(scores, max, s.top_n_sigma);
        }
        let (typical, top_p) = (s.typical_p < 1.0, s.top_p < 1.0);
        // With nothing in between that looks at the whole distribution, min-p can act while gathering.
        if s.min_p > 0.0 && !typical && !top_p && min_keep <= 1 {
            floor = floor.max(truncate::min_p_floor(max, s.min_p));
        }
        if s.top_k > 0 {
            gather_top(scores, floor, s.top_k as usize, candidates);
        } else {
            gather(scores, floor, candidates);
        }
        if typical {
            truncate::typical(candidates, s.typical_p, min_keep);
        }
        if top_p {
            truncate::top_p(candidates, s.top_p, min_keep);
        }
        if s.min_p > 0.0 {
            truncate::min_p(candidates, s.min_p, min_keep);
        }
        let xtc = s.xtc;
        if xtc.threshold <= 0.5 && self.draw(Stream::Xtc) < f64::from(xtc.probability) {
            truncate::xtc(candidates, xtc.threshold, min_keep);
        }
    }

    /// Divides by the temperature. Logits become relative to the largest, so that none overflows.
    fn heat(&self, candidates: &mut [Candidate]) {
        let range = self.settings.dynamic_temperature.range;
        let mut temperature = f64::from(self.settings.temperature);
        if range > 0.0 && candidates.len() > 1 {
            let normalizer = softmax(candidates);
            let share = entropy(candidates, normalizer) / libm::log(candidates.len() as f64);
            let exponent = f64::from(self.settings.dynamic_temperature.exponent);
            let low = (temperature - f64::from(range)).max(0.0);
            let high = temperature + f64::from(range);
            temperature = low + (high - low) * libm::pow(share.clamp(0.0, 1.0), exponent);
        }
        let max = largest(candidates);
        let coldness = (1.0 / temperature) as f32;
        for c in candidates {
            let below = c.logit - max;
            // 0 times the infinite coldness of a temperature near 0 is not a number.
            c.logit = if below == 0.0 { 0.0 } else { below * coldness };
        }
    }

    /// Mirostat's correction by the surprise of a choice.
    fn next_mu(&self, probability: f32) -> f32 {
        match self.settings.mirostat {
            Mirostat::Off => self.mu,
            Mirostat::V2 { tau, eta } => {
                let surprise = -libm::log2f(probability);
                self.mu - eta * (surprise - tau)
            }
        }
    }
}

/// The token with the largest score, the lowest such token; and checks every score on the way.
pub(crate) fn best(scores: &[f32]) -> Result<Candidate, SampleError> {
    const CHUNK: usize = 64;
    let (mut at, mut max) = (0, f32::NEG_INFINITY);
    for (chunk, values) in scores.chunks(CHUNK).enumerate() {
        // Without branches, so that the compiler can use vectors.
        let (mut fine, mut local) = (true, f32::NEG_INFINITY);
        for &value in values {
            fine &= value < f32::INFINITY;
            local = if value > local { value } else { local };
        }
        if !fine {
            let first = values
                .iter()
                .position(|v| v.is_nan() || *v == f32::INFINITY)
                .unwrap_or(0);
            return Err(SampleError::NotFinite {
                token: (chunk * CHUNK + first) as u32,
                value: values[first],
            });
        }
        if local > max {
            max = local;
            at = chunk * CHUNK + values.iter().position(|&v| v == local).unwrap_or(0);
        }
    }
    if max == f32::NEG_INFINITY {
        return Err(SampleError::AllBanned);
    }
    Ok(Candidate {
        token: at as u32,
        logit: max,
        probability: 0.0,
    })
}
