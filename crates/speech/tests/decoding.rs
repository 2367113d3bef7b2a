//! What comes out of a file is what libsndfile reads from it.

use crate::vectors::files;
use strata_speech::{DecodeError, Format, Limits, decode};

#[test]
fn files_have_the_samples_that_libsndfile_reads() {
    let mut formats = Vec::new();
    for (name, file, expected) in files() {
        formats.push(Format::of(&file).unwrap());
        let found = decode(&file, Limits::default()).unwrap();
        // Lossy formats pad both ends, and decoders differ in how much of that they drop.
        let lossy = name.starts_with("mp3") || name.starts_with("ogg");
        let shifts = if lossy { -1400..=1400 } else { 0..=0 };
        let distance = |shift: i32| {
            let pairs = (0..expected.len() as i32).filter_map(|i| {
                let other = found.get(usize::try_from(i + shift).ok()?)?;
                Some((expected[i as usize] - other).abs())
            });
            let pairs: Vec<f32> = pairs.collect();
            let worst = pairs.iter().copied().fold(0.0, f32::max);
            // A shift that leaves nothing to compare proves nothing.
            if pairs.len() * 2 < expected.len() {
                1.0
            } else {
                worst
            }
        };
        let worst = shifts.map(distance).fold(f32::INFINITY, f32::min);
        assert!(worst < 2e-4, "{name}: {worst}");
        if !lossy {
            assert_eq!(found.len(), expected.len(), "{name}");
        }
    }
    for format in Format::ALL {
        assert!(formats.contains(&format), "{}", format.name());
    }
}

#[test]
fn tags_before_the_sound_are_passed_over() {
    for (name, file, _) in files() {
        if !(name.starts_with("mp3") || name.starts_with("flac")) {
            continue;
        }
        let mut tagged = b"ID3\x04\0\0\0\0\x01\x48".to_vec();
        tagged.extend([0; 200]);
        tagged.extend(&file);
        let (plain, tagged) = (
            decode(&file, Limits::default()),
            decode(&tagged, Limits::default()),
        );
        assert_eq!(plain.unwrap(), tagged.unwrap(), "{name}");
    }
}

#[test]
fn what_is_no_audio_is_refused_by_name() {
    for file in [
        &b""[..],
        b"OK",
        b"RIFF\0\0\0\0WEBP",
        b"\x89PNG\r\n\x1a\n",
        b"ID3\x04\0\0\0\0\0\x7f",
    ] {
        assert_eq!(decode(file, Limits::default()), Err(DecodeError::Format));
    }
}
