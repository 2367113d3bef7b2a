//! Tones stay what they are at another rate, and those that do not fit vanish.

use strata_speech::Resampler;

fn tone(frequency: f64, rate: u32, seconds: f64) -> Vec<f32> {
    let count = (f64::from(rate) * seconds) as usize;
    let angle = |n: usize| 2.0 * std::f64::consts::PI * frequency * n as f64 / f64::from(rate);
    (0..count).map(|n| angle(n).sin() as f32).collect()
}

fn resampled(samples: &[f32], rate: u32, piece: usize) -> Vec<f32> {
    let mut resampler = Resampler::new(rate).unwrap();
    let mut out = Vec::new();
    for piece in samples.chunks(piece) {
        resampler.push(piece, &mut out);
    }
    resampler.finish(&mut out);
    out
}

#[test]
fn tones_below_seven_kilohertz_stay() {
    for rate in [
        8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000,
    ] {
        for frequency in [50.0, 440.0, 3_000.0, 7_000.0] {
            if frequency > 0.45 * f64::from(rate) {
                continue;
            }
            let found = resampled(&tone(frequency, rate, 0.2), rate, 1000);
            let expected = tone(frequency, 16_000, 0.2);
            assert!(found.len().abs_diff(expected.len()) <= 1, "{rate}");
            // The ends meet silence.
            let inner = 200..expected.len() - 200;
            let pairs = found[inner.clone()].iter().zip(&expected[inner]);
            let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 2e-3, "{rate}, {frequency}: {worst}");
        }
    }
}

#[test]
fn tones_above_eight_kilohertz_vanish() {
    for (rate, frequency) in [(44_100, 9_000.0), (48_000, 15_000.0), (96_000, 30_000.0)] {
        let found = resampled(&tone(frequency, rate, 0.2), rate, 4096);
        let worst = found[200..found.len() - 200]
            .iter()
            .fold(0.0, |worst: f32, x| worst.max(x.abs()));
        assert!(worst < 1e-3, "{rate}, {frequency}: {worst}");
    }
}

#[test]
fn pieces_of_any_size_give_the_same_bits() {
    let samples = tone(440.0, 44_100, 0.5);
    let whole = resampled(&samples, 44_100, usize::MAX);
    for piece in [1, 7, 1152, 10_000] {
        assert_eq!(resampled(&samples, 44_100, piece), whole);
    }
}

#[test]
fn rates_that_nobody_uses_are_refused() {
    for rate in [0, 1, 3_999, 192_001, u32::MAX] {
        assert!(Resampler::new(rate).is_none());
    }
}
