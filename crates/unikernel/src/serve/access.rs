//! Who may call: a key, and no pages of other sites.

use alloc::string::String;
use core::net::IpAddr;
use strata_chat::{Fault, FaultKind};
use strata_wire::http::Head;

/// Who may call.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The key that calls must bring; without one, everyone who reaches the port may call.
    pub key: Option<String>,
    /// A name of this machine, beside its addresses.
    pub host: Option<String>,
}

impl Access {
    /// Lets a caller in, or says why not.
    pub(super) fn check(&self, head: &Head) -> Result<(), Fault> {
        self.check_page(head)?;
        let Some(key) = &self.key else {
            return Ok(());
        };
        let problem = match &head.key {
            Some(given) if same(key.as_bytes(), given.as_bytes()) => return Ok(()),
            Some(_) => "the API key is not valid",
            None => "an API key is needed: Authorization: Bearer KEY, or X-Api-Key",
        };
        Err(Fault::new(FaultKind::Unauthenticated, problem))
    }

    /// A page of another site must not reach this machine, neither by a name of its own that resolves here nor by a
    /// request across sites.
    fn check_page(&self, head: &Head) -> Result<(), Fault> {
        let host = head.host.as_deref().unwrap_or_default();
        let name = without_port(host);
        let own = self.host.as_deref();
        if !name.is_empty()
            && !is_loopback(name)
            && address(name).is_none()
            && !own.is_some_and(|own| own.eq_ignore_ascii_case(name))
        {
            return Err(Fault::new(
                FaultKind::Forbidden,
                format_args!("the host {name:?} is not one of this server's names"),
            ));
        }
        let Some(origin) = head.origin.as_deref() else {
            return Ok(());
        };
        let site = origin.split_once("://").map_or(origin, |(_, site)| site);
        if site.eq_ignore_ascii_case(host) || is_loopback(without_port(site)) {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::Forbidden,
            format_args!("pages of {origin:?} may not call this server"),
        ))
    }
}

/// Compares in a time that depends on the lengths alone.
fn same(a: &[u8], b: &[u8]) -> bool {
    let mut difference = a.len() ^ b.len();
    for (i, byte) in a.iter().enumerate() {
        difference |= usize::from(byte ^ b.get(i).copied().unwrap_or(0));
    }
    core::hint::black_box(difference) == 0
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn address(name: &str) -> Option<IpAddr> {
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.parse().ok()
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || address(name).is_some_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(access: &Access, lines: &str) -> Option<FaultKind> {
        let text = std::format!("GET / HTTP/1.1\r\n{lines}\r\n");
        let (head, _) = Head::parse(text.as_bytes()).unwrap().unwrap();
        access.check(&head).err().map(|fault| fault.kind)
    }

    #[test]
    fn the_key_opens_and_others_do_not() {
        let access = Access {
            key: Some("secret".into()),
            host: None,
        };
        assert_eq!(check(&access, "Authorization: Bearer secret\r\n"), None);
        assert_eq!(check(&access, "x-api-key: secret\r\n"), None);
        for lines in ["", "x-api-key: secre\r\n", "x-api-key: secret2\r\n"] {
            let refused = Some(FaultKind::Unauthenticated);
            assert_eq!(check(&access, lines), refused, "{lines}");
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
