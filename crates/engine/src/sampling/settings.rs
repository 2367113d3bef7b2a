//! The knobs of a sampler, what each one means, and which values it takes.

use alloc::vec::Vec;

use thiserror::Error;

/// How many of the latest tokens a penalty looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookback {
    /// That many; 0 turns the penalty off.
    Last(u32),
    /// All of them.
    All,
}

impl Lookback {
    /// The number of tokens it reaches back over.
    pub(crate) fn reach(self) -> usize {
        match self {
            Self::Last(n) => n as usize,
            Self::All => usize::MAX,
        }
    }
}

/// Penalties on tokens that occurred before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties {
    /// The tokens that count.
    pub lookback: Lookback,
    /// A positive logit is divided by this and a negative one multiplied, once per distinct token; 1 is off.
    pub repeat: f32,
    /// Subtracted from the logit once per occurrence; 0 is off.
    pub frequency: f32,
    /// Subtracted from the logit of each token that occurred; 0 is off.
    pub presence: f32,
}

impl Default for Penalties {
    fn default() -> Self {
        Self {
            lookback: Lookback::Last(64),
            repeat: 1.0,
            frequency: 0.0,
            presence: 0.0,
        }
    }
}

impl Penalties {
    pub(crate) fn is_on(&self) -> bool {
        self.lookback.reach() > 0
            && (self.repeat != 1.0 || self.frequency != 0.0 || self.presence != 0.0)
    }
}

/// DRY ("don't repeat yourself"): a token that would continue a repeated run of n tokens loses
/// `multiplier · base^(n − allowed_length)`, once n reaches the allowed length.
#[derive(Debug, Clone, PartialEq)]
pub struct Dry {
    /// The penalty at the allowed length; 0 is off.
    pub multiplier: f32,
    /// How fast it grows with the run.
    pub base: f32,
    /// Shorter runs are free.
    pub allowed_length: u32,
    /// The tokens in which runs are looked for.
    pub lookback: Lookback,
    /// Token sequences over which no run is followed (a new line, a speaker's name). A breaker of one token is never
    /// penalized. [`breakers`](super::breakers) makes them from text.
    pub breakers: Vec<Vec<u32>>,
}

impl Default for Dry {
    fn default() -> Self {
        Self {
            multiplier: 0.0,
            base: 1.75,
            allowed_length: 2,
            lookback: Lookback::All,
            breakers: Vec::new(),
        }
    }
}

impl Dry {
    pub(crate) fn is_on(&self) -> bool {
        self.multiplier > 0.0 && self.lookback.reach() > 0
    }
}

/// XTC ("exclude top choices"): now and then, of the tokens that are likely enough, only the least likely stays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Xtc {
    /// How often it acts; 0 is off.
    pub probability: f32,
    /// The probability from which a token is a top choice; above 0.5 there are never two, so it is off.
    pub threshold: f32,
}

impl Default for Xtc {
    fn default() -> Self {
        Self {
            probability: 0.0,
            threshold: 0.1,
        }
    }
}

/// A temperature that follows the entropy of the candidates: from `temperature − range` when one token is certain to
/// `temperature + range` when all are equally likely.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DynamicTemperature {
    /// Half the width of the interval; 0 is off.
    pub range: f32,
    /// The power to which the normalized entropy is raised.
    pub exponent: f32,
}

impl Default for DynamicTemperature {
    fn default() -> Self {
        Self {
            range: 0.0,
            exponent: 1.0,
        }
    }
}

/// Mirostat, which steers the surprise of the text by itself and takes the place of all truncating samplers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Mirostat {
    /// The truncating samplers are used.
    #[default]
    Off,
    /// Version 2.
    V2 {
        /// The surprise to hold, in bits per token.
        tau: f32,
        /// How fast it corrects itself.
        eta: f32,
    },
}

/// How the next token is chosen. The default draws from the model's own distribution: temperature 1, all else off.
///
/// The order in which the knobs act is in the [crate's documentation](crate).
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerSettings {
    /// Chooses the random draws; the same seed gives the same text.
    pub seed: u64,
    /// Added to a token's logit; minus infinity bans the token. Several for one token add up.
    pub logit_bias: Vec<(u32, f32)>,
    /// Repetition, frequency and presence.
    pub penalties: Penalties,
    /// Don't repeat yourself.
    pub dry: Dry,
    /// Keeps logits within this many standard deviations of the largest; 0 is off.
    pub top_n_sigma: f32,
    /// Keeps that many of the likeliest tokens; 0 is off.
    pub top_k: u32,
    /// Keeps the tokens whose surprise is nearest to the entropy, until their probabilities exceed this; 1 is off.
    pub typical_p: f32,
    /// Keeps the likeliest tokens until their probabilities reach this; 1 is off.
    pub top_p: f32,
    /// Keeps tokens at least this probable in relation to the likeliest; 0 is off.
    pub min_p: f32,
    /// Exclude top choices.
    pub xtc: Xtc,
    /// The truncating samplers leave at least that many tokens; 0 means 1.
    pub min_keep: u32,
    /// The logits are divided by this; 0 takes the likeliest token and draws nothing.
    pub temperature: f32,
    /// A temperature that follows the entropy.
    pub dynamic_temperature: DynamicTemperature,
    /// The self-steering sampler.
    pub mirostat: Mirostat,
}

