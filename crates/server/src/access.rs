//! Who may call: keys, hosts, origins, and how often.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use strata_chat::{Fault, FaultKind};
use strata_wire::Role;
use strata_wire::access::{Site, SiteRules, bearer, find_key};

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
    /// Whether it may change the server and its store.
    pub administers: bool,
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
    /// The user of this machine, where the system told who it is.
    pub(crate) uid: Option<u32>,
    models: Vec<String>,
    administers: bool,
}

impl Client {
    /// What stands before the number in the names of this machine's users. No key can be called so: names have no spaces.
    pub(crate) const USER: &str = "uid ";

    /// A caller who needs no key for what it asks.
    pub(crate) fn nobody() -> Self {
        Self {
            name: None,
            number: 0,
            uid: None,
            models: Vec::new(),
            administers: false,
        }
    }

    /// Under which name its stored answers are kept.
    pub(crate) fn owner(&self) -> String {
        self.number.to_string()
    }

    /// Whether it may use a route of this role.
    pub(crate) fn may_act_as(&self, role: Role) -> Result<(), Fault> {
        if role < Role::Administrator || self.administers {
            return Ok(());
        }
        let problem = "this needs an administrator's key: it changes the server or its models";
        Err(Fault::new(FaultKind::Forbidden, problem))
    }

    /// Whether it may use all models there are.
    pub(crate) fn allows_all(&self) -> bool {
        self.models.is_empty()
    }

    /// Whether it may use a model, by any of the model's names.
    pub(crate) fn allows(&self, model: &str) -> Result<(), Fault> {
        let named = |allowed: &String| plain(allowed) == plain(model);
        if self.models.is_empty() || self.models.iter().any(named) {
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
}

/// A model's name without the tag that every model has.
fn plain(name: &str) -> &str {
    name.strip_suffix(":latest").unwrap_or(name)
}

impl Access {
    /// Access with these keys; without any, everyone who reaches the port may call, and administer. So may the only key
    /// there is, unless it is for certain models.
    pub fn new(mut keys: Vec<Key>) -> Self {
        if let [only] = &mut keys[..] {
            only.administers |= only.models.is_empty();
        }
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

    /// Looks at where a request was sent and from which page.
    pub(crate) fn check_site(&self, site: Site<'_>) -> Result<(), Fault> {
        let rules = SiteRules {
            hosts: &self.hosts,
            origins: &self.origins,
        };
        rules.check(site)
    }

    /// A user of this machine, whom the system names. The superuser and the server's own user administer it.
    pub(crate) fn user(&self, uid: u32) -> Client {
        let name = format!("{}{uid}", Client::USER);
        Client {
            // No key has such a byte.
            number: tenant(&format!("\0{name}")),
            name: Some(name),
            uid: Some(uid),
            models: Vec::new(),
            administers: uid == 0 || Some(uid) == strata_host::user_id(),
        }
    }

    /// Lets a caller in, or says why not.
    pub(crate) fn check(&self, caller: &Credentials<'_>) -> Result<Client, Fault> {
        if self.keys.is_empty() {
            return Ok(Client {
                administers: true,
                ..Client::nobody()
            });
        }
        let given = caller.authorization.and_then(bearer).or(caller.api_key);
        let secrets = self.keys.iter().map(|(key, _)| key.secret.as_str());
        let (key, bucket) = &self.keys[find_key(given, secrets)?];
        if let Some(per_minute) = key.per_minute {
            let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.take(per_minute)?;
        }
        Ok(Client {
            name: Some(key.name.clone()),
            number: tenant(&key.secret),
            uid: None,
            models: key.models.clone(),
            administers: key.administers,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &str, per_minute: Option<u32>) -> Key {
        Key {
            name: "test".into(),
            secret: secret.into(),
            per_minute,
            models: vec!["tale".into()],
            administers: false,
        }
    }

    #[test]
    fn a_key_opens_and_a_wrong_one_does_not() {
        let access = Access::new(vec![key("secret", None)]);
        let with = |authorization, api_key| {
            access.check(&Credentials {
                authorization,
                api_key,
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
        assert!(client.allows("tale:latest").is_ok() && client.allows("tale:q8").is_err());
        assert!(client.may_act_as(Role::Client).is_ok());
        assert!(client.may_act_as(Role::Administrator).is_err());
    }

    #[test]
    fn a_key_with_a_rate_says_when_to_come_back() {
        let access = Access::new(vec![key("s", Some(2))]);
        let call = || {
            access.check(&Credentials {
                authorization: Some("bearer s"),
                api_key: None,
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
