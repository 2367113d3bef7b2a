//! Behaviour of the samplers that a user would notice.

mod samplers;

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::*;

const BANNED: f32 = f32::NEG_INFINITY;

/// The logits of these probabilities.
fn logs<const N: usize>(probabilities: [f32; N]) -> [f32; N] {
    probabilities.map(libm::logf)
}

/// Roughly normal logits; `step` above 0 rounds them, so that many are equal.
fn random_logits(n: usize, seed: u64, step: f32) -> Vec<f32> {
    let mut random = Random::new(seed, Stream::Token);
    let mut normal = || (0..12).map(|_| random.next_f32()).sum::<f32>() - 6.0;
    let round = |x: f32| {
        if step > 0.0 {
            libm::roundf(x / step) * step
        } else {
            x
        }
    };
    (0..n).map(|_| round(3.0 * normal())).collect()
}

fn tokens(settings: SamplerSettings, logits: &[f32], n: usize) -> Vec<u32> {
    let mut sampler = Sampler::new(settings, logits.len()).unwrap();
    let mut workspace = Workspace::new();
    let mut next = || {
        let choice = sampler.sample(logits, &mut workspace).unwrap();
        sampler.accept(choice.token);
        choice.token
    };
    (0..n).map(|_| next()).collect()
}

fn kept(settings: SamplerSettings, logits: &[f32]) -> Vec<u32> {
    let mut workspace = Workspace::new();
    let mut sampler = Sampler::new(settings, logits.len()).unwrap();
    sampler.sample(logits, &mut workspace).unwrap();
    let mut kept: Vec<u32> = workspace.candidates().iter().map(|c| c.token).collect();
    kept.sort_unstable();
    kept
}

#[test]
fn greedy_takes_the_largest_and_of_equal_ones_the_lowest() {
    let mut logits = vec![0.0; 300];
    for token in [70, 130, 131] {
        logits[token] = 5.0;
    }
    assert_eq!(tokens(SamplerSettings::greedy(), &logits, 3), [70, 70, 70]);
    assert_eq!(tokens(SamplerSettings::greedy(), &[-0.0, 0.0], 1), [0]);
    assert_eq!(
        tokens(SamplerSettings::greedy(), &[BANNED, -9.0, BANNED], 1),
        [1]
    );
}

/// These are the texts of version 1: another order of draws, or another rounding, breaks every saved session.
#[test]
fn the_draws_of_a_seed_are_fixed() {
    let logits = random_logits(1000, 5, 0.0);
    let with = |seed, base: SamplerSettings| SamplerSettings { seed, ..base };
    let plain = tokens(with(1, SamplerSettings::default()), &logits, 8);
    let usual = tokens(with(1, SamplerSettings::llama_cpp()), &logits, 8);
    assert_eq!(plain, [897, 831, 465, 64, 699, 444, 174, 458]);
    assert_eq!(usual, [943, 234, 444, 458, 126, 458, 458, 725]);
    assert_ne!(
        tokens(with(2, SamplerSettings::default()), &logits, 8),
        plain
    );
}

#[test]
fn tokens_come_as_often_as_they_are_probable() {
    let probabilities = [0.5, 0.25, 0.15, 0.1];
    let drawn = tokens(SamplerSettings::default(), &logs(probabilities), 40_000);
    for (token, p) in probabilities.iter().enumerate() {
        let count = drawn.iter().filter(|&&t| t as usize == token).count() as f32;
        let deviation = (40_000.0 * p * (1.0 - p)).sqrt();
        assert!(
            (count - 40_000.0 * p).abs() < 4.0 * deviation,
            "{token}: {count}"
        );
    }
}

#[test]
fn a_choice_can_be_repeated_until_a_token_is_accepted() {
    let logits = random_logits(500, 8, 0.0);
    let mut sampler = Sampler::new(SamplerSettings::default(), 500).unwrap();
    let mut workspace = Workspace::new();
    let first = sampler.sample(&logits, &mut workspace).unwrap();
    assert_eq!(sampler.sample(&logits, &mut workspace).unwrap(), first);
    // The draw belongs to the position, so a forced token does not shift the others.
    sampler.accept(3);
    let second = sampler.sample(&logits, &mut workspace).unwrap();
    assert_eq!(
        second.token,
        tokens(SamplerSettings::default(), &logits, 2)[1]
    );
}

