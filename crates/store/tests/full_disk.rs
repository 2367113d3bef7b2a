//! A disk that is full: a clear error, and the next pull goes on from there.
#![cfg(target_os = "linux")]

use crate::loopback::{Registry, network, noise};
use std::process::Command;
use strata_store::{Store, StoreError, quietly};

/// What runs with the small disk mounted; alone, this test does nothing.
#[test]
fn child() {
    let (Ok(root), Ok(name)) = (std::env::var("PULL_INTO"), std::env::var("PULL_NAME")) else {
        return;
    };
    let store = Store::open(&root);
    let ballast = std::path::Path::new(&root).join("ballast");
    std::fs::write(&ballast, noise(8 << 20, 1)).unwrap();
    let error = store.pull(&name, &network(), &mut quietly).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(
        error.to_string().contains("no space left on the disk"),
        "{error}"
    );
    assert!(store.list().unwrap().models.is_empty());
    std::fs::remove_file(ballast).unwrap();
    store.pull(&name, &network(), &mut quietly).unwrap();
    assert_eq!(store.list().unwrap().models.len(), 1);
}

#[test]
fn a_full_disk_is_said_to_be_full_and_the_pull_goes_on_later() {
    let registry = Registry::start();
    let len = 12 << 20;
    registry.add_model("me/tiny:latest", &noise(len, 2));
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=16m none \"$PULL_INTO\"";
    let small_disk = |work: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["-rm", "sh", "-c", &format!("{mount} && {work}")])
            .env("PULL_INTO", folder.path())
            .env("PULL_NAME", registry.name("me/tiny"))
            .env("TEST", std::env::current_exe().unwrap());
        command.output()
    };
    if !small_disk("true").is_ok_and(|output| output.status.success()) {
        eprintln!("no small disk can be mounted here: nothing was tested");
        return;
    }
    let output = small_disk("\"$TEST\" --exact full_disk::child --nocapture").unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let again = registry.sent().saturating_sub(len as u64);
    assert!(again < 8 << 20, "{again} bytes were fetched again");
}
