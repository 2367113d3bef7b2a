//! Registries that lie: nothing of theirs gets a name, and nobody else hears our secrets.

use crate::loopback::{Manners, Registry, network, noise};
use std::time::{Duration, Instant};
use strata_store::{
    CONFIG_TYPE, Digest, Layer, Manifest, NetError, Network, PrivateHosts, RetryPolicy, Store,
    StoreError, media_type, quietly,
};

/// The error of a pull, after which nothing must be listed and no blob be there.
fn refused(registry: &Registry, network: &Network) -> StoreError {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("models"));
    let name = registry.name("me/tiny");
    let error = store.pull(&name, network, &mut quietly).unwrap_err();
    assert!(store.list().unwrap().models.is_empty(), "{error}");
    let blobs = std::fs::read_dir(store.root().join("blobs"));
    assert_eq!(blobs.map_or(0, |blobs| blobs.count()), 0, "{error}");
    let outside: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(outside.len() <= 1, "{outside:?}");
    error
}

fn tiny(manners: Manners) -> Registry {
    let registry = Registry::start();
    registry.add_model("me/tiny:latest", &noise(100_000, 9));
    registry.behave(manners);
    registry
}

fn with_layer(digest: &str, size: &str) -> Registry {
    let registry = Registry::start();
    registry.add_blob(b"weights");
    let text = format!(
        "{{\"schemaVersion\":2,\"layers\":[{{\"mediaType\":\"{}\",\"digest\":\"{digest}\",\"size\":{size}}}]}}",
        media_type::MODEL
    );
    registry.add_manifest("me/tiny:latest", text.as_bytes());
    registry
}

#[test]
fn wrong_bytes_get_no_name_and_are_not_kept() {
    let registry = tiny(Manners::WrongByte);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path());
    let name = registry.name("me/tiny");
    let error = store.pull(&name, &network(), &mut quietly).unwrap_err();
    assert!(matches!(error, StoreError::WrongDigest { .. }), "{error}");
    registry.behave(Manners::Faithful);
    store.pull(&name, &network(), &mut quietly).unwrap();
}

#[test]
fn digests_that_are_paths_are_refused_before_anything_is_asked() {
    for digest in [
        "sha256:../../../../../../tmp/owned",
        "../../x",
        "sha256-..",
        "sha256:",
        "sha256:%2e%2e%2f",
        "md5:d41d8cd98f00b204e9800998ecf8427e",
    ] {
        let registry = with_layer(digest, "7");
        let error = refused(&registry, &network());
        assert!(
            matches!(error, StoreError::Manifest { .. }),
            "{digest}: {error}"
        );
        assert_eq!(registry.requests().len(), 1);
    }
}

#[test]
fn sizes_are_those_of_the_manifest() {
    let digest = Digest::of(b"weights").to_string();
    for (size, expected) in [
        ("8", "instead of"),
        ("6", "instead of"),
        ("999999999999999999", "instead of"),
    ] {
        let error = refused(&with_layer(&digest, size), &network()).to_string();
        assert!(
            error.contains(expected) || error.contains("no space"),
            "{size}: {error}"
        );
    }
    for size in ["-1", "1.5", "18446744073709551616", "\"7\"", "null"] {
        let error = refused(&with_layer(&digest, size), &network());
        assert!(
            matches!(error, StoreError::Manifest { .. }),
            "{size}: {error}"
        );
    }
}

#[test]
fn an_endless_body_is_cut_off() {
    let registry = tiny(Manners::Endless);
    let error = refused(&registry, &network());
    assert!(
        matches!(error, StoreError::Net(NetError::Long { .. })),
        "{error}"
    );
    assert!(registry.sent() < 64 << 20, "{}", registry.sent());
}

#[test]
fn other_ranges_and_compressed_bytes_are_refused() {
    let error = refused(&tiny(Manners::WrongRange), &network());
    assert!(
        matches!(error, StoreError::Net(NetError::Range { .. })),
        "{error}"
    );
    let error = refused(&tiny(Manners::Compressed), &network());
    assert!(
        matches!(error, StoreError::Net(NetError::Encoding { .. })),
        "{error}"
    );
}

