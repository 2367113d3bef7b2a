//! Tokens and passwords. A registry that wants a token says where it is to be had. The registry itself is told who we
//! are; another host, such as Docker's, gives a token that is for anybody, or none: passwords are nobody else's business,
//! and the token is told to the registry alone.

use super::Repository;
use crate::net::{Answer, Credential, Method, NetError, Url};
use std::time::Instant;

const LONGEST_TOKEN: u64 = 64 << 10;

/// What `WWW-Authenticate: Bearer` says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Challenge {
    realm: String,
    service: String,
    scope: String,
}

impl Challenge {
    fn parse(header: &str) -> Option<Self> {
        let (scheme, mut rest) = header.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut challenge = Self::default();
        while let Some((key, after)) = rest.split_once("=\"") {
            let (value, after) = after.split_once('"')?;
            match key.trim_start_matches([',', ' ']) {
                "realm" => challenge.realm = value.into(),
                "service" => challenge.service = value.into(),
                "scope" => challenge.scope = value.into(),
                _ => {}
            }
            rest = after;
        }
        Some(challenge).filter(|challenge| !challenge.realm.is_empty())
    }
}

fn is_basic(header: &str) -> bool {
    let scheme = header.split_ascii_whitespace().next();
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("basic"))
}

/// Where tokens are to be had.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum TokenSource {
    Registry,
    Elsewhere,
}

impl TokenSource {
    fn of(registry: &Url, realm: &Url) -> Result<Self, NetError> {
        if realm.same_origin(registry) {
            return Ok(Self::Registry);
        }
        if registry.tls && !realm.tls {
            Err(NetError::Downgrade(registry.authority().into()))
        } else {
            Ok(Self::Elsewhere)
        }
    }
}

impl Repository<'_> {
    /// Gets a token as the answer says, and keeps it for the next requests.
    pub(super) fn log_in(
        &self,
        answer: &Answer,
        by: Option<Instant>,
    ) -> Result<Credential, NetError> {
        let host = || self.root.authority().to_string();
        // A blob's new home has no say in who gets our tokens.
        if !answer.url.same_origin(&self.root) {
            return Err(NetError::Login(answer.host()));
        }
        let challenge = answer.header("www-authenticate");
        let login = self.login();
        // Some want the name and the password with each request.
        if challenge.is_some_and(is_basic) {
            let login = login.ok_or_else(|| NetError::Login(host()))?;
            return Ok(self.keep(login));
        }
        let challenge = challenge.and_then(Challenge::parse);
        let challenge = challenge.ok_or_else(|| NetError::Login(host()))?;
        let mut url = Url::parse(&challenge.realm)?;
        let place = TokenSource::of(&self.root, &url)?;
        if !challenge.service.is_empty() {
            url = url.query("service", &challenge.service)?;
        }
        for scope in challenge.scope.split_ascii_whitespace() {
            url = url.query("scope", scope)?;
        }
        let client = self.client;
        let answer = match place {
            TokenSource::Registry => client.ask(&Method::GET, &url, &[], login.as_ref(), by)?,
            // It may not send us on either.
            TokenSource::Elsewhere => {
                client.send(&Method::GET, (&self.root, &url), &[], None, (by, &[]))?
            }
        };
        if matches!(answer.status().as_u16(), 401 | 403) {
            return Err(match place {
                TokenSource::Registry => NetError::Login(host()),
                TokenSource::Elsewhere => NetError::ForeignRealm {
                    host: host(),
                    realm: url.authority().into(),
                },
            });
        }
        let bytes = answer.ok()?.bytes(LONGEST_TOKEN)?;
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let token = json["token"].as_str().or(json["access_token"].as_str());
        let clean =
            |token: &&str| !token.is_empty() && token.bytes().all(|b| (0x21..0x7f).contains(&b));
        let token = token.filter(clean).ok_or_else(|| NetError::Answer {
            host: host(),
            what: "a token",
        })?;
        Ok(self.keep(Credential {
            origin: self.root.clone(),
            value: format!("Bearer {token}"),
        }))
    }

    /// Our name and password here, if we have any.
    fn login(&self) -> Option<Credential> {
        let value = self.client.network.logins.of(self.root.authority())?;
        Some(Credential {
            origin: self.root.clone(),
            value,
        })
    }

    fn keep(&self, credential: Credential) -> Credential {
        if let Ok(mut known) = self.credential.lock() {
            *known = Some(credential.clone());
        }
        credential
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_do_not_come_from_without_tls_for_a_registry_with_it() {
        let place = |registry: &str, realm: &str| {
            TokenSource::of(&Url::parse(registry).unwrap(), &Url::parse(realm).unwrap())
        };
        let docker = "https://registry-1.docker.io/v2/";
        let elsewhere = place(docker, "https://auth.docker.io/token");
        assert_eq!(elsewhere, Ok(TokenSource::Elsewhere));
        let home = place(docker, "https://registry-1.docker.io:443/token");
        assert_eq!(home, Ok(TokenSource::Registry));
        let plain = "registry-1.docker.io".to_string();
        for realm in ["http://auth.docker.io/", "http://registry-1.docker.io/"] {
            let refused = Err(NetError::Downgrade(plain.clone()));
            assert_eq!(place(docker, realm), refused, "{realm}");
        }
        let local = place("http://127.0.0.1:1/v2/", "http://127.0.0.1:2/token");
        assert_eq!(local, Ok(TokenSource::Elsewhere));
    }

    #[test]
    fn challenges_are_read() {
        let text = r#"Bearer realm="https://r.example/token",service="r.example",scope="repository:a/b:pull,push""#;
        let challenge = Challenge::parse(text).unwrap();
        assert_eq!(challenge.realm, "https://r.example/token");
        assert_eq!(challenge.service, "r.example");
        assert_eq!(challenge.scope, "repository:a/b:pull,push");
        for bad in [
            "",
            "Basic realm=\"x\"",
            "Bearer",
            "Bearer realm=\"x",
            "Bearer service=\"x\"",
        ] {
            assert_eq!(Challenge::parse(bad), None, "{bad}");
        }
    }
}