fn everything() -> SamplerSettings {
    SamplerSettings {
        seed: 99,
        penalties: Penalties {
            lookback: Lookback::Last(20),
            repeat: 1.1,
            frequency: 0.1,
            presence: 0.1,
        },
        dry: Dry {
            multiplier: 0.8,
            lookback: Lookback::Last(50),
            ..Dry::default()
        },
        xtc: Xtc {
            probability: 0.5,
            threshold: 0.1,
        },
        top_n_sigma: 2.5,
        typical_p: 0.95,
        ..SamplerSettings::llama_cpp()
    }
}

#[test]
fn a_fork_and_a_restored_sampler_continue_alike() {
    for settings in [
        everything(),
        SamplerSettings {
            mirostat: Mirostat::V2 { tau: 3.0, eta: 0.2 },
            ..everything()
        },
    ] {
        let logits = random_logits(300, 4, 0.0);
        let mut workspace = Workspace::new();
        let mut original = Sampler::new(settings.clone(), 300).unwrap();
        original.prime(&[1, 2, 3, 1, 2, 3]);
        let run = |sampler: &mut Sampler, workspace: &mut Workspace| -> Vec<u32> {
            let mut next = || {
                let token = sampler.sample(&logits, workspace).unwrap().token;
                sampler.accept(token);
                token
            };
            (0..70).map(|_| next()).collect()
        };
        run(&mut original, &mut workspace);
        let mut fork = original.clone();
        let mut restored = Sampler::new(settings, 300).unwrap();
        restored.restore(&original.state()).unwrap();
        let expected = run(&mut original, &mut workspace);
        assert_eq!(run(&mut restored, &mut Workspace::new()), expected);
        let mut other = fork.clone();
        assert_eq!(run(&mut fork, &mut workspace), expected);
        other.reseed(100);
        assert_ne!(run(&mut other, &mut workspace), expected);
    }
}

#[test]
fn a_state_that_does_not_fit_is_refused() {
    let mut sampler = Sampler::new(everything(), 10).unwrap();
    let good = sampler.state();
    let bad = [
        SamplerState {
            mu: f32::NAN,
            ..good.clone()
        },
        SamplerState {
            recent: vec![10],
            ..good.clone()
        },
    ];
    for state in bad {
        assert_eq!(sampler.restore(&state), Err(SampleError::State));
    }
    // More tokens than the settings look at are dropped.
    let long = SamplerState {
        recent: vec![1; 1000],
        ..good
    };
    sampler.restore(&long).unwrap();
    assert_eq!(sampler.state().recent.len(), 50);
}

#[test]
fn bad_logits_are_errors_for_every_sampler() {
    let mirostat = SamplerSettings {
        mirostat: Mirostat::V2 { tau: 3.0, eta: 0.2 },
        ..everything()
    };
    for settings in [
        SamplerSettings::greedy(),
        SamplerSettings::default(),
        everything(),
        mirostat,
    ] {
        let mut sampler = Sampler::new(settings, 100).unwrap();
        let mut workspace = Workspace::new();
        for value in [f32::NAN, f32::INFINITY] {
            let mut logits = random_logits(100, 1, 0.0);
            logits[77] = value;
            let error = sampler.sample(&logits, &mut workspace).unwrap_err();
            assert!(matches!(error, SampleError::NotFinite { token: 77, .. }));
        }
        let banned = sampler.sample(&[BANNED; 100], &mut workspace);
        assert_eq!(banned, Err(SampleError::AllBanned));
        let short = sampler.sample(&[0.0; 99], &mut workspace).unwrap_err();
        assert_eq!(
            short.to_string(),
            "there are 99 logits for a vocabulary of 100 tokens"
        );
    }
    let nothing = Sampler::new(SamplerSettings::default(), 0)
        .unwrap()
        .sample(&[], &mut Workspace::new());
    assert_eq!(nothing, Err(SampleError::AllBanned));
}

