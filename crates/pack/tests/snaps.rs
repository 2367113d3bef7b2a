//! Executables in snaps, read by squashfs-tools, snapd and Linux.

use crate::sample::{PROGRAM, key, manifest, packed};
use std::path::Path;
use std::process::Command;
use strata_pack::{Artifact, Kind};
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