impl Default for SamplerSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            logit_bias: Vec::new(),
            penalties: Penalties::default(),
            dry: Dry::default(),
            top_n_sigma: 0.0,
            top_k: 0,
            typical_p: 1.0,
            top_p: 1.0,
            min_p: 0.0,
            xtc: Xtc::default(),
            min_keep: 0,
            temperature: 1.0,
            dynamic_temperature: DynamicTemperature::default(),
            mirostat: Mirostat::Off,
        }
    }
}

/// A setting that cannot be honoured.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum SettingsError {
    /// A number outside its range.
    #[error("{name} is {value}, but must be {allowed}")]
    OutOfRange {
        /// The knob.
        name: &'static str,
        /// What was asked for.
        value: f32,
        /// What it may be.
        allowed: &'static str,
    },
    /// A bias that is not a number, or plus infinity.
    #[error("the logit bias of token {token} is {value}, but must be finite or minus infinity")]
    Bias {
        /// The token.
        token: u32,
        /// What was asked for.
        value: f32,
    },
    /// A token that the model does not have.
    #[error("{name} names token {token}, but the vocabulary has {vocabulary} tokens")]
    UnknownToken {
        /// The knob.
        name: &'static str,
        /// The token.
        token: u32,
        /// How many there are.
        vocabulary: usize,
    },
    /// A sequence breaker without tokens.
    #[error("dry.breakers[{index}] is empty")]
    EmptyBreaker {
        /// Which one.
        index: usize,
    },
    /// A breaker too long to be looked for at each position.
    #[error(
        "dry.breakers[{index}] has {length} tokens, but at most {} are allowed",
        SamplerSettings::MAX_BREAKER
    )]
    LongBreaker {
        /// Which one.
        index: usize,
        /// Its tokens.
        length: usize,
    },
}

#[derive(Clone, Copy)]
enum Range {
    Finite,
    NotNegative,
    Positive,
    AtLeastOne,
    Share,
    /// No vocabulary has 2¹⁰⁰ tokens, and mirostat's sums stay finite.
    Steering,
}

impl Range {
    fn check(self, name: &'static str, value: f32) -> Result<(), SettingsError> {
        let (ok, allowed) = match self {
            Self::Finite => (true, "finite"),
            Self::NotNegative => (value >= 0.0, "finite and not negative"),
            Self::Positive => (value > 0.0, "finite and more than 0"),
            Self::AtLeastOne => (value >= 1.0, "finite and at least 1"),
            Self::Share => ((0.0..=1.0).contains(&value), "between 0 and 1"),
            Self::Steering => ((0.0..=100.0).contains(&value), "between 0 and 100"),
        };
        if ok && value.is_finite() {
            Ok(())
        } else {
            Err(SettingsError::OutOfRange {
                name,
                value,
                allowed,
            })
        }
    }
}

impl SamplerSettings {
    /// The most tokens a sequence breaker may have.
    pub const MAX_BREAKER: usize = 64;

    /// Always the likeliest token.
    #[must_use]
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            ..Self::default()
        }
    }

    /// The values that llama.cpp's programs start from.
    #[must_use]
    pub fn llama_cpp() -> Self {
        Self {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            ..Self::default()
        }
    }

    /// Checks every knob against its range.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let numbers = [
            ("penalties.repeat", self.penalties.repeat, Range::Positive),
            (
                "penalties.frequency",
                self.penalties.frequency,
                Range::Finite,
            ),
            ("penalties.presence", self.penalties.presence, Range::Finite),
            ("dry.multiplier", self.dry.multiplier, Range::NotNegative),
            ("dry.base", self.dry.base, Range::AtLeastOne),
            ("top_n_sigma", self.top_n_sigma, Range::NotNegative),
            ("typical_p", self.typical_p, Range::Share),
            ("top_p", self.top_p, Range::Share),
            ("min_p", self.min_p, Range::Share),
            ("xtc.probability", self.xtc.probability, Range::Share),
            ("xtc.threshold", self.xtc.threshold, Range::Share),
            ("temperature", self.temperature, Range::NotNegative),
            (
                "dynamic_temperature.range",
                self.dynamic_temperature.range,
                Range::NotNegative,
            ),
            (
                "dynamic_temperature.exponent",
                self.dynamic_temperature.exponent,
                Range::NotNegative,
            ),
        ];
        for (name, value, range) in numbers {
            range.check(name, value)?;
        }
        if let Mirostat::V2 { tau, eta } = self.mirostat {
            Range::Steering.check("mirostat.tau", tau)?;
            Range::Steering.check("mirostat.eta", eta)?;
        }
        for &(token, value) in &self.logit_bias {
            if value.is_nan() || value == f32::INFINITY {
                return Err(SettingsError::Bias { token, value });
            }
        }
        for (index, breaker) in self.dry.breakers.iter().enumerate() {
            let length = breaker.len();
            if length == 0 {
                return Err(SettingsError::EmptyBreaker { index });
            }
            if length > Self::MAX_BREAKER {
                return Err(SettingsError::LongBreaker { index, length });
            }
        }
        Ok(())
    }

    /// Checks that every token named is one of the model's.
    pub(crate) fn check_tokens(&self, vocabulary: usize) -> Result<(), SettingsError> {
        let bias = self
            .logit_bias
            .iter()
            .map(|&(token, _)| ("logit_bias", token));
        let breakers = self.dry.breakers.iter().flatten();
        for (name, token) in bias.chain(breakers.map(|&token| ("dry.breakers", token))) {
            if token as usize >= vocabulary {
                return Err(SettingsError::UnknownToken {
                    name,
                    token,
                    vocabulary,
                });
            }
        }
        Ok(())
    }
}
