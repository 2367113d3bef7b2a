//! Audio files, a target for each format, and the models that read them.

use super::pictures::halved;
use crate::corpus::repository;
use crate::outcome::magnitude;
use crate::{Outcome, Target};
use strata_model::Whisper;
use strata_platform::{Inline, SystemMemory};
use strata_speech::{Limits, RATE, decode};
use strata_weights::{Gguf, GgufSet};

/// What is allowed here, so that inputs are quick.
const LIMITS: Limits = Limits {
    bytes: 1 << 20,
    seconds: 10,
};

pub(super) const WAV: Target = Target {
    words: &["RIFF", "WAVE", "fmt ", "data", "LIST", "fact"],
    ..Target::new("wav", "a file to the reader of WAV audio", sound)
};

pub(super) const FLAC: Target = Target {
    words: &["fLaC", "ID3"],
    ..Target::new("flac", "a file to the reader of FLAC audio", sound)
};

pub(super) const MP3: Target = Target {
    words: &["ID3", "Xing", "Info", "LAME", "VBRI", "TAG"],
    ..Target::new("mp3", "a file to the reader of MP3 audio", sound)
};

pub(super) const OGG: Target = Target {
    words: &["OggS", "\u{1}vorbis", "\u{3}vorbis", "\u{5}vorbis"],
    ..Target::new("ogg", "a file to the reader of Ogg audio", sound)
};

pub(super) const SPEECH: Target = Target {
    made_seeds: whispers,
    words: &[
        "whisper.encoder.",
        "whisper.decoder.",
        "enc.blk.",
        "dec.blk.",
        "cross_attn_q",
    ],
    ..Target::new(
        "speech",
        "a GGUF file to the loader of speech models",
        speech,
    )
};

fn sound(bytes: &[u8]) -> Outcome {
    match decode(bytes, LIMITS) {
        Err(error) => Outcome::refused(&error),
        Ok(samples) => {
            assert!(samples.len() <= (LIMITS.seconds + 1) * RATE);
            assert!(samples.iter().all(|sample| sample.is_finite()));
            Outcome::taken((magnitude(samples.len()), 0))
        }
    }
}

fn speech(bytes: &[u8]) -> Outcome {
    let Ok(gguf) = Gguf::parse(bytes) else {
        return Outcome::ignored();
    };
    let Ok(set) = GgufSet::new(vec![gguf]) else {
        return Outcome::ignored();
    };
    match Whisper::load(&set, &SystemMemory, &Inline) {
        Err(error) => Outcome::refused(&error),
        Ok(model) => Outcome::taken((model.config().encoder_layers, model.config().bands)),
    }
}

/// The golden Whisper with its matrices in half floats, which is short enough for mutants.
fn whispers() -> Vec<Vec<u8>> {
    let folder = repository().join("crates/model/tests/golden_speech");
    let file = std::fs::read(folder.join("whisper.gguf"));
    file.iter().map(|file| halved(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_halved_whisper_is_loaded() {
        let files = whispers();
        let set = GgufSet::new(vec![Gguf::parse(&files[0]).unwrap()]).unwrap();
        let model = Whisper::load(&set, &SystemMemory, &Inline);
        assert!(model.is_ok(), "{}", model.err().unwrap());
        assert!(files[0].len() <= 64 << 10, "{} bytes", files[0].len());
    }
}
