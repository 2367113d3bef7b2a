//! Who may call, by the headers of a request: keys, hosts and origins. Every server asks the same.

use crate::answer::Reply;
use crate::http::is_token;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use strata_chat::{Fault, FaultKind};

/// The names of a server, and the pages that may call it.
#[derive(Copy, Clone, Debug, Default)]
pub struct SiteRules<'a> {
    /// Names by which browsers may call the server, beside loopback ones and addresses.
    pub hosts: &'a [String],
    /// Origins of pages that may call it, beside its own; `*` allows all.
    pub origins: &'a [String],
}

/// Where a request was sent, and from which page.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Site<'a> {
    /// The name or address that the client has for this server, perhaps with a port.
    pub host: &'a str,
    /// The page that calls.
    pub origin: Option<&'a str>,
}

impl<'a> Site<'a> {
    /// Reads what a request's head says of it: the authority of its target, if that has one (HTTP/2 and whole URLs),
    /// and all `Host` and `Origin` headers. One that could be read in two ways is refused.
    pub fn read(
        authority: Option<&'a str>,
        hosts: impl IntoIterator<Item = &'a [u8]>,
        origins: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, Fault> {
        let mut hosts = hosts.into_iter();
        let (host, second) = (hosts.next(), hosts.next());
        let host = match host {
            None => None,
            Some(host) => Some(plain(host).ok_or_else(|| unclear("the Host is not a name"))?),
        };
        if second.is_some() {
            return Err(unclear("there are two Hosts"));
        }
        let host = match (authority, host) {
            (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
                return Err(unclear("the target and the Host name two servers"));
            }
            (authority, host) => authority.or(host).filter(|host| !host.is_empty()),
        };
        let mut origins = origins.into_iter();
        let origin = match (origins.next(), origins.next()) {
            (None, _) => None,
            (Some(origin), None) => {
                Some(plain(origin).ok_or_else(|| unclear("the Origin is not one"))?)
            }
            _ => return Err(unclear("there are two Origins")),
        };
        Ok(Self {
            host: host.ok_or_else(|| unclear("there is no Host"))?,
            origin,
        })
    }
}

/// A header's value without spaces and without anything but ASCII.
fn plain(value: &[u8]) -> Option<&str> {
    let value = core::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    value
        .bytes()
        .all(|byte| byte.is_ascii_graphic())
        .then_some(value)
}

fn unclear(problem: &str) -> Fault {
    Fault::bad_request(format_args!("it is not clear who is asked: {problem}"))
}

impl SiteRules<'_> {
    /// Checks where a request was sent and from which page. A page of another site must not reach a server on the
    /// visitor's machine, neither by a name of its own that resolves here nor by a request across sites.
    pub fn check(&self, site: Site<'_>) -> Result<(), Fault> {
        let Site { host, origin } = site;
        let name = without_port(host);
        let mut known = self.hosts.iter();
        if !known.any(|known| known.eq_ignore_ascii_case(name)) && !is_local(name) {
            return Err(Fault::new(
                FaultKind::Forbidden,
                format_args!("the host {name:?} is not one of this server's names"),
            ));
        }
        let Some(origin) = origin else {
            return Ok(());
        };
        let (own, site) = match origin.split_once("://") {
            Some((_, site)) => (site.eq_ignore_ascii_case(host), site),
            None => (false, origin),
        };
        let mut known = self.origins.iter();
        let listed = known.any(|known| known == "*" || known.eq_ignore_ascii_case(origin));
        if own || listed || is_loopback(without_port(site)) {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::Forbidden,
            format_args!("pages of {origin:?} may not call this server"),
        ))
    }
}

/// The key of an `Authorization` header.
pub fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, key) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// Which of a server's keys a request brings, or why it may not call. All keys are compared, so that the time tells
/// nothing of which came close.
pub fn find_key<'k>(
    given: Option<&str>,
    keys: impl IntoIterator<Item = &'k str>,
) -> Result<usize, Fault> {
    let refused = |problem: &str| Fault::new(FaultKind::Unauthenticated, problem);
    let Some(given) = given else {
        return Err(refused(
            "an API key is needed: Authorization: Bearer KEY, or X-Api-Key",
        ));
    };
    let mut found = None;
    for (number, key) in keys.into_iter().enumerate() {
        if same(key.as_bytes(), given.as_bytes()) {
            found = Some(number);
        }
    }
    found.ok_or_else(|| refused("the API key is not valid"))
}

/// Headers that a preflight may ask for, and bytes of their names, at most.
const MAX_ASKED: (usize, usize) = (64, 4096);

/// The answer to a browser that asks whether it may call with the headers of `Access-Control-Request-Headers`. Clients
/// add headers as they please, and none does harm: those that have proper names are all allowed.
pub fn preflight(asked: Option<&str>) -> Reply {
    let names = asked.unwrap_or_default().split(',').map(str::trim);
    let proper = |name: &&str| !name.is_empty() && name.bytes().all(is_token);
    let names = names.filter(proper).take(MAX_ASKED.0);
    let mut allowed = String::new();
    for name in names {
        if allowed.len() + name.len() + 2 > MAX_ASKED.1 {
            break;
        }
        if !allowed.is_empty() {
            allowed.push_str(", ");
        }
        allowed.push_str(name);
    }
    if allowed.is_empty() {
        allowed.push_str("authorization, content-type");
    }
    let methods = "GET, POST, DELETE, HEAD, OPTIONS";
    Reply {
        status: 204,
        content_type: "text/plain",
        headers: [
            ("access-control-allow-methods", methods.into()),
            ("access-control-allow-headers", allowed),
            ("access-control-max-age", "600".into()),
        ]
        .into(),
        body: Vec::new(),
    }
}

