//! What each sampler of a chain does, for those who look on.
//!
//! A stage is what [`Sampler::sample`] itself leaves with the settings up to that stage on and those after it off, so it
//! cannot differ from what is drawn from.

use super::candidates::rank;
use super::{
    Candidate, Choice, DynamicTemperature, Mirostat, Penalties, SampleError, Sampler,
    SamplerSettings, Workspace,
};
use alloc::vec::Vec;

/// What one step of the chain left.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The setting's name, as in requests; `logits` before the first.
    pub name: &'static str,
    /// The candidates, the likeliest first. Their probabilities add up to 1.
    pub candidates: Vec<Candidate>,
}

/// A step's name, and what turns it off.
type Step = (&'static str, fn(&mut SamplerSettings));

/// The steps in their order.
const STEPS: [Step; 9] = [
    ("logit_bias", |s| s.logit_bias.clear()),
    ("penalties", |s| {
        s.penalties = Penalties {
            lookback: s.penalties.lookback,
            ..Penalties::default()
        }
    }),
    ("dry", |s| s.dry.multiplier = 0.0),
    ("top_n_sigma", |s| s.top_n_sigma = 0.0),
    ("top_k", |s| s.top_k = 0),
    ("typical_p", |s| s.typical_p = 1.0),
    ("top_p", |s| s.top_p = 1.0),
    ("min_p", |s| s.min_p = 0.0),
    ("xtc", |s| s.xtc.probability = 0.0),
];

/// Turns the temperature off, and mirostat, which comes after it.
fn without_temperature(settings: &mut SamplerSettings) {
    settings.temperature = 1.0;
    settings.dynamic_temperature = DynamicTemperature::default();
    settings.mirostat = Mirostat::Off;
}

impl Sampler {
    /// What each step that is on leaves of these logits, in their order, and the choice at the end. The first stage is what
    /// the model says. Nothing that a later choice depends on changes.
    pub fn stages(&self, logits: &[f32]) -> Result<(Vec<Stage>, Choice), SampleError> {
        let mut workspace = Workspace::new();
        let mut stages: Vec<Stage> = Vec::new();
        let wanted = self.settings();
        let mirostat = matches!(wanted.mirostat, Mirostat::V2 { .. });
        for on in 0..=STEPS.len() {
            // Mirostat replaces the truncating samplers.
            if on > 3 && mirostat {
                break;
            }
            let mut settings = wanted.clone();
            without_temperature(&mut settings);
            for (_, off) in &STEPS[on..] {
                off(&mut settings);
            }
            if let Some((name, off)) = on.checked_sub(1).map(|last| STEPS[last]) {
                let mut without = settings.clone();
                off(&mut without);
                if without == settings {
                    continue;
                }
                stages.push(self.stage(name, settings, logits, &mut workspace)?.0);
            } else {
                stages.push(self.stage("logits", settings, logits, &mut workspace)?.0);
            }
        }
        let name = if mirostat { "mirostat" } else { "temperature" };
        let (last, choice) = self.stage(name, wanted.clone(), logits, &mut workspace)?;
        stages.push(last);
        Ok((stages, choice))
    }

    fn stage(
        &self,
        name: &'static str,
        settings: SamplerSettings,
        logits: &[f32],
        workspace: &mut Workspace,
    ) -> Result<(Stage, Choice), SampleError> {
        let mut sampler = self.with_settings(settings);
        let choice = sampler.sample(logits, workspace)?;
        let mut candidates = workspace.candidates().to_vec();
        candidates.sort_unstable_by_key(rank);
        Ok((Stage { name, candidates }, choice))
    }
}
