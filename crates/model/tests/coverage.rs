//! Every architecture has a golden file, these stay small, and the documents count them right.

use std::path::Path;
use strata_model::arch;
use strata_model::spec::Role;
use strata_weights::Gguf;

/// The architectures of the golden files in a folder, each of which has its expected values beside it.
fn covered(folder: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "gguf"))
        .filter(|path| path.with_extension("json").is_file())
        .map(|path| {
            let bytes = std::fs::read(&path).unwrap();
            let file = Gguf::parse(&bytes).unwrap();
            let name = file.metadata().str("general.architecture").unwrap();
            name.unwrap().to_owned()
        })
        .collect()
}

#[test]
fn every_architecture_has_a_golden_file() {
    let (logits, states) = (covered("tests/golden"), covered("tests/golden_states"));
    let missing: Vec<&str> = arch::ALL
        .iter()
        .filter(|spec| {
            let covered = match spec.role {
                Role::Decoder => &logits,
                Role::Encoder => &states,
            };
            !covered.iter().any(|name| name == spec.name)
        })
        .map(|spec| spec.name)
        .collect();
    assert!(missing.is_empty(), "no golden file has {missing:?}");
}

/// Bytes of a golden file, and of all of them together, those of towers and of speech included.
const FILE: u64 = 100_000;
const TOGETHER: u64 = 12_000_000;

#[test]
fn golden_files_stay_small() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let bytes_in = |folder: &str| -> u64 {
        let files = std::fs::read_dir(tests.join(folder)).unwrap();
        let sizes = files.map(|file| {
            let file = file.unwrap();
            let bytes = file.metadata().unwrap().len();
            assert!(bytes <= FILE, "{} has {bytes} bytes", file.path().display());
            bytes
        });
        sizes.sum()
    };
    let folders = ["golden", "golden_states", "golden_vision", "golden_speech"];
    let together: u64 = folders.map(bytes_in).iter().sum();
    assert!(together <= TOGETHER, "{together} bytes together");
}

#[test]
fn documents_count_the_architectures_right() {
    let of = |role| arch::ALL.iter().filter(|spec| spec.role == role).count();
    let (decoders, encoders) = (of(Role::Decoder), of(Role::Encoder));
    assert!(decoders + encoders >= 110, "{decoders} and {encoders}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let says = |file: &str, words: &str| {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(text.contains(words), "{file} does not say {words:?}");
    };
    says(
        "README.md",
        &format!("{decoders} architectures of decoders and {encoders} of encoders"),
    );
    says("docs/features.md", &format!("| {decoders} decoders: "));
    says("docs/features.md", &format!("; {encoders} encoders: "));
}
