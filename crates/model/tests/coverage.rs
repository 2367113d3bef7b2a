//! Every architecture has a golden file.

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
