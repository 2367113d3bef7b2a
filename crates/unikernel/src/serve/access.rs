//! Who may call: a key, and no pages of other sites.

use alloc::format;
use alloc::string::String;
use strata_chat::Fault;
use strata_platform::Sha256;
use strata_wire::access::{Site, SiteRules, find_key};
use strata_wire::http::Head;

/// What calls must bring, or what that sums to: an image that is lost then tells nobody the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientKey {
    /// The key.
    Text(String),
    /// Its SHA-256.
    Digest([u8; 32]),
}

impl From<&str> for ClientKey {
    fn from(key: &str) -> Self {
        Self::Text(key.into())
    }
}

impl ClientKey {
    /// Lets a caller in who brings it.
    fn check(&self, given: Option<&str>) -> Result<(), Fault> {
        let hex = |digest: &[u8; 32]| {
            let digits = digest.iter().map(|byte| format!("{byte:02x}"));
            digits.collect::<String>()
        };
        let found = match self {
            Self::Text(key) => find_key(given, [key.as_str()]),
            Self::Digest(digest) => {
                let given = given.map(|key| hex(&Sha256::digest(key)));
                find_key(given.as_deref(), [hex(digest).as_str()])
            }
        };
        found.map(drop)
    }
}

/// Who may call.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The key that calls must bring; without one, everyone who reaches the port may call.
    pub key: Option<ClientKey>,
    /// A name of this machine, beside its addresses.
    pub host: Option<String>,
}

impl Access {
    /// Lets a caller in, or says why not.
    pub(super) fn check<'h>(&self, head: &'h Head) -> Result<(), Fault> {
        let rules = SiteRules {
            hosts: self.host.as_slice(),
            origins: &[],
        };
        let bytes = |value: &'h Option<String>| value.as_deref().map(str::as_bytes);
        rules.check(Site::read(None, bytes(&head.host), bytes(&head.origin))?)?;
        if let Some(key) = &self.key {
            key.check(head.key.as_deref())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_chat::FaultKind;

    fn check(access: &Access, lines: &str) -> Option<FaultKind> {
        let host = if lines.contains("host:") {
            ""
        } else {
            "host: 10.0.0.1\r\n"
        };
        let text = std::format!("GET / HTTP/1.1\r\n{host}{lines}\r\n");
        let (head, _) = Head::parse(text.as_bytes()).unwrap().unwrap();
        access.check(&head).err().map(|fault| fault.kind)
    }

    #[test]
    fn the_key_opens_and_others_do_not() {
        for key in ["secret".into(), ClientKey::Digest(Sha256::digest("secret"))] {
            let access = Access {
                key: Some(key),
                host: None,
            };
            assert_eq!(check(&access, "Authorization: Bearer secret\r\n"), None);
            assert_eq!(check(&access, "x-api-key: secret\r\n"), None);
            for lines in ["", "x-api-key: secre\r\n", "x-api-key: secret2\r\n"] {
                let refused = Some(FaultKind::Unauthenticated);
                assert_eq!(check(&access, lines), refused, "{lines}");
            }
        }
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let access = Access {
            key: None,
            host: Some("box.example".into()),
        };
        for fine in [
            "",
            "host: 10.0.2.15:80\r\n",
            "host: [::1]:80\r\n",
            "host: box.example\r\n",
            "host: localhost:1\r\norigin: http://localhost:3000\r\n",
            "host: 10.0.2.15:80\r\norigin: http://10.0.2.15:80\r\n",
        ] {
            assert_eq!(check(&access, fine), None, "{fine}");
        }
        for wrong in [
            "host: evil.example\r\n",
            "host: 127.0.0.1.evil.example\r\n",
            "host: 10.0.2.15\r\norigin: https://evil.example\r\n",
            "host: 10.0.2.15\r\norigin: null\r\n",
        ] {
            assert_eq!(check(&access, wrong), Some(FaultKind::Forbidden), "{wrong}");
        }
    }
}
