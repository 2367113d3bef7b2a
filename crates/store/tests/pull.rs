//! Pulling from a registry that behaves, and pushing back to it.

use crate::loopback::{Manners, Registry, network, noise};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use strata_store::{ContainerImage, Digest, Name, NetError, Network, Store, StoreError, quietly};

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("models"));
    (folder, store)
}

#[test]
fn a_model_is_pulled_once_and_is_what_the_registry_has() {
    let registry = Registry::start();
    let weights = noise(20 << 20, 1);
    let manifest = registry.add_model("me/tiny:q4", &weights);
    let (_folder, store) = store();
    let name = registry.name("me/tiny:q4");
    let mut steps = Vec::new();
    let mut watch = |step: &strata_store::Progress| {
        steps.push(step.clone());
        ControlFlow::Continue(())
    };
    let pulled = store.pull(&name, &network(), &mut watch).unwrap();

    assert_eq!(pulled.to_string(), name);
    let model = store.find(&pulled).unwrap();
    assert_eq!(model.digest, Digest::of(&manifest));
    assert_eq!(model.system().unwrap().as_deref(), Some("You are a test."));
    assert_eq!(
        std::fs::read(&model.weights().unwrap()[0]).unwrap(),
        weights
    );
    let on_disk = store
        .root()
        .join("manifests")
        .join(&registry.host)
        .join("me/tiny/q4");
    assert_eq!(std::fs::read(on_disk).unwrap(), manifest);

    let statuses: Vec<&str> = steps.iter().map(|step| step.status.as_str()).collect();
    assert_eq!(statuses.first(), Some(&"pulling manifest"));
    assert_eq!(
        &statuses[statuses.len() - 2..],
        ["writing manifest", "success"]
    );
    let hex = Digest::of(&weights).hex();
    let of_weights = steps
        .iter()
        .filter(|step| step.status == format!("pulling {}", &hex[..12]));
    let completed: Vec<u64> = of_weights.filter_map(|step| step.completed).collect();
    assert!(
        completed.is_sorted(),
        "progress goes backwards: {completed:?}"
    );
    assert_eq!(completed.last(), Some(&(20 << 20)));

    let sent = registry.sent();
    store.pull(&name, &network(), &mut quietly).unwrap();
    assert_eq!(registry.sent(), sent, "nothing is fetched twice");
}

#[test]
fn a_name_that_is_not_there_is_said_to_be_so() {
    let registry = Registry::start();
    let (_folder, store) = store();
    let error = store
        .pull(&registry.name("me/none"), &network(), &mut quietly)
        .unwrap_err();
    assert!(matches!(error, StoreError::NotInRegistry(_)), "{error}");
    assert!(store.list().unwrap().models.is_empty());
}

#[test]
fn a_stopped_pull_goes_on_where_it_was() {
    let registry = Registry::start();
    let weights = noise(24 << 20, 2);
    registry.add_model("me/tiny:latest", &weights);
    registry.behave(Manners::Slow(Duration::from_millis(2)));
    let (_folder, store) = store();
    let name = registry.name("me/tiny");
    let mut stop_midway = |step: &strata_store::Progress| match step.completed {
        Some(completed) if completed > 8 << 20 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let error = store.pull(&name, &network(), &mut stop_midway).unwrap_err();
    assert!(matches!(error, StoreError::Stopped), "{error}");
    assert!(store.list().unwrap().models.is_empty());

    registry.behave(Manners::Faithful);
    store.pull(&name, &network(), &mut quietly).unwrap();
    let again = registry.sent() - weights.len() as u64;
    assert!(again < (24 << 20) / 4, "{again} bytes were fetched again");
}

#[test]
fn two_pulls_of_the_same_share_the_work() {
    let registry = Registry::start();
    let weights = noise(16 << 20, 3);
    registry.add_model("me/tiny:latest", &weights);
    registry.behave(Manners::Slow(Duration::from_millis(1)));
    let (_folder, store) = store();
    let name = registry.name("me/tiny");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| store.pull(&name, &network(), &mut quietly).unwrap());
        }
    });
    assert!(registry.sent() < 17 << 20, "{}", registry.sent());
    assert_eq!(store.list().unwrap().models.len(), 1);
}

