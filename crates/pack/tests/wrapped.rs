//! Executables in container images and Debian packages.

use crate::sample::{PROGRAM, key, manifest, packed};
use std::path::Path;
use std::process::{Command, Output};
use strata_pack::{Artifact, Contents, Kind, OciImage, PackError};
use tempfile::TempDir;

/// What a program says, if it is here.
fn say(program: &str, arguments: &[&str]) -> Option<String> {
    let output: Output = Command::new(program).args(arguments).output().ok()?;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn written(kind: Kind) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("fox.{}", kind.ending()));
    std::fs::write(&path, packed(manifest(kind), Some(&key()))).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn every_kind_is_read_and_verified() {
    for kind in Kind::ALL {
        let bytes = packed(manifest(kind), Some(&key()));
        assert!(
            bytes == packed(manifest(kind), Some(&key())),
            "the same bytes"
        );
        let artifact = Artifact::read(&bytes).unwrap();
        assert_eq!(artifact.manifest.kind, kind);
        assert_eq!(artifact.program(), PROGRAM);
        assert_eq!(
            artifact.verify(Some(&key().public())),
            Ok(Some(key().public()))
        );
        for at in (0..4000)
            .step_by(61)
            .chain((bytes.len() - 4000..bytes.len()).step_by(61))
        {
            let mut changed = bytes.clone();
            changed[at] ^= 0x20;
            let read = Artifact::read(&changed).and_then(|artifact| artifact.verify(None));
            assert!(read.is_err(), "{kind:?}: byte {at}");
        }
        for length in (0..bytes.len()).step_by(4099) {
            assert!(
                Artifact::read(&bytes[..length]).is_err(),
                "{kind:?}: {length}"
            );
        }
    }
}

#[test]
fn dpkg_takes_the_package_apart() {
    let (folder, path) = written(Kind::Deb);
    let Some(info) = say("dpkg-deb", &["--info", &path]) else {
        eprintln!("dpkg-deb is not here");
        return;
    };
    for words in [
        "Package: strata-fox",
        "Version: 0.1.0",
        "Architecture: amd64",
    ] {
        assert!(info.contains(words), "{info}");
    }
    let out = folder.path().join("out");
    say("dpkg-deb", &["--extract", &path, out.to_str().unwrap()]).unwrap();
    let run = std::fs::read(out.join("usr/bin/strata-fox")).unwrap();
    assert!(run.starts_with(PROGRAM));
    assert_eq!(Artifact::read(&run).unwrap().manifest.kind, Kind::Deb);
    let unit = out.join("lib/systemd/system/strata-fox.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    assert!(
        unit.contains("ExecStart=/usr/bin/strata-fox serve"),
        "{unit}"
    );
    for word in ["tale", "%d", "LoadCredential", "/strata/"] {
        assert!(!unit.contains(word), "{word} in {unit}");
    }
    let changelog = out.join("usr/share/doc/strata-fox/changelog.gz");
    if let Some(text) = say("gzip", &["-dc", changelog.to_str().unwrap()]) {
        assert!(text.starts_with("strata-fox (0.1.0)"), "{text}");
    }
    let page = out.join("usr/share/man/man1/strata-fox.1.gz");
    if let Some(text) = say("gzip", &["-dc", page.to_str().unwrap()]) {
        assert!(text.starts_with(".TH STRATA-FOX 1"), "{text}");
    }
    let listed = say("dpkg-deb", &["--contents", &path]).unwrap();
    assert!(
        listed.contains("-rwxr-xr-x root/root") || listed.contains("-rwxr-xr-x 0/0"),
        "{listed}"
    );
}

/// The layout by the specification's own words, without other programs.
#[test]
fn the_image_is_a_layout() {
    let (folder, path) = written(Kind::Oci);
    let out = folder.path().join("layout");
    std::fs::create_dir(&out).unwrap();
    say("tar", &["-xf", &path, "-C", out.to_str().unwrap()]).expect("tar");
    let json = |path: &Path| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let blob = |descriptor: &serde_json::Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        let hex = digest.strip_prefix("sha256:").unwrap();
        let path = out.join("blobs/sha256").join(hex);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(strata_pack::sha256(&bytes), hex);
        assert_eq!(bytes.len() as u64, descriptor["size"].as_u64().unwrap());
        path
    };
    let index = json(&out.join("index.json"));
    let image = json(&blob(&index["manifests"][0]));
    let config = json(&blob(&image["config"]));
    blob(&image["layers"][0]);
    assert_eq!(
        config["rootfs"]["diff_ids"][0],
        image["layers"][0]["digest"]
    );
    assert_eq!(config["config"]["User"], "10001:10001");
    assert_eq!(config["config"]["Entrypoint"][0], "/strata.run");
    assert_eq!(config["config"]["Healthcheck"]["Test"][2], "health");
}

#[test]
fn an_image_comes_in_the_pieces_that_a_registry_takes() {
    let bytes = packed(manifest(Kind::Oci), None);
    let image = OciImage::read(&bytes).unwrap();
    let described: serde_json::Value = serde_json::from_slice(image.manifest).unwrap();
    let digests = [&described["config"], &described["layers"][0]]
        .map(|descriptor| descriptor["digest"].as_str().unwrap().to_owned());
    let found = image
        .blobs
        .iter()
        .map(|(digest, _)| format!("sha256:{digest}"));
    let found: Vec<String> = found.collect();
    assert_eq!(found, digests);
    let mut changed = bytes.clone();
    let at = bytes.len() - 4000;
    changed[at] ^= 1;
    assert!(matches!(
        OciImage::read(&changed).map(drop),
        Err(PackError::Digest { .. })
    ));
    for kind in [Kind::Run, Kind::Deb, Kind::Snap] {
        let bytes = packed(manifest(kind), None);
        let read = OciImage::read(&bytes).map(drop);
        assert_eq!(read, Err(PackError::Unknown), "{kind:?}");
    }
}

#[test]
fn skopeo_and_umoci_take_the_image() {
    let (folder, path) = written(Kind::Oci);
    let archive = format!("oci-archive:{path}");
    if let Some(text) = say("skopeo", &["inspect", &archive]) {
        assert!(text.contains("\"Architecture\": \"amd64\""), "{text}");
        let copy = format!("oci:{}:latest", folder.path().join("copy").display());
        say("skopeo", &["--insecure-policy", "copy", &archive, &copy]).unwrap();
    } else {
        eprintln!("skopeo is not here");
    }
    let layout = folder.path().join("layout");
    std::fs::create_dir(&layout).unwrap();
    say("tar", &["-xf", &path, "-C", layout.to_str().unwrap()]).expect("tar");
    let image = format!("{}:latest", layout.display());
    let bundle = folder.path().join("bundle");
    let words = [
        "unpack",
        "--rootless",
        "--image",
        &image,
        bundle.to_str().unwrap(),
    ];
    if say("umoci", &words).is_none() {
        eprintln!("umoci is not here");
        return;
    }
    let run = std::fs::read(bundle.join("rootfs/strata.run")).unwrap();
    assert_eq!(Artifact::read(&run).unwrap().manifest.kind, Kind::Oci);
    let config = std::fs::read_to_string(bundle.join("config.json")).unwrap();
    assert!(config.contains("/strata.run"), "{config}");
}

/// A container has no libraries; a program that needs some is refused.
#[test]
fn images_hold_static_programs_only() {
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let contents = Contents::new(manifest(Kind::Oci), &program, Vec::new(), None);
    let refused = contents.layout().map(drop);
    if !cfg!(target_feature = "crt-static") {
        assert_eq!(refused, Err(PackError::Dynamic));
    }
}
