//! Each sampler by itself.

use super::*;

#[test]
fn top_k_is_the_front_of_a_full_sort() {
    for (n, step, scale) in [
        (5000, 0.0, 1.0),
        (5000, 0.0, 0.001),
        (5000, 0.5, 1.0),
        (40, 1.0, 1.0),
    ] {
        let logits: Vec<f32> = random_logits(n, 3, step)
            .iter()
            .map(|l| l * scale)
            .collect();
        let mut all: Vec<u32> = (0..n as u32).collect();
        all.sort_by(|&a, &b| {
            logits[b as usize]
                .total_cmp(&logits[a as usize])
                .then(a.cmp(&b))
        });
        for k in [1, 2, 39, 40, 255, 256, 257, 4999, 6000] {
            let mut front = all[..k.min(n)].to_vec();
            front.sort_unstable();
            let settings = SamplerSettings {
                top_k: k as u32,
                ..SamplerSettings::default()
            };
            assert_eq!(kept(settings, &logits), front, "{k} of {n}");
        }
    }
}

#[test]
fn both_zeros_are_equal() {
    let settings = SamplerSettings {
        top_k: 1,
        ..SamplerSettings::default()
    };
    assert_eq!(kept(settings, &[-0.0, 0.0]), [0]);
}

#[test]
fn top_p_is_the_front_of_a_full_sort() {
    for (n, scale) in [(6000, 1.0), (6000, 0.05), (300, 3.0)] {
        let logits: Vec<f32> = random_logits(n, 6, 0.0).iter().map(|l| l * scale).collect();
        let weights: Vec<f64> = logits.iter().map(|&l| f64::from(l).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut all: Vec<u32> = (0..n as u32).collect();
        all.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]));
        for p in [0.1f32, 0.5, 0.9, 0.99] {
            let mut reached = 0.0;
            let mut front = Vec::new();
            for &token in &all {
                front.push(token);
                reached += weights[token as usize] / total;
                if reached >= f64::from(p) {
                    break;
                }
            }
            let settings = SamplerSettings {
                top_p: p,
                ..SamplerSettings::default()
            };
            let kept = kept(settings, &logits);
            // Where the sum crosses p within a rounding error, one token more or less is right too.
            assert!(
                kept.len().abs_diff(front.len()) <= 1,
                "{p}: {} {}",
                kept.len(),
                front.len()
            );
        }
    }
}

#[test]
fn a_ban_holds_whatever_else_is_on() {
    let mut settings = everything();
    settings.logit_bias = (0..200)
        .filter(|t| t % 7 != 0)
        .map(|t| (t, BANNED))
        .collect();
    for token in tokens(settings, &random_logits(200, 9, 0.0), 300) {
        assert_eq!(token % 7, 0);
    }
}

#[test]
fn xtc_acts_as_often_as_told_and_leaves_the_least_of_the_top() {
    let logits = logs([0.4, 0.3, 0.2, 0.1]);
    let settings = SamplerSettings {
        xtc: Xtc {
            probability: 0.25,
            threshold: 0.15,
        },
        ..SamplerSettings::default()
    };
    let mut sampler = Sampler::new(settings, 4).unwrap();
    let mut workspace = Workspace::new();
    let mut acted = 0;
    for _ in 0..4000 {
        let choice = sampler.sample(&logits, &mut workspace).unwrap();
        sampler.accept(choice.token);
        if workspace.candidates().len() < 4 {
            let left: Vec<u32> = workspace.candidates().iter().map(|c| c.token).collect();
            assert_eq!(left, [2, 3]);
            acted += 1;
        }
    }
    assert!((900..1100).contains(&acted), "{acted}");
}

#[test]
fn penalties_end_when_the_token_leaves_the_window() {
    let settings = SamplerSettings {
        penalties: Penalties {
            lookback: Lookback::Last(2),
            presence: 5.0,
            ..Penalties::default()
        },
        ..SamplerSettings::greedy()
    };
    assert_eq!(tokens(settings, &[3.0, 2.0, 1.0], 7), [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn dry_breaks_a_loop_that_a_breaker_allows() {
    let dry = Dry {
        multiplier: 10.0,
        allowed_length: 2,
        ..Dry::default()
    };
    let choose = |dry: Dry, history: &[u32]| {
        let settings = SamplerSettings {
            dry,
            ..SamplerSettings::greedy()
        };
        let mut sampler = Sampler::new(settings, 5).unwrap();
        sampler.prime(history);
        let logits = [0.0, 0.0, 9.0, 1.0, 0.0];
        sampler
            .sample(&logits, &mut Workspace::new())
            .unwrap()
            .token
    };
    // After 0 1 there was a 2; a third time it costs 10.
    assert_eq!(choose(dry.clone(), &[0, 1, 2, 4, 0, 1]), 3);
    assert_eq!(choose(dry.clone(), &[4, 1, 2, 4, 0, 1]), 2);
    let broken = Dry {
        breakers: vec![vec![0]],
        ..dry.clone()
    };
    assert_eq!(choose(broken, &[0, 1, 2, 4, 0, 1]), 2);
    let short = Dry {
        lookback: Lookback::Last(5),
        ..dry
    };
    assert_eq!(choose(short, &[0, 1, 2, 4, 0, 1]), 2);
}

#[test]
fn mirostat_holds_the_surprise_it_was_told() {
    let logits = random_logits(2000, 12, 0.0);
    for tau in [2.0, 4.0] {
        let settings = SamplerSettings {
            mirostat: Mirostat::V2 { tau, eta: 0.1 },
            ..SamplerSettings::default()
        };
        let mut sampler = Sampler::new(settings, 2000).unwrap();
        let mut workspace = Workspace::new();
        let mut surprise = 0.0;
        for _ in 0..2000 {
            let choice = sampler.sample(&logits, &mut workspace).unwrap();
            sampler.accept(choice.token);
            surprise -= libm::log2f(choice.probability) / 2000.0;
        }
        assert!((surprise - tau).abs() < 0.1, "{surprise} for {tau}");
    }
}

#[test]
fn mirostat_learns_from_its_own_choices_only() {
    let settings = SamplerSettings {
        mirostat: Mirostat::V2 { tau: 3.0, eta: 0.5 },
        ..SamplerSettings::default()
    };
    let logits = random_logits(50, 1, 0.0);
    let mut sampler = Sampler::new(settings, 50).unwrap();
    let choice = sampler.sample(&logits, &mut Workspace::new()).unwrap();
    let mut forced = sampler.clone();
    forced.accept((choice.token + 1) % 50);
    assert_eq!(forced.state().mu, 6.0);
    sampler.accept(choice.token);
    let expected = 6.0 - 0.5 * (-libm::log2f(choice.probability) - 3.0);
    assert_eq!(sampler.state().mu, expected);
}