#[test]
fn extreme_logits_and_settings_still_give_an_allowed_token() {
    let logits = [f32::MAX, f32::MIN, 0.0, BANNED, f32::MAX, -1e-40];
    let base = everything();
    for temperature in [0.0, 1e-45, 1e-6, 1.0, 1e30, f32::MAX] {
        for settings in [
            SamplerSettings {
                temperature,
                ..SamplerSettings::default()
            },
            SamplerSettings {
                temperature,
                ..base.clone()
            },
            SamplerSettings {
                temperature,
                typical_p: 0.0,
                top_p: 0.0,
                min_p: 1.0,
                ..base.clone()
            },
            SamplerSettings {
                temperature,
                dynamic_temperature: DynamicTemperature {
                    range: 1e9,
                    exponent: 0.0,
                },
                ..SamplerSettings::default()
            },
            SamplerSettings {
                temperature,
                mirostat: Mirostat::V2 {
                    tau: 0.0,
                    eta: 100.0,
                },
                ..SamplerSettings::default()
            },
        ] {
            let mut sampler = Sampler::new(settings, logits.len()).unwrap();
            let mut workspace = Workspace::new();
            for _ in 0..50 {
                let choice = sampler.sample(&logits, &mut workspace).unwrap();
                sampler.accept(choice.token);
                assert!(logits[choice.token as usize] > BANNED);
                assert!(choice.probability > 0.0 && choice.probability <= 1.0);
                assert!(sampler.state().mu.is_finite());
            }
        }
    }
}

#[test]
fn buffers_are_reused() {
    let logits = random_logits(10_000, 2, 0.0);
    let mut sampler = Sampler::new(everything(), 10_000).unwrap();
    let mut workspace = Workspace::new();
    let mut step = |workspace: &mut Workspace| {
        let token = sampler.sample(&logits, workspace).unwrap().token;
        sampler.accept(token);
        (workspace.scores.as_ptr(), workspace.candidates.as_ptr())
    };
    for _ in 0..60 {
        step(&mut workspace);
    }
    let before = step(&mut workspace);
    for _ in 0..200 {
        assert_eq!(step(&mut workspace), before);
    }
}

#[test]
fn settings_out_of_range_are_named() {
    let base = SamplerSettings::default;
    let cases = [
        (
            SamplerSettings {
                temperature: -1.0,
                ..base()
            },
            "temperature is -1, but must be finite and not negative",
        ),
        (
            SamplerSettings {
                top_p: f32::NAN,
                ..base()
            },
            "top_p is NaN, but must be between 0 and 1",
        ),
        (
            SamplerSettings {
                min_p: 1.5,
                ..base()
            },
            "min_p is 1.5, but must be between 0 and 1",
        ),
        (
            SamplerSettings {
                penalties: Penalties {
                    repeat: 0.0,
                    ..Penalties::default()
                },
                ..base()
            },
            "penalties.repeat is 0, but must be finite and more than 0",
        ),
        (
            SamplerSettings {
                mirostat: Mirostat::V2 {
                    tau: f32::INFINITY,
                    eta: 0.1,
                },
                ..base()
            },
            "mirostat.tau is inf, but must be between 0 and 100",
        ),
        (
            SamplerSettings {
                logit_bias: vec![(4, f32::INFINITY)],
                ..base()
            },
            "the logit bias of token 4 is inf, but must be finite or minus infinity",
        ),
        (
            SamplerSettings {
                logit_bias: vec![(10, 1.0)],
                ..base()
            },
            "logit_bias names token 10, but the vocabulary has 10 tokens",
        ),
        (
            SamplerSettings {
                dry: Dry {
                    breakers: vec![vec![1], vec![]],
                    ..Dry::default()
                },
                ..base()
            },
            "dry.breakers[1] is empty",
        ),
        (
            SamplerSettings {
                dry: Dry {
                    breakers: vec![vec![1; 65]],
                    ..Dry::default()
                },
                ..base()
            },
            "dry.breakers[0] has 65 tokens, but at most 64 are allowed",
        ),
    ];
    for (settings, message) in cases {
        assert_eq!(Sampler::new(settings, 10).unwrap_err().to_string(), message);
    }
}
