//! Who may call: keys, hosts, origins, and how often.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use strata_chat::{Fault, FaultKind};

/// A key with what it allows.
#[derive(Clone, Debug)]
pub struct Key {
    /// Whose it is; appears in logs.
    pub name: String,
    /// The secret.
    pub secret: String,
    /// Requests in a minute; no limit if not given.
    pub per_minute: Option<u32>,
    /// The models that it may ask for; all if empty.
    pub models: Vec<String>,
}

/// Who may call.
#[derive(Debug, Default)]
pub struct Access {
    keys: Vec<(Key, Mutex<Bucket>)>,
    /// Names by which browsers may call the server, beside loopback ones and addresses.
    pub hosts: Vec<String>,
    /// Origins of pages that may call it, beside its own; `*` allows all.
    pub origins: Vec<String>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// For logs; `None` where no keys are asked for.
    pub(crate) name: Option<String>,
    /// Tells tenants apart in the cache and in the queue.
    pub(crate) number: u64,
    models: Vec<String>,
}

impl Client {
    /// A caller who needs no key for what it asks.
    pub(crate) fn nobody() -> Self {
        Self {
            name: None,
            number: 0,
            models: Vec::new(),
        }
    }

    /// Under which name its stored answers are kept.
    pub(crate) fn owner(&self) -> String {
        self.number.to_string()
    }

    pub(crate) fn allows(&self, model: &str) -> Result<(), Fault> {
        if self.models.is_empty() || self.models.iter().any(|allowed| allowed == model) {
            return Ok(());
        }
        let message = format!("this key does not allow the model {model:?}");
        Err(Fault::new(FaultKind::Forbidden, message))
    }
}

/// What access depends on.
pub(crate) struct Credentials<'a> {
    pub(crate) authorization: Option<&'a str>,
    pub(crate) api_key: Option<&'a str>,
    pub(crate) host: Option<&'a str>,
    pub(crate) origin: Option<&'a str>,
}

impl Access {
    /// Access with these keys; without any, everyone who reaches the port may call.
    pub fn new(keys: Vec<Key>) -> Self {
        let full = |key: &Key| Bucket {
            tokens: f64::from(key.per_minute.unwrap_or(0)),
            filled: Instant::now(),
        };
        Self {
            keys: keys
                .into_iter()
                .map(|key| {
                    let bucket = Mutex::new(full(&key));
                    (key, bucket)
                })
                .collect(),
            hosts: Vec::new(),
            origins: Vec::new(),
        }
    }

    /// Whether keys are asked for.
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Lets a caller in, or says why not.
    pub(crate) fn check(&self, caller: &Credentials<'_>) -> Result<Client, Fault> {
        self.check_host(caller)?;
        if self.keys.is_empty() {
            return Ok(Client::nobody());
        }
        let bearer = caller
            .authorization
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, secret)| secret.trim());
        let Some(given) = bearer.or(caller.api_key) else {
            return Err(Fault::new(
                FaultKind::Unauthenticated,
                "an API key is needed: Authorization: Bearer KEY, or X-Api-Key",
            ));
        };
        // All keys are compared, so that the time tells nothing of which came close.
        let mut found = None;
        for (number, (key, _)) in self.keys.iter().enumerate() {
            if same(key.secret.as_bytes(), given.as_bytes()) {
                found = Some(number);
            }
        }
        let Some(number) = found else {
            return Err(Fault::new(
                FaultKind::Unauthenticated,
                "the API key is not valid",
            ));
        };
        let (key, bucket) = &self.keys[number];
        if let Some(per_minute) = key.per_minute {
            let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.take(per_minute)?;
        }
        Ok(Client {
            name: Some(key.name.clone()),
            number: tenant(&key.secret),
            models: key.models.clone(),
        })
    }

    /// A page of another site must not reach a server on the visitor's machine, neither by a name of its own that
    /// resolves here nor by a request across sites.
    fn check_host(&self, caller: &Credentials<'_>) -> Result<(), Fault> {
        if let Some(host) = caller.host {
            let name = without_port(host);
            let listed = self
                .hosts
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name));
            if !listed && !is_local(name) {
                return Err(Fault::new(
                    FaultKind::Forbidden,
                    format_args!("the host {name:?} is not one of this server's names"),
                ));
            }
        }
        let Some(origin) = caller.origin else {
            return Ok(());
        };
        let own = caller.host.is_some_and(|host| {
            origin
                .split_once("://")
                .is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(host))
        });
        let site = origin.split_once("://").map_or(origin, |(_, rest)| rest);
        let listed = self
            .origins
            .iter()
            .any(|known| known == "*" || known.eq_ignore_ascii_case(origin));
        if own || listed || is_loopback(without_port(site)) {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::Forbidden,
            format_args!("pages of {origin:?} may not call this server"),
        ))
    }
}

