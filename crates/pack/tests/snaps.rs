//! Executables in snaps, read by squashfs-tools, snapd and Linux.

use crate::sample::{LARGE, PROGRAM, SMALL, key, manifest, packed};
use std::path::Path;
use std::process::Command;
use strata_pack::{
    Artifact, Contents, Kind, Manifest, PackError, PackedProgram, SigningKey, component_name,
    sha256,
};
use tempfile::TempDir;

/// What a program says, if it is here.
fn say(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn written(name: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fox.snap");
    let mut manifest = manifest(Kind::Snap);
    manifest.name = name.into();
    std::fs::write(&path, packed(manifest, Some(&key()))).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

fn look(root: &Path) {
    let run = std::fs::read(root.join("bin/strata.run")).unwrap();
    assert!(run.starts_with(PROGRAM));
    assert_eq!(Artifact::read(&run).unwrap().manifest.kind, Kind::Snap);
    let yaml = std::fs::read_to_string(root.join("meta/snap.yaml")).unwrap();
    for line in [
        "name: strata-fox",
        "architectures: [amd64]",
        "    command: bin/strata.run serve --log-format json",
    ] {
        assert!(yaml.lines().any(|found| found == line), "{yaml}");
    }
    let hook = std::fs::read_to_string(root.join("meta/hooks/install")).unwrap();
    assert!(hook.contains("use-engine --auto"), "{hook}");
}

#[test]
fn squashfs_tools_read_the_snap() {
    let (folder, path) = written("fox");
    let Some(listed) = say("unsquashfs", &["-lln", &path]) else {
        eprintln!("unsquashfs is not here");
        return;
    };
    let program = listed.lines().find(|line| line.ends_with("bin/strata.run"));
    let program = program.unwrap_or_default();
    assert!(program.starts_with("-rwxr-xr-x 0/0"), "{listed}");
    let root = folder.path().join("root");
    say("unsquashfs", &["-d", root.to_str().unwrap(), &path]).unwrap();
    look(&root);
    if let Some(said) = say(
        "snap",
        &["pack", "--check-skeleton", root.to_str().unwrap()],
    ) {
        assert!(!said.contains("error"), "{said}");
    } else {
        eprintln!("snap is not here");
    }
}

/// As root on a machine that lets us.
#[test]
fn linux_mounts_the_snap() {
    let (folder, path) = written("fox");
    let root = folder.path().join("mounted");
    std::fs::create_dir(&root).unwrap();
    let words = [
        "-t",
        "squashfs",
        "-o",
        "loop,ro",
        &path,
        root.to_str().unwrap(),
    ];
    let mounted = Command::new("mount").args(words).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!("this system does not mount squashfs");
        return;
    }
    let looked = std::panic::catch_unwind(|| look(&root));
    say("umount", &[root.to_str().unwrap()]).unwrap();
    looked.unwrap();
}

#[test]
fn names_are_as_snapd_wants_them() {
    for (name, line) in [
        ("Qwen3 0.6B--Q4_K_M", "name: strata-qwen3-0-6b-q4-k-m\n"),
        ("é", "name: strata\n"),
        (
            &"a-".repeat(50),
            "name: strata-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a\n",
        ),
    ] {
        let (_folder, path) = written(name);
        let bytes = std::fs::read(path).unwrap();
        let wanted = line.as_bytes();
        let found = bytes.windows(wanted.len()).any(|window| window == wanted);
        assert!(found, "{name}: {line}");
    }
}

/// The sample as a snap without models, and each of them as a component.
fn split(key: Option<&SigningKey>) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut snap = manifest(Kind::Snap);
    for model in &mut snap.models {
        model.component = Some(component_name(&model.file));
    }
    let models = snap.models.iter().zip([LARGE, SMALL]);
    let component = |(model, bytes): (&_, _)| {
        let manifest = Manifest {
            kind: Kind::Component,
            models: vec![Clone::clone(model)],
            program: PackedProgram {
                bytes: 0,
                sha256: sha256(b""),
                ..snap.program.clone()
            },
            ..snap.clone()
        };
        let contents = Contents::new(manifest, b"", vec![bytes], key);
        contents.layout().unwrap().to_vec()
    };
    let components = models.map(component).collect();
    let snap = Contents::new(snap, PROGRAM, Vec::new(), key);
    (snap.layout().unwrap().to_vec(), components)
}

#[test]
fn models_come_in_components() {
    let (snap, components) = split(Some(&key()));
    assert!(snap.len() < LARGE.len());
    let whole = Artifact::read(&snap).unwrap();
    whole.verify(Some(&key().public())).unwrap();
    let missing = whole.verify_model(0);
    assert!(matches!(missing, Err(PackError::Missing(_))), "{missing:?}");
    let yaml = String::from_utf8_lossy(&snap);
    let named = "components:\n  model-fox-q8-0:\n    type: standard\n";
    assert!(yaml.contains(named));
    for (index, bytes) in components.iter().enumerate() {
        let component = Artifact::read(bytes).unwrap();
        assert_eq!(component.manifest.kind, Kind::Component);
        component.verify(Some(&key().public())).unwrap();
        whole.verify_component(index, &component).unwrap();
        let other = whole.verify_component(1 - index, &component);
        assert!(matches!(other, Err(PackError::Missing(_))), "{other:?}");
        // Each byte counts.
        for at in (0..bytes.len()).step_by(997) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let refused = Artifact::read(&changed).and_then(|it| it.verify(None));
            assert!(refused.is_err(), "byte {at}");
        }
    }
    // Signed by nobody, or by somebody else.
    for stranger in [None, Some(SigningKey::from_seed([4; 32]))] {
        let (_, components) = split(stranger.as_ref());
        let component = Artifact::read(&components[0]).unwrap();
        component.verify(None).unwrap();
        assert!(whole.verify_component(0, &component).is_err());
    }
}

#[test]
fn squashfs_tools_read_components() {
    let (_, components) = split(None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fox.comp");
    std::fs::write(&path, &components[1]).unwrap();
    let root = folder.path().join("root");
    let words = ["-d", root.to_str().unwrap(), path.to_str().unwrap()];
    if say("unsquashfs", &words).is_none() {
        eprintln!("unsquashfs is not here");
        return;
    }
    let yaml = std::fs::read_to_string(root.join("meta/component.yaml")).unwrap();
    assert!(yaml.starts_with("component: strata-fox+model-fox-q4-0\ntype: standard\n"));
    let archive = std::fs::read(root.join("model.zip")).unwrap();
    let model = Artifact::read(&archive).unwrap();
    model.verify_model(0).unwrap();
}
