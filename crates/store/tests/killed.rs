//! Pulls that are killed: never a name too early, and hardly anything fetched twice.

use crate::loopback::{Manners, Registry, network, noise};
use std::process::{Command, Stdio};
use std::time::Duration;
use strata_store::{Digest, Name, Store, quietly};

const KILLS: u32 = 20;
const BYTES: usize = 40 << 20;

/// What the process that is killed does; alone, this test does nothing.
#[test]
fn child() {
    let (Ok(root), Ok(name)) = (std::env::var("PULL_INTO"), std::env::var("PULL_NAME")) else {
        return;
    };
    Store::open(root)
        .pull(&name, &network(), &mut quietly)
        .unwrap();
}

#[test]
fn twenty_kills_lose_almost_nothing() {
    let registry = Registry::start();
    let weights = noise(BYTES, 11);
    registry.add_model("me/tiny:latest", &weights);
    registry.behave(Manners::Slow(Duration::from_millis(12)));
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path());
    let name: Name = registry.name("me/tiny").parse().unwrap();
    let mut state = 12345u64;
    for _ in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child"])
            .env("PULL_INTO", folder.path())
            .env("PULL_NAME", name.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        std::thread::sleep(Duration::from_millis(30 + (state >> 33) % 120));
        child.kill().unwrap();
        child.wait().unwrap();
        for model in store.list().unwrap().models {
            // Listed: then it is complete.
            assert_eq!(
                std::fs::metadata(&model.weights().unwrap()[0])
                    .unwrap()
                    .len(),
                BYTES as u64
            );
        }
    }
    registry.behave(Manners::Faithful);
    store
        .pull(&name.to_string(), &network(), &mut quietly)
        .unwrap();
    let model = store.find(&name).unwrap();
    let bytes = std::fs::read(&model.weights().unwrap()[0]).unwrap();
    assert_eq!(Digest::of(&bytes), Digest::of(&weights));
    let again = registry.sent().saturating_sub(BYTES as u64);
    assert!(
        again <= BYTES as u64 / 10,
        "{again} bytes were fetched again"
    );
    // Nothing of the killed processes keeps blobs from being collected.
    store.remove(&name).unwrap();
    assert_eq!(
        std::fs::read_dir(folder.path().join("blobs"))
            .unwrap()
            .count(),
        0
    );
}