impl Bucket {
    fn take(&mut self, per_minute: u32) -> Result<(), Fault> {
        let most = f64::from(per_minute);
        let rate = most / 60.0;
        self.tokens = (self.tokens + self.filled.elapsed().as_secs_f64() * rate).min(most);
        self.filled = Instant::now();
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        let retry_after = Duration::from_secs_f64((1.0 - self.tokens) / rate.max(1e-9));
        Err(Fault::new(
            FaultKind::RateLimited { retry_after },
            format_args!("this key allows {per_minute} requests in a minute"),
        ))
    }
}

/// A number for a key that stays the same from start to start, so that what is cached for it is found again. Not 0,
/// which is nobody's.
fn tenant(secret: &str) -> u64 {
    let mut hash = DefaultHasher::new();
    secret.hash(&mut hash);
    hash.finish().max(1)
}

/// Compares in a time that depends on the lengths alone.
fn same(a: &[u8], b: &[u8]) -> bool {
    let mut difference = a.len() ^ b.len();
    for (i, byte) in a.iter().enumerate() {
        difference |= usize::from(byte ^ b.get(i).copied().unwrap_or(0));
    }
    std::hint::black_box(difference) == 0
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => {
            name
        }
        _ => host,
    }
}

/// An address, or a name that only this machine has: nobody else can make a public name look like one.
fn is_local(name: &str) -> bool {
    name.is_empty() || address(name).is_some() || is_loopback(name)
}

fn is_loopback(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || address(&name).is_some_and(|address| address.is_loopback())
}

fn address(name: &str) -> Option<IpAddr> {
    name.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from<'a>(host: &'a str, origin: Option<&'a str>) -> Credentials<'a> {
        Credentials {
            authorization: None,
            api_key: None,
            host: Some(host),
            origin,
        }
    }

    fn key(secret: &str, per_minute: Option<u32>) -> Key {
        Key {
            name: "test".into(),
            secret: secret.into(),
            per_minute,
            models: vec!["tale".into()],
        }
    }

    #[test]
    fn names_that_others_can_point_here_are_refused() {
        let access = Access::default();
        for host in [
            "localhost:1",
            "127.0.0.1:11434",
            "[::1]:80",
            "192.168.0.9",
            "x.localhost",
        ] {
            assert!(access.check(&from(host, None)).is_ok(), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:11434",
            "127.0.0.1.evil.example",
        ] {
            let fault = access.check(&from(host, None)).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Forbidden, "{host}");
        }
        let mut named = Access::default();
        named.hosts.push("models.example".into());
        assert!(named.check(&from("Models.example:443", None)).is_ok());
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let access = Access::default();
        let ok = |origin| access.check(&from("192.168.0.9:80", Some(origin))).is_ok();
        assert!(ok("http://192.168.0.9:80") && ok("http://localhost:3000"));
        assert!(!ok("https://evil.example") && !ok("null") && !ok("http://localhost.evil.example"));
    }

    #[test]
    fn a_key_opens_and_a_wrong_one_does_not() {
        let access = Access::new(vec![key("secret", None)]);
        let with = |authorization, api_key| {
            access.check(&Credentials {
                authorization,
                api_key,
                host: None,
                origin: None,
            })
        };
        assert!(with(Some("Bearer secret"), None).is_ok());
        assert!(with(None, Some("secret")).is_ok());
        for (bearer, plain) in [
            (None, None),
            (Some("Bearer secret2"), None),
            (Some("Bearer "), None),
            (Some("secret"), None),
            (None, Some("secre")),
        ] {
            let fault = with(bearer, plain).unwrap_err();
            assert_eq!(
                fault.kind,
                FaultKind::Unauthenticated,
                "{bearer:?} {plain:?}"
            );
        }
        let client = with(None, Some("secret")).unwrap();
        assert!(client.allows("tale").is_ok() && client.allows("other").is_err());
    }

    #[test]
    fn a_key_with_a_rate_says_when_to_come_back() {
        let access = Access::new(vec![key("s", Some(2))]);
        let call = || {
            access.check(&Credentials {
                authorization: Some("bearer s"),
                api_key: None,
                host: None,
                origin: None,
            })
        };
        assert!(call().is_ok() && call().is_ok());
        let fault = call().unwrap_err();
        assert!(
            fault
                .retry_after()
                .is_some_and(|after| after <= Duration::from_secs(30))
        );
    }
}
