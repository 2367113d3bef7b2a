//! Registries that want to know who we are.

use crate::loopback;

use crate::loopback::{Manners, Registry, network, noise};
use strata_store::{Logins, NetError, Network, Store, StoreError, quietly};

/// `me:word` as a registry hears it.
const LOGIN: &str = "Basic bWU6d29yZA==";

fn registry() -> Registry {
    let registry = Registry::start();
    registry.add_model("me/tiny:latest", &noise(100_000, 9));
    registry
}

fn pull(registry: &Registry, logins: Logins) -> Result<(), StoreError> {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path());
    let network = Network {
        logins,
        ..network()
    };
    let name = registry.name("me/tiny");
    store.pull(&name, &network, &mut quietly)?;
    assert_eq!(store.list().unwrap().models.len(), 1);
    Ok(())
}

fn login(host: Option<&str>, password: &str) -> Logins {
    let mut logins = Logins::default();
    logins.add(host, "me", password);
    logins
}

#[test]
fn a_token_is_asked_for_with_name_and_password() {
    let registry = registry();
    let realm = format!("http://{}/token", registry.host);
    registry.behave(Manners::Login(realm, LOGIN.into()));
    pull(&registry, login(Some(&registry.host), "word")).unwrap();
    pull(&registry, login(None, "word")).unwrap();
    for asked in registry.requests() {
        let given = asked.headers.get("authorization").map(String::as_str);
        let expected = if asked.path.starts_with("/token?") {
            given == Some(LOGIN)
        } else {
            matches!(given, None | Some("Bearer secret"))
        };
        assert!(expected, "{asked:?}");
    }
    for logins in [
        Logins::default(),
        login(None, "other"),
        login(Some("elsewhere"), "word"),
    ] {
        let error = pull(&registry, logins).unwrap_err();
        let refused = matches!(error, StoreError::Net(NetError::Login(_)));
        assert!(refused, "{error}");
    }
}

#[test]
fn some_want_the_password_each_time() {
    let registry = registry();
    registry.behave(Manners::Basic(LOGIN.into()));
    pull(&registry, login(None, "word")).unwrap();
    assert!(pull(&registry, Logins::default()).is_err());
    assert!(pull(&registry, login(None, "other")).is_err());
}

#[test]
fn the_password_is_for_its_host_alone() {
    let (registry, other) = (registry(), Registry::start());
    // A realm elsewhere would get the password.
    let realm = format!("http://{}/token", other.host);
    registry.behave(Manners::Login(realm.clone(), LOGIN.into()));
    other.behave(Manners::Login(realm, LOGIN.into()));
    let told = |asked: &loopback::Asked| asked.headers.contains_key("authorization");
    for logins in [
        login(None, "word"),
        login(Some(&registry.host), "word"),
        login(Some(&other.host), "word"),
    ] {
        let error = pull(&registry, logins).unwrap_err();
        let foreign = matches!(error, StoreError::Net(NetError::ForeignRealm { .. }));
        assert!(foreign, "{error}");
    }
    assert_eq!(other.requests().len(), 3);
    assert!(!other.requests().iter().any(told));
    // So would the place where blobs are.
    let mirror = self::registry();
    let registry = self::registry();
    registry.behave(Manners::Redirects(format!("http://{}", mirror.host)));
    pull(&registry, login(None, "word")).unwrap();
    assert!(!mirror.requests().is_empty() && !mirror.requests().iter().any(told));
}

#[test]
fn another_host_gives_tokens_that_are_for_anybody() {
    let (registry, other) = (registry(), Registry::start());
    let realm = format!("http://{}/token", other.host);
    registry.behave(Manners::Token(realm.clone()));
    other.behave(Manners::Token(realm));
    for logins in [Logins::default(), login(None, "word")] {
        pull(&registry, logins).unwrap();
    }
    let given = |asked: &loopback::Asked| asked.headers.get("authorization").cloned();
    let asked = other.requests();
    assert_eq!(asked.len(), 2, "a token for each pull");
    for asked in &asked {
        let path = "/token?service=test&scope=repository%3Aa%2Fb%3Apull";
        assert_eq!((asked.path.as_str(), given(asked)), (path, None));
    }
    for asked in registry.requests() {
        let fair = matches!(given(&asked).as_deref(), None | Some("Bearer secret"));
        assert!(fair, "{asked:?}");
    }
}

#[test]
fn who_gives_tokens_does_not_send_us_on() {
    let (registry, other, third) = (registry(), Registry::start(), Registry::start());
    registry.behave(Manners::Token(format!("http://{}/token", other.host)));
    let to = format!("http://{}/token", third.host);
    let moved = &other.state.moved;
    moved.lock().unwrap().insert("/token".into(), to);
    let error = pull(&registry, login(None, "word")).unwrap_err();
    let refused = matches!(error, StoreError::Net(NetError::Status { status: 302, .. }));
    assert!(refused, "{error}");
    assert!(third.requests().is_empty());
}
