//! Files that are not what they say: an error or sound within the limits, never a crash, never much memory.

use crate::vectors::files;
use strata_speech::{DecodeError, Limits, RATE, decode};

/// The most memory that the process has had so far, in KiB; 0 where the system does not say.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    number.unwrap_or(0)
}

/// Mutants of each file. `STRATA_MUTANTS` asks for more.
fn mutants() -> usize {
    let asked = std::env::var("STRATA_MUTANTS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(60)
}

const LIMITS: Limits = Limits {
    bytes: 1 << 20,
    seconds: 10,
};

#[test]
fn truncated_files_end_in_an_error_or_in_sound() {
    for (name, file, whole) in files() {
        let step = (file.len() / 50).max(1);
        for end in (0..file.len()).step_by(step) {
            if let Ok(sound) = decode(&file[..end], LIMITS) {
                assert!(sound.len() <= whole.len() + 3000, "{name}, {end}");
            }
        }
    }
}

#[test]
fn mutants_end_in_an_error_or_in_finite_sound_within_the_limits() {
    let before = peak();
    let mut state = 7u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for (_, file, _) in files() {
        for _ in 0..mutants() {
            let mut mutant = file.clone();
            for _ in 0..1 + random(4) {
                // Headers are where lengths are.
                let reach = if random(2) == 0 {
                    64.min(mutant.len())
                } else {
                    mutant.len()
                };
                let at = random(reach);
                mutant[at] = [0, 0xff, 0x7f, 0x80, random(256) as u8][random(5)];
            }
            if let Ok(sound) = decode(&mutant, LIMITS) {
                assert!(!sound.is_empty() && sound.len() <= (LIMITS.seconds + 1) * RATE);
                assert!(sound.iter().all(|x| x.is_finite()));
            }
        }
    }
    let grown = peak() - before;
    assert!(grown < 200 << 10, "{grown} KiB were taken");
}

#[test]
fn sound_that_does_not_end_is_cut_off() {
    let (_, wav, _) = files()
        .into_iter()
        .find(|(name, ..)| name == "wav, 8 bits")
        .unwrap();
    let mut wav = wav;
    let data = wav.windows(4).position(|four| four == b"data").unwrap();
    wav[4..8].fill(0xff);
    wav[data + 4..data + 8].fill(0xff);
    wav.resize(3 * RATE + data + 8, 0x80);
    assert_eq!(decode(&wav, LIMITS).unwrap().len(), 3 * RATE);
    let short = Limits {
        seconds: 2,
        ..LIMITS
    };
    assert_eq!(decode(&wav, short), Err(DecodeError::TooLong { limit: 2 }));
    let small = Limits {
        bytes: 1000,
        ..LIMITS
    };
    let error = decode(&wav, small).unwrap_err();
    assert!(matches!(error, DecodeError::Bytes { limit: 1000, .. }));
}

#[test]
fn odd_rates_are_refused_by_number() {
    let (_, mut wav, _) = files()
        .into_iter()
        .find(|(name, ..)| name == "wav, 16 bits")
        .unwrap();
    for rate in [1u32, 3_999, 192_001, u32::MAX] {
        wav[24..28].copy_from_slice(&rate.to_le_bytes());
        let error = decode(&wav, LIMITS).unwrap_err();
        assert!(
            matches!(error, DecodeError::Rate { rate: found } if found == rate),
            "{error}"
        );
    }
}