/// Headers that let a page read a reply; a refused one gets none.
pub fn cross_origin(origin: &str, status: u16) -> impl Iterator<Item = (&'static str, &str)> {
    let headers = [
        ("access-control-allow-origin", origin),
        ("access-control-expose-headers", EXPOSED),
        ("vary", "origin"),
    ];
    headers.into_iter().filter(move |_| status != 403)
}

/// What clients look at besides the status and the body.
const EXPOSED: &str = "x-request-id, request-id, retry-after";

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
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => {
            name
        }
        _ => host,
    }
}

/// An address, or a name that only this machine has: nobody else can make a public name look like one.
fn is_local(name: &str) -> bool {
    address(name).is_some() || is_loopback(name)
}

fn is_loopback(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || address(&name).is_some_and(|address| address.is_loopback())
}

fn address(name: &str) -> Option<IpAddr> {
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_others_can_point_here_are_refused() {
        let rules = SiteRules::default();
        let check = |rules: &SiteRules<'_>, host| rules.check(Site { host, origin: None });
        for host in [
            "localhost:1",
            "127.0.0.1:11434",
            "[::1]:80",
            "::1",
            "192.168.0.9",
            "x.localhost",
        ] {
            assert_eq!(check(&rules, host), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:11434",
            "127.0.0.1.evil.example",
            "user@127.0.0.1",
            "",
        ] {
            let fault = check(&rules, host).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Forbidden, "{host}");
        }
        let named = SiteRules {
            hosts: &["models.example".into()],
            ..rules
        };
        assert_eq!(check(&named, "Models.example:443"), Ok(()));
    }

    #[test]
    fn a_request_names_one_server_in_one_way() {
        let read = |authority, hosts: &[&'static str], origins: &[&'static str]| {
            let bytes = |texts: &[&'static str]| -> Vec<&'static [u8]> {
                texts.iter().map(|text| text.as_bytes()).collect()
            };
            let site = Site::read(authority, bytes(hosts), bytes(origins));
            site.map(|site| (site.host, site.origin))
                .map_err(|fault| fault.kind)
        };
        assert_eq!(read(None, &["a:1"], &[]), Ok(("a:1", None)));
        assert_eq!(
            read(Some("a:1"), &[], &["http://b"]),
            Ok(("a:1", Some("http://b")))
        );
        assert_eq!(read(Some("A"), &["a"], &[]), Ok(("A", None)));
        let unclear = Err(FaultKind::BadRequest);
        assert_eq!(read(None, &[], &[]), unclear);
        assert_eq!(read(None, &[""], &[]), unclear);
        assert_eq!(read(None, &["localhost", "localhost"], &[]), unclear);
        assert_eq!(read(Some("evil.example"), &["localhost"], &[]), unclear);
        assert_eq!(read(None, &["l\u{f6}calhost"], &[]), unclear);
        assert_eq!(read(None, &["local host"], &[]), unclear);
        assert_eq!(read(None, &["a"], &["http://\u{e9}vil"]), unclear);
        assert_eq!(read(None, &["a"], &["http://a", "http://b"]), unclear);
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let host = "192.168.0.9:80";
        let check = |rules: &SiteRules<'_>, origin| {
            let origin = Some(origin);
            rules.check(Site { host, origin })
        };
        let rules = SiteRules::default();
        for own in ["http://192.168.0.9:80", "http://localhost:3000"] {
            assert_eq!(check(&rules, own), Ok(()), "{own}");
        }
        for other in [
            "https://evil.example",
            "null",
            "http://localhost.evil.example",
        ] {
            let fault = check(&rules, other).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Forbidden, "{other}");
        }
        for allowed in ["https://evil.example", "*"] {
            let rules = SiteRules {
                origins: &[allowed.into()],
                ..rules
            };
            assert_eq!(check(&rules, "https://evil.example"), Ok(()), "{allowed}");
        }
    }

    #[test]
    fn a_key_opens_and_a_wrong_one_does_not() {
        let find = |given| find_key(given, ["first", "secret"]);
        assert_eq!(find(Some("secret")), Ok(1));
        assert_eq!(find(bearer("bearer  first ")), Ok(0));
        for wrong in [
            None,
            Some("secret2"),
            Some(""),
            Some("secre"),
            bearer("secret"),
        ] {
            let fault = find(wrong).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Unauthenticated, "{wrong:?}");
        }
    }

    #[test]
    fn a_page_may_send_the_headers_that_it_asks_for() {
        let allowed = |asked: Option<&str>| preflight(asked).headers[1].1.clone();
        let sent = "authorization, x-stainless-os,anthropic-dangerous-direct-browser-access ,";
        let echoed = "authorization, x-stainless-os, anthropic-dangerous-direct-browser-access";
        assert_eq!(allowed(Some(sent)), echoed);
        for none in [None, Some(""), Some(" , ,"), Some("a b, c\r\nd: e, \u{e9}")] {
            assert_eq!(allowed(none), "authorization, content-type", "{none:?}");
        }
        let many = (0..1000).map(|i| alloc::format!("x-{i}"));
        let many: Vec<String> = many.collect();
        assert_eq!(allowed(Some(&many.join(","))).split(", ").count(), 64);
        let long = alloc::format!("{},{}", "a".repeat(3000), "b".repeat(3000));
        assert_eq!(allowed(Some(&long)).len(), 3000);
    }

    #[test]
    fn refused_pages_may_not_read_why() {
        assert_eq!(cross_origin("http://a", 200).count(), 3);
        assert_eq!(cross_origin("http://a", 403).count(), 0);
    }
}
