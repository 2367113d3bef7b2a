//! Who we are at registries: names and passwords by host. A password is told to its host alone.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Longer files of logins are not read.
const LONGEST: u64 = 1 << 20;

/// Names and passwords for registries.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Logins {
    /// What `Authorization: Basic` says, by the registry's host and port.
    hosts: BTreeMap<String, String>,
    /// For the registry that is asked, whichever that is.
    any: Option<String>,
}

/// Secrets are not for logs.
impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<&String> = self.hosts.keys().collect();
        f.debug_struct("Logins")
            .field("hosts", &hosts)
            .finish_non_exhaustive()
    }
}

impl Logins {
    /// What the environment says: `STRATA_REGISTRY_USER` and `STRATA_REGISTRY_PASSWORD`, for the host in
    /// `STRATA_REGISTRY_HOST` or else for whichever registry is asked; and Docker's `config.json`, in `DOCKER_CONFIG`
    /// or `~/.docker`.
    pub fn from_env() -> Self {
        let set = |key| std::env::var(key).ok().filter(|value| !value.is_empty());
        let folder = set("DOCKER_CONFIG").map(PathBuf::from);
        let folder = folder.or_else(|| Some(strata_host::home_folder()?.join(".docker")));
        let file = folder.map(|folder| folder.join("config.json"));
        let mut logins = file.map_or_else(Self::default, |file| Self::read(&file));
        if let (Some(user), Some(password)) =
            (set("STRATA_REGISTRY_USER"), set("STRATA_REGISTRY_PASSWORD"))
        {
            let host = set("STRATA_REGISTRY_HOST");
            logins.add(host.as_deref(), &user, &password);
        }
        logins
    }

    /// Adds a login, for a host or for whichever registry is asked.
    pub fn add(&mut self, host: Option<&str>, user: &str, password: &str) {
        let basic = STANDARD.encode(format!("{user}:{password}"));
        match host {
            Some(host) => drop(self.hosts.insert(bare(host), basic)),
            None => self.any = Some(basic),
        }
    }

    /// Only those that are for a certain host: for whoever lets others choose the registry.
    pub fn of_hosts(self) -> Self {
        Self { any: None, ..self }
    }

    /// Reads a file as Docker writes it. One that cannot be read has nothing to say.
    fn read(path: &Path) -> Self {
        let small = std::fs::metadata(path).is_ok_and(|meta| meta.len() <= LONGEST);
        let text = small.then(|| std::fs::read(path).ok()).flatten();
        let json: Value = text
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let mut logins = Self::default();
        for (host, entry) in json["auths"].as_object().into_iter().flatten() {
            // It is what has to be sent, if it is what it should be.
            let auth = entry["auth"].as_str().filter(|auth| {
                let pair = STANDARD.decode(auth);
                pair.is_ok_and(|pair| pair.contains(&b':'))
            });
            if let Some(auth) = auth {
                logins.hosts.insert(bare(host), auth.into());
            }
        }
        logins
    }

    /// The value of `Authorization` for a registry.
    pub(crate) fn of(&self, authority: &str) -> Option<String> {
        let basic = self.hosts.get(&bare(authority)).or(self.any.as_ref())?;
        Some(format!("Basic {basic}"))
    }
}

/// `https://host:port/v1/` as `host:port`.
fn bare(host: &str) -> String {
    let host = host.split_once("://").map_or(host, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    host.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_for_their_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let text = r#"{"auths": {"https://R.example:5000/v1/": {"auth": "dTpw"}, "bad.example": {"auth": "!"}, "x": {}}}"#;
        std::fs::write(&path, text).unwrap();
        let mut logins = Logins::read(&path);
        assert_eq!(logins.of("r.example:5000").as_deref(), Some("Basic dTpw"));
        assert_eq!(logins.of("r.example"), None);
        assert_eq!(logins.of("bad.example"), None);
        logins.add(None, "me", "secret");
        assert_eq!(logins.of("other").as_deref(), Some("Basic bWU6c2VjcmV0"));
        assert_eq!(logins.of("r.example:5000").as_deref(), Some("Basic dTpw"));
        assert!(!format!("{logins:?}").contains("bWU6"));
        assert_eq!(logins.of_hosts().of("other"), None);
        assert_eq!(Logins::read(&folder.path().join("none")), Logins::default());
    }
}
