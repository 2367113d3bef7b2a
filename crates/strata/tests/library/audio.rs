//! Models that hear, from an audio file to an answer.

use crate::perceiving::{answer, folder_of, request};
use std::path::PathBuf;
use strata::{ContentPart, Generate, Message, Model, Options, Prompt, Role, audio};

const NAMES: [&str; 3] = ["qwen2audio", "ultravox", "voxtral"];

fn folder(name: &str, projector: bool) -> (tempfile::TempDir, PathBuf) {
    folder_of("golden_audio", name, projector)
}

fn open(name: &str) -> Model {
    let (_folder, path) = folder(name, true);
    Model::open(path, Options::default().threads(2)).unwrap()
}

/// The sound of `tools/golden_audio.py`, shifted by so many samples, as a WAV file of floats at 16 kHz.
pub(crate) fn wav(samples: usize, shift: i64) -> Vec<u8> {
    let bytes = 4 * samples as u32;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + bytes).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16u32.to_le_bytes());
    // Floats, one channel, the rate, bytes of a second and of a sample, bits.
    file.extend([3, 0, 1, 0]);
    file.extend(16_000u32.to_le_bytes());
    file.extend(64_000u32.to_le_bytes());
    file.extend([4, 0, 32, 0]);
    file.extend(b"data");
    file.extend(bytes.to_le_bytes());
    for n in 0..samples as i64 {
        let n = n + shift;
        let x = ((n * n * 31 + n * 7) % 65536 - 32768) as f32 / 65536.0;
        file.extend(x.to_le_bytes());
    }
    file
}

fn asking(before: &str, sounds: &[Vec<u8>]) -> Generate {
    let mut message = Message::text(Role::User, before);
    message.parts.extend(sounds.iter().cloned().map(audio));
    message.parts.push(ContentPart::Text("ABC".into()));
    request(vec![message])
}

/// The spectrograms of the golden files are those of the feature extractors of `transformers`.
#[test]
fn spectrograms_are_those_of_the_processors() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = golden.join("../model/tests/golden_audio");
    for name in NAMES {
        let text = std::fs::read_to_string(golden.join(format!("{name}.json"))).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let samples = json["samples"].as_u64().unwrap() as usize;
        let expected = crate::perceiving::floats(json["features_f32_le_base64"].as_str().unwrap());
        let sound = strata_speech::decode(&wav(samples, 0), strata_speech::Limits::default());
        let sound = sound.unwrap();
        assert_eq!(sound.len(), samples, "{name}");
        let found = strata_speech::LogMel::new(8)
            .spectrogram(&sound, samples.next_multiple_of(40 * strata_speech::HOP));
        assert_eq!(found.values.len(), expected.len(), "{name}");
        let pairs = found.values.iter().zip(&expected);
        let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= 1e-4, "{name}: {worst}");
    }
}

#[test]
fn answers_depend_on_the_sound_and_the_cache_on_its_samples() {
    for name in NAMES {
        let model = open(name);
        // More than a page before the sound, and sounds of more than a page.
        let long = "1".repeat(40);
        let one = asking(&long, &[wav(30_000, 0)]);
        let other = asking(&long, &[wav(30_000, 77)]);
        let (first, usage) = answer(&model, &one);
        assert_eq!(usage.cached_tokens, 0, "{name}");
        let (different, apart) = answer(&model, &other);
        assert_ne!(first, different, "{name}: the sound shows");
        let shared = apart.cached_tokens;
        assert!((32..=64).contains(&shared), "{name}: {shared}");
        let (again, cached) = answer(&model, &one);
        assert_eq!(first, again, "{name}");
        assert!(cached.cached_tokens >= shared, "{name}");
        let fresh = open(name);
        assert_eq!(answer(&fresh, &one).0, first, "{name}");
        assert_eq!(answer(&fresh, &other).0, different, "{name}");
    }
}

#[test]
fn several_sounds_and_several_requests_at_once_give_what_each_gives_alone() {
    for name in NAMES {
        let requests: Vec<Generate> = (1..6)
            .map(|seed| asking("123", &[wav(2000 * seed, 3), wav(5000, seed as i64)]))
            .collect();
        let alone: Vec<_> = requests
            .iter()
            .map(|request| answer(&open(name), request).0)
            .collect();
        let model = open(name);
        let together: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = requests
                .iter()
                .map(|request| scope.spawn(|| answer(&model, request).0))
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(together == alone, "{name}");
    }
}

