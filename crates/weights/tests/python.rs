//! Agreement with the `gguf` Python package: its files read here, and files written here are its own,
//! byte for byte. `tools/gguf_roundtrip.py` made the samples.

use crate::content::{describe, rewrite, sample};
use serde_json::Value as Json;
use strata_weights::gguf::{Gguf, GgufError, GgufSet, SplitName};

const SAMPLES: [&str; 7] = [
    "all_types",
    "aligned_8",
    "aligned_256",
    "vocabulary",
    "split-00001-of-00003",
    "split-00002-of-00003",
    "split-00003-of-00003",
];

#[test]
fn samples_read_as_the_package_reads_them() {
    for name in SAMPLES {
        let bytes = sample(&format!("{name}.gguf"));
        let expected: Json =
            serde_json::from_slice(&sample(&format!("{name}.json"))).expect("JSON");
        let gguf = Gguf::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(describe(&gguf), expected, "{name}");
    }
}

#[test]
fn samples_are_written_byte_for_byte() {
    for name in SAMPLES {
        let bytes = sample(&format!("{name}.gguf"));
        let gguf = Gguf::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            rewrite(&gguf) == bytes,
            "{name} is written otherwise than the package writes it"
        );
    }
}

#[test]
fn version_2_reads_like_version_3() {
    let mut bytes = sample("all_types.gguf");
    bytes[4] = 2;
    let gguf = Gguf::parse(&bytes).expect("version 2");
    assert_eq!(gguf.version(), 2);
    let mut expected: Json = serde_json::from_slice(&sample("all_types.json")).expect("JSON");
    expected["version"] = 2.into();
    assert_eq!(describe(&gguf), expected);
}

#[test]
fn big_endian_is_refused_by_name() {
    let bytes = sample("big_endian.gguf");
    let error = Gguf::parse(&bytes).expect_err("big-endian");
    assert_eq!(error, GgufError::BigEndian { offset: 4 });
    assert!(error.to_string().contains("big-endian"), "{error}");
}

#[test]
fn the_packages_split_set_joins() {
    let name = SplitName::parse("split-00002-of-00003.gguf").expect("a split name");
    let files: Vec<Vec<u8>> = name.names().map(|name| sample(&name)).collect();
    let parts = files
        .iter()
        .map(|file| Gguf::parse(file).expect("a part"))
        .rev()
        .collect();
    let set = GgufSet::new(parts).expect("a set");
    let names: Vec<&str> = set.tensors().iter().map(|tensor| tensor.name).collect();
    assert_eq!(
        names,
        [
            "blk.0.weight",
            "blk.1.weight",
            "blk.2.weight",
            "blk.3.weight",
            "blk.4.weight"
        ]
    );
    assert_eq!(set.metadata().u32("llama.block_count"), Ok(Some(5)));
    let last = set.tensor("blk.4.weight").expect("in the last part");
    assert_eq!(last.data, [4.0f32; 8].map(f32::to_le_bytes).as_flattened());
}

/// Needs a Python with the `gguf` package, named by `STRATA_PYTHON`.
#[test]
fn the_package_reads_files_written_here() {
    let Some(python) = std::env::var_os("STRATA_PYTHON") else {
        eprintln!("skipped: STRATA_PYTHON is not set");
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/gguf_roundtrip.py");
    let path = std::env::temp_dir().join(format!("strata-weights-{}.gguf", std::process::id()));
    for name in SAMPLES {
        let bytes = sample(&format!("{name}.gguf"));
        let written = rewrite(&Gguf::parse(&bytes).expect("a sample"));
        std::fs::write(&path, &written).expect("a temporary file");
        let output = std::process::Command::new(&python)
            .arg(script)
            .arg("check")
            .arg(&path)
            .output();
        let output = output.expect("python runs");
        assert!(
            output.status.success(),
            "gguf_roundtrip.py: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        let read: Json = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(
            read,
            describe(&Gguf::parse(&written).expect("written here")),
            "{name}"
        );
    }
    std::fs::remove_file(&path).expect("the temporary file");
}
