//! Who signed, what was signed, and what is refused.

use crate::sample::{LARGE, key, manifest, packed};
use std::process::Command;
use strata_pack::{Artifact, Kind, PackError, PublicKey, SigningKey};

#[test]
fn the_same_contents_give_the_same_bytes() {
    let key = key();
    let first = packed(manifest(Kind::Run), Some(&key));
    assert_eq!(first, packed(manifest(Kind::Run), Some(&key)));
    assert_ne!(first, packed(manifest(Kind::Run), None));
}

#[test]
fn signatures_are_checked_against_who_is_trusted() {
    let key = key();
    let bytes = packed(manifest(Kind::Run), Some(&key));
    let artifact = Artifact::read(&bytes).unwrap();
    assert_eq!(artifact.verify(None), Ok(Some(key.public())));
    assert_eq!(artifact.verify(Some(&key.public())), Ok(Some(key.public())));
    let other = SigningKey::from_seed([4; 32]).public();
    let refused = artifact.verify(Some(&other));
    assert!(
        matches!(refused, Err(PackError::Signer { .. })),
        "{refused:?}"
    );
    let unsigned = packed(manifest(Kind::Run), None);
    let artifact = Artifact::read(&unsigned).unwrap();
    assert_eq!(artifact.verify(None), Ok(None));
    assert!(matches!(
        artifact.verify(Some(&other)),
        Err(PackError::Unsigned(_))
    ));
}

/// Every byte counts: of the program, the manifest, the signature, the models, the directory, and the gaps.
#[test]
fn no_byte_can_change() {
    let bytes = packed(manifest(Kind::Run), Some(&key()));
    let model = bytes
        .windows(64)
        .position(|window| window == &LARGE[..64])
        .unwrap();
    let inside = model + 3000..model + LARGE.len() - 3000;
    let places = (0..bytes.len()).filter(|at| !inside.contains(at) || at % 9973 == 0);
    for at in places
        .filter(|at| *at < 2000 || *at > 60_000 || at % 997 == 0)
        .step_by(7)
    {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        let verified = Artifact::read(&changed).and_then(|artifact| artifact.verify(None));
        assert!(verified.is_err(), "byte {at}");
    }
    for more in [&b"x"[..], b"strata pack"] {
        let longer = [&bytes, more].concat();
        let verified = Artifact::read(&longer).and_then(|artifact| artifact.verify(None));
        assert!(verified.is_err(), "{more:?}");
    }
}

#[test]
fn what_is_cut_off_is_refused() {
    let bytes = packed(manifest(Kind::Run), Some(&key()));
    for length in (0..bytes.len())
        .step_by(1009)
        .chain(bytes.len() - 200..bytes.len())
    {
        assert!(Artifact::read(&bytes[..length]).is_err(), "{length}");
        let tail = &bytes[bytes.len() - length..];
        let read = Artifact::read(tail).and_then(|artifact| artifact.verify(None));
        assert!(read.is_err() || length == bytes.len(), "{length}");
    }
}

/// OpenSSL takes our keys, finds our signature good, and signs with the same bytes.
#[test]
fn openssl_agrees() {
    let openssl = |arguments: &[&str]| Command::new("openssl").args(arguments).output();
    if openssl(&["version"]).is_err() {
        eprintln!("openssl is not here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let key = key();
    std::fs::write(path("key"), key.to_pem()).unwrap();
    std::fs::write(path("pub"), key.public().to_pem()).unwrap();
    std::fs::write(path("message"), manifest(Kind::Run).to_bytes()).unwrap();
    let ours = key.sign(&manifest(Kind::Run).to_bytes());
    std::fs::write(path("sig"), ours).unwrap();
    let (message, sig) = (path("message"), path("sig"));
    let checked = openssl(&[
        "pkeyutl",
        "-verify",
        "-pubin",
        "-inkey",
        &path("pub"),
        "-rawin",
        "-in",
        &message,
        "-sigfile",
        &sig,
    ]);
    let checked = checked.unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    let theirs = path("theirs");
    let signed = openssl(&[
        "pkeyutl",
        "-sign",
        "-inkey",
        &path("key"),
        "-rawin",
        "-in",
        &message,
        "-out",
        &theirs,
    ]);
    assert!(signed.unwrap().status.success());
    assert_eq!(std::fs::read(theirs).unwrap(), ours);
    let made = path("made");
    openssl(&["genpkey", "-algorithm", "ed25519", "-out", &made]).unwrap();
    let made_public = path("made.pub");
    openssl(&["pkey", "-in", &made, "-pubout", "-out", &made_public]).unwrap();
    let read = |path: String| std::fs::read_to_string(path).unwrap();
    let made = SigningKey::from_pem(&read(made)).unwrap();
    assert_eq!(PublicKey::from_pem(&read(made_public)), Ok(made.public()));
}
