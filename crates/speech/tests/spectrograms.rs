//! Log-mel spectrograms against transformers' feature extractor.

use crate::vectors::{bytes, noise, read, samples};
use strata_speech::LogMel;

#[test]
fn spectrograms_are_those_of_transformers() {
    let file = read("mel.json");
    let speech = samples(&file["speech"]);
    for case in file["spectrograms"].as_array().unwrap() {
        let (name, bands) = (
            case["name"].as_str().unwrap(),
            case["bands"].as_u64().unwrap(),
        );
        let bands = bands as usize;
        let sound = if name == "noise" {
            noise(16_000)
        } else {
            speech.clone()
        };
        let least = if case["padded"] == true { 480_000 } else { 0 };
        let found = LogMel::new(bands).spectrogram(&sound, least);
        assert_eq!(found.frames() as u64, case["count"].as_u64().unwrap());
        let values = bytes(&case["values"]);
        let mut expected = values
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let mut worst = 0f32;
        for frame in case["frames"].as_array().unwrap() {
            let frame = frame.as_u64().unwrap() as usize;
            for &value in &found.values[frame * bands..][..bands] {
                worst = worst.max((value - expected.next().unwrap()).abs());
            }
        }
        assert_eq!(expected.next(), None);
        assert!(
            worst < 1e-4,
            "{name}, {bands} bands, at least {least} samples: {worst}"
        );
    }
}

#[test]
fn windows_beyond_the_end_are_zeros() {
    let found = LogMel::new(80).spectrogram(&noise(1600), 0);
    assert_eq!(found.frames(), 10);
    assert_eq!(found.window(0, 10), found.values);
    let window = found.window(8, 5);
    assert_eq!(window[..160], found.values[640..]);
    assert!(window[160..].iter().all(|&x| x == 0.0));
    assert!(found.window(99, 2).iter().all(|&x| x == 0.0));
}

#[test]
fn silence_and_a_single_sample_have_spectrograms() {
    let silence = LogMel::new(80).spectrogram(&[], 1600);
    assert!(silence.values.iter().all(|&x| x == -1.5));
    assert_eq!(LogMel::new(80).spectrogram(&[0.5], 0).frames(), 0);
    assert_eq!(LogMel::new(80).spectrogram(&[0.5; 170], 0).frames(), 1);
}