#[test]
fn sound_is_heard_in_history_and_in_results_of_tools() {
    let model = open("voxtral");
    let message = |role, parts: Vec<ContentPart>| {
        let mut message = Message::new(role);
        message.parts = parts;
        message
    };
    let text = |text: &str| ContentPart::Text(text.into());
    let asked = |shift| {
        request(vec![
            message(Role::User, vec![text("A"), audio(wav(4000, shift))]),
            message(Role::Assistant, vec![text("B")]),
            message(Role::Tool, vec![audio(wav(3000, shift)), text("C")]),
            message(Role::User, vec![text("D")]),
        ])
    };
    let prompt = |request: &Generate| match &request.prompts[0] {
        Prompt::Chat(messages) => messages.len(),
        _ => 0,
    };
    assert_eq!(prompt(&asked(0)), 4);
    let (one, usage) = answer(&model, &asked(0));
    // Two windows of five positions, their beginnings, and the letters.
    assert!(usage.prompt_tokens >= 2 * 5 + 4, "{usage:?}");
    assert_ne!(one, answer(&model, &asked(9)).0);
}

#[test]
fn what_a_model_cannot_hear_is_refused_with_a_sentence() {
    let (_folder, path) = folder("qwen2audio", false);
    let deaf = Model::open(&path, Options::default().threads(1)).unwrap();
    let said = |model: &Model, bytes: Vec<u8>| {
        let refused = model.generate(&asking("A", &[bytes]));
        refused.map(|_| ()).unwrap_err().to_string()
    };
    let refused = said(&deaf, wav(4000, 0));
    assert!(refused.contains("cannot hear audio"), "{refused}");
    let hearing = open("qwen2audio");
    for (bytes, words) in [
        (b"not audio".to_vec(), "WAV, FLAC, MP3 and Ogg Vorbis"),
        (wav(0, 0), "no sound"),
        (wav(200, 0), "too short"),
        // A context of 128 positions has no room for a minute.
        (wav(16_000 * 60, 0), "longer than"),
        // Longer than it is.
        (b"RIFF\xff\xff\xff\xffWAVEfmt ".to_vec(), "WAV"),
    ] {
        let refused = said(&hearing, bytes);
        assert!(refused.contains(words), "{refused}");
    }
    // Sound that would fit alone, with too long a text.
    let long = asking(&"1".repeat(120), &[wav(6400, 0)]);
    let refused = hearing.generate(&long).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("128"), "{refused}");
    let mut picture = asking("A", &[]);
    if let Prompt::Chat(messages) = &mut picture.prompts[0] {
        messages[0].parts.push(strata::image(b"BM".to_vec()));
    }
    let refused = hearing.generate(&picture).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("cannot see"), "{refused}");
}

#[test]
fn projectors_of_other_models_are_not_taken() {
    let (_one, hears) = folder("voxtral", false);
    let (_two, sees) = folder_of("golden_vision", "llava", true);
    let projector = sees.with_file_name("mmproj-model.gguf");
    let options = Options::default().threads(1);
    let refused = Model::open(&hears, options.clone().projector(&projector)).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("24") && refused.contains("32"),
        "{refused}"
    );
    let (_three, audio) = folder("voxtral", true);
    let projector = audio.with_file_name("mmproj-model.gguf");
    let refused = Model::open(&sees, options.clone().projector(&projector)).unwrap_err();
    assert!(
        refused.to_string().contains("embeddings of 32"),
        "{refused}"
    );
    std::fs::copy(&projector, sees.with_file_name("mmproj.gguf")).unwrap();
    std::fs::remove_file(sees.with_file_name("mmproj-model.gguf")).unwrap();
    let model = Model::open(&sees, options).unwrap();
    let report = &model.load_report().description;
    assert!(report.contains("no images or audio"), "{report}");
}

#[test]
fn a_folder_of_hugging_face_hears() {
    let listeners = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let listeners = listeners.join("../convert/tests/listeners");
    for name in NAMES {
        // The text model as a file, its ears in a folder.
        let (_folder, path) = folder(name, false);
        let options = Options::default().threads(1);
        let model = Model::open(path, options.projector(listeners.join(name))).unwrap();
        let asked = asking("12", &[wav(9000, 1)]);
        assert_eq!(
            answer(&model, &asked).0,
            answer(&open(name), &asked).0,
            "{name}"
        );
        let report = &model.load_report().description;
        assert!(report.contains("audio through"), "{report}");
    }
}
