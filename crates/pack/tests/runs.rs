//! Executables with an archive behind them.

use crate::sample::{LARGE, PROGRAM, SMALL, key, manifest, packed};
use std::process::Command;
use strata_pack::{Artifact, Kind, Manifest, PackError, Zip};

#[test]
fn models_begin_where_they_can_be_mapped() {
    let bytes = packed(manifest(Kind::Run), Some(&key()));
    assert!(bytes.starts_with(PROGRAM));
    let zip = Zip::read(&bytes).unwrap();
    let names: Vec<&str> = zip
        .entries
        .iter()
        .map(|entry| entry.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "manifest.json",
            "manifest.sig",
            "models/fox-q8_0.gguf",
            "models/fox-q4_0.gguf"
        ]
    );
    for (entry, model) in zip.entries[2..].iter().zip([LARGE, SMALL]) {
        let range = entry.range.start as usize..entry.range.end as usize;
        assert_eq!(range.start % (64 << 10), 0);
        assert_eq!(&bytes[range], model);
    }
    let artifact = Artifact::read(&bytes).unwrap();
    assert_eq!(artifact.program(), PROGRAM);
    assert_eq!(artifact.manifest.name, "fox");
}

/// `unzip` and Python's `zipfile` find nothing wrong, and take the models out.
#[test]
fn other_programs_take_the_models_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fox.run");
    std::fs::write(&path, packed(manifest(Kind::Run), Some(&key()))).unwrap();
    let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\n\
                  z.extractall(sys.argv[2])";
    let by_unzip = folder.path().join("unzip");
    let by_python = folder.path().join("python");
    let unzip = Command::new("unzip")
        .arg("-q")
        .arg(&path)
        .arg("-d")
        .arg(&by_unzip)
        .output();
    let python = Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .arg(&by_python)
        .output();
    for (output, folder) in [(unzip, by_unzip), (python, by_python)] {
        let Ok(output) = output else {
            eprintln!("{} is not here", folder.display());
            continue;
        };
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        assert_eq!(read("models/fox-q8_0.gguf"), LARGE);
        assert_eq!(read("models/fox-q4_0.gguf"), SMALL);
        assert_eq!(Manifest::parse(&read("manifest.json")).unwrap().name, "fox");
    }
}

#[test]
fn manifests_that_make_no_sense() {
    let good = String::from_utf8(manifest(Kind::Run).to_bytes()).unwrap();
    assert!(Manifest::parse(good.as_bytes()).is_ok());
    for (from, to) in [
        ("\"format\": 1", "\"format\": 2"),
        ("\"format\": 1", "\"format\": -1"),
        ("\"run\"", "\"walk\""),
        ("\"name\"", "\"surname\""),
        ("fox-q8_0.gguf", "../fox.gguf"),
        ("fox-q8_0.gguf", "a/b.gguf"),
        ("fox-q8_0.gguf", ".hidden"),
        ("fox-q8_0.gguf", ""),
        ("{", "["),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        assert!(Manifest::parse(bad.as_bytes()).is_err(), "{to}");
    }
    let newer = good.replacen("\"format\": 1", "\"format\": 2", 1);
    let refused = Manifest::parse(newer.as_bytes()).unwrap_err();
    assert_eq!(refused, PackError::Format { found: 2, known: 1 });
}

#[test]
fn other_files_are_no_artifacts() {
    for bytes in [&b""[..], b"GGUF", PROGRAM, b"strata pack", &[0; 4096]] {
        assert_eq!(Artifact::read(bytes).unwrap_err(), PackError::Unknown);
    }
}