#[test]
fn a_server_that_only_stalls_is_given_up() {
    let start = Instant::now();
    let registry = Registry::start();
    // Half of what is left is nothing: no progress at all.
    registry.add_model("me/tiny:latest", b"w");
    registry.behave(Manners::Stalls(u64::MAX));
    let error = refused(&registry, &network());
    assert!(
        matches!(error, StoreError::Net(NetError::Stalled(_))),
        "{error}"
    );
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_manifest_that_does_not_come_is_given_up_soon() {
    let drip = Manners::DrippingManifest(Duration::from_millis(200));
    for manners in [Manners::SilentManifest, drip] {
        let start = Instant::now();
        let patient = Network {
            retry: RetryPolicy {
                stall: Duration::from_secs(30),
                document: Duration::from_millis(1200),
                tries: 6,
                ..network().retry
            },
            ..network()
        };
        let error = refused(&tiny(manners.clone()), &patient);
        assert!(
            matches!(error, StoreError::Net(NetError::Stalled(_))),
            "{manners:?}: {error}"
        );
        let took = start.elapsed();
        assert!(took < Duration::from_secs(3), "{manners:?}: {took:?}");
    }
}

#[test]
fn a_small_layer_that_stalls_is_given_up_like_a_manifest() {
    let start = Instant::now();
    let registry = Registry::start();
    registry.add_model("me/tiny:latest", b"w");
    registry.behave(Manners::Stalls(u64::MAX));
    let patient = Network {
        retry: RetryPolicy {
            stall: Duration::from_secs(30),
            document: Duration::from_millis(800),
            tries: 6,
            ..network().retry
        },
        ..network()
    };
    let error = refused(&registry, &patient);
    assert!(
        matches!(error, StoreError::Net(NetError::Stalled(_))),
        "{error}"
    );
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[test]
fn a_manifest_without_weights_gets_no_name() {
    let config = Digest::of(b"{}");
    let license = Digest::of(b"MIT");
    let layer = |kind: &str, digest: &Digest, size: usize| {
        format!("{{\"mediaType\":\"{kind}\",\"digest\":\"{digest}\",\"size\":{size}}}")
    };
    let only_license = layer(media_type::LICENSE, &license, 3);
    for layers in ["null".into(), "[]".into(), format!("[{only_license}]")] {
        let registry = Registry::start();
        registry.add_blob(b"{}");
        registry.add_blob(b"MIT");
        let config = layer(CONFIG_TYPE, &config, 2);
        let text = format!("{{\"schemaVersion\":2,\"config\":{config},\"layers\":{layers}}}");
        registry.add_manifest("me/tiny:latest", text.as_bytes());
        let error = refused(&registry, &network());
        assert!(
            matches!(error, StoreError::NoWeights(_)),
            "{layers}: {error}"
        );
        assert_eq!(registry.requests().len(), 1, "{layers}");
    }
}

#[test]
fn manifests_that_are_rubbish_are_refused() {
    for text in [
        "",
        "<html>",
        "{}",
        "[]",
        "{\"schemaVersion\":2,\"layers\":{}}",
    ] {
        let registry = Registry::start();
        registry.add_manifest("me/tiny:latest", text.as_bytes());
        let error = refused(&registry, &network());
        assert!(
            matches!(error, StoreError::Manifest { .. }),
            "{text}: {error}"
        );
    }
    let registry = Registry::start();
    registry.add_manifest("me/tiny:latest", &vec![b' '; 5 << 20]);
    let error = refused(&registry, &network());
    assert!(
        matches!(error, StoreError::Net(NetError::Long { .. })),
        "{error}"
    );
}

#[test]
fn a_redirect_takes_no_credentials_along() {
    let storage = tiny(Manners::Faithful);
    let registry = tiny(Manners::Token(String::new()));
    registry.behave(Manners::Token(format!("http://{}/token", registry.host)));
    // The first answers are refusals; once the token is known, blobs are elsewhere.
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path());
    let mut seen = 0;
    let mut turn = |step: &strata_store::Progress| {
        seen += 1;
        if step.status.starts_with("pulling ") && step.digest.is_none() && seen == 1 {
            return std::ops::ControlFlow::Continue(());
        }
        registry.behave(Manners::Redirects(format!("http://{}", storage.host)));
        std::ops::ControlFlow::Continue(())
    };
    store
        .pull(&registry.name("me/tiny"), &network(), &mut turn)
        .unwrap();
    let told = registry.requests();
    assert!(
        told.iter()
            .any(|asked| asked.headers.contains_key("authorization"))
    );
    let asked = storage.requests();
    assert!(!asked.is_empty());
    for asked in asked {
        assert!(!asked.headers.contains_key("authorization"), "{asked:?}");
    }
}

#[test]
fn redirects_end() {
    let registry = Registry::start();
    registry.add_model("me/tiny:latest", b"weights");
    registry.behave(Manners::Redirects(format!("http://{}", registry.host)));
    let error = refused(&registry, &network());
    assert!(
        matches!(error, StoreError::Net(NetError::Redirects(_))),
        "{error}"
    );
    assert!(registry.requests().len() < 30);
}

#[test]
fn our_own_network_and_unlisted_hosts_can_be_out_of_reach() {
    let registry = tiny(Manners::Faithful);
    let guarded = Network {
        private_hosts: PrivateHosts::Never,
        ..network()
    };
    let error = refused(&registry, &guarded);
    assert!(
        matches!(error, StoreError::Net(NetError::Private(_))),
        "{error}"
    );
    let listed = Network {
        hosts: Some(vec!["registry.example".into()]),
        ..network()
    };
    let error = refused(&registry, &listed);
    assert!(
        matches!(error, StoreError::Net(NetError::NotAllowed(_))),
        "{error}"
    );
    assert!(registry.requests().is_empty());
}

#[test]
fn a_layer_that_the_registry_lacks_is_an_error() {
    let registry = Registry::start();
    let missing = Layer {
        media_type: media_type::MODEL.into(),
        digest: Digest::of(b"nowhere"),
        size: 7,
        from: None,
    };
    let manifest = Manifest {
        config: None,
        layers: vec![missing],
    };
    registry.add_manifest("me/tiny:latest", &manifest.to_json());
    let error = refused(&registry, &network()).to_string();
    assert!(error.contains("a blob of the manifest"), "{error}");
}