#[test]
fn stalls_breaks_and_busy_servers_are_waited_out() {
    for manners in [Manners::Stalls(2), Manners::Breaks(3), Manners::Busy(2)] {
        let registry = Registry::start();
        let weights = noise(9 << 20, 4);
        registry.add_model("me/tiny:latest", &weights);
        registry.behave(manners.clone());
        let (_folder, store) = store();
        let start = Instant::now();
        store
            .pull(&registry.name("me/tiny"), &network(), &mut quietly)
            .unwrap_or_else(|error| panic!("{manners:?}: {error}"));
        assert!(start.elapsed() < Duration::from_secs(15), "{manners:?}");
    }
}

#[test]
fn a_server_without_ranges_will_do() {
    let registry = Registry::start();
    registry.add_model("me/tiny:latest", &noise(10 << 20, 5));
    registry.behave(Manners::IgnoresRanges);
    let (_folder, store) = store();
    store
        .pull(&registry.name("me/tiny"), &network(), &mut quietly)
        .unwrap();
    assert_eq!(store.list().unwrap().models.len(), 1);
}

#[test]
fn a_registry_may_ask_for_a_token_of_its_own() {
    let registry = Registry::start();
    registry.add_model("me/tiny:latest", b"weights");
    registry.behave(Manners::Token(format!("http://{}/token", registry.host)));
    let (_folder, store) = store();
    store
        .pull(&registry.name("me/tiny"), &network(), &mut quietly)
        .unwrap();
}

#[test]
fn what_is_pushed_can_be_pulled() {
    let (source, target) = (Registry::start(), Registry::start());
    let weights = noise((16 << 20) + 77, 6);
    let manifest = source.add_model("me/tiny:latest", &weights);
    let (_folder, store) = store();
    let name = store
        .pull(&source.name("me/tiny"), &network(), &mut quietly)
        .unwrap();
    let copy: Name = target.name("you/copy:v1").parse().unwrap();
    store.copy(&name, &copy).unwrap();
    store
        .push(&copy.to_string(), &network(), &mut quietly)
        .unwrap();
    assert_eq!(
        target.state.manifests.lock().unwrap()["you/copy:v1"],
        manifest
    );
    assert_eq!(
        target.state.blobs.lock().unwrap()[&Digest::of(&weights).to_string()],
        weights
    );

    let (_folder, other) = self::store();
    other
        .pull(&copy.to_string(), &network(), &mut quietly)
        .unwrap();
    // What the registry has is not sent again.
    let uploads = || {
        target
            .requests()
            .iter()
            .filter(|asked| asked.method == "PATCH")
            .count()
    };
    let before = uploads();
    store
        .push(&copy.to_string(), &network(), &mut quietly)
        .unwrap();
    assert_eq!(uploads(), before);
}

#[test]
fn a_container_image_is_pushed() {
    const TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
    let registry = Registry::start();
    let (config, layer) = (b"{}".to_vec(), noise((16 << 20) + 3, 8));
    let image = ContainerImage {
        media_type: TYPE,
        manifest: b"{\"schemaVersion\":2}",
        blobs: [&config, &layer]
            .map(|blob| (Digest::of(blob), &blob[..]))
            .into(),
    };
    let name = registry.name("team/model:1");
    image.push(&name, &network(), &mut quietly).unwrap();
    for blob in [&config, &layer] {
        let blobs = registry.state.blobs.lock().unwrap();
        assert_eq!(blobs[&Digest::of(blob).to_string()], *blob);
    }
    let manifests = registry.state.manifests.lock().unwrap();
    assert_eq!(manifests["team/model:1"], image.manifest);
    let requests = registry.requests();
    let last = requests.last().unwrap();
    assert_eq!(last.headers["content-type"], TYPE);
    drop(manifests);
    let secure = Network {
        insecure: false,
        ..network()
    };
    assert!(matches!(
        image.push(&format!("http://{name}"), &secure, &mut quietly),
        Err(StoreError::Net(NetError::Insecure(_)))
    ));
}

#[test]
fn plain_http_must_be_allowed() {
    let registry = Registry::start();
    registry.add_model("me/tiny:latest", b"weights");
    let (_folder, store) = store();
    let name = format!("http://{}", registry.name("me/tiny"));
    let error = store
        .pull(&name, &Network::default(), &mut quietly)
        .unwrap_err();
    assert!(error.to_string().contains("without TLS"), "{error}");
    assert!(registry.requests().is_empty());
    store.pull(&name, &network(), &mut quietly).unwrap();
}
