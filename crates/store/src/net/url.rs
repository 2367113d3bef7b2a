//! Addresses: scheme, host with port, path with query. No user, no fragment.

use super::NetError;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) tls: bool,
    /// `host` or `host:port`, lower case.
    authority: String,
    /// From `/` on.
    path: String,
}

impl Url {
    pub(crate) fn new(tls: bool, authority: &str, path: &str) -> Result<Self, NetError> {
        let scheme = if tls { "https" } else { "http" };
        Self::parse(&format!("{scheme}://{authority}{path}"))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, NetError> {
        let bad = || NetError::Url(text.chars().take(200).collect());
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let (tls, rest) = if lower.starts_with("https://") {
            (true, &text[8..])
        } else if lower.starts_with("http://") {
            (false, &text[7..])
        } else {
            return Err(bad());
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let good = |byte: u8| matches!(byte, 0x21..=0x7e) && !b"\"<>\\^`{|}".contains(&byte);
        let host_byte = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']')
        };
        if authority.is_empty()
            || !authority.bytes().all(host_byte)
            || !path.bytes().all(good)
            || text.len() > 16_384
        {
            return Err(bad());
        }
        let path = match path.as_bytes().first() {
            Some(b'/') => path.to_string(),
            _ => format!("/{path}"),
        };
        let url = Self {
            tls,
            authority: authority.to_ascii_lowercase(),
            path,
        };
        if url.host().is_empty() || url.port().is_none() {
            return Err(bad());
        }
        Ok(url)
    }

    /// Where a `Location` leads from here.
    pub(crate) fn join(&self, location: &str) -> Result<Self, NetError> {
        if location.contains("://") && !location.starts_with(['/', '?']) {
            return Self::parse(location);
        }
        let path = match location.as_bytes() {
            [b'/', b'/', ..] => {
                let scheme = if self.tls { "https:" } else { "http:" };
                return Self::parse(&format!("{scheme}{location}"));
            }
            [b'/', ..] => location.to_string(),
            _ => {
                let base = self.path.split('?').next().unwrap_or_default();
                let folder = base.rfind('/').map_or("/", |at| &base[..=at]);
                format!("{folder}{location}")
            }
        };
        Self::new(self.tls, &self.authority, &path)
    }

    /// Adds to the query.
    pub(crate) fn query(&self, key: &str, value: &str) -> Result<Self, NetError> {
        let sign = if self.path.contains('?') { '&' } else { '?' };
        let path = format!("{}{sign}{key}={}", self.path, escape(value));
        Self::new(self.tls, &self.authority, &path)
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The host alone, an IPv6 address without its brackets.
    pub(crate) fn host(&self) -> &str {
        match self.authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => self.authority.split(':').next().unwrap_or_default(),
        }
    }

    /// The port; `None` if it is not a number.
    pub(crate) fn port(&self) -> Option<u16> {
        let rest = match self.authority.rfind(']') {
            Some(at) => &self.authority[at + 1..],
            None => self
                .authority
                .find(':')
                .map_or("", |at| &self.authority[at..]),
        };
        match rest.strip_prefix(':') {
            Some(port) => port.parse().ok(),
            None if rest.is_empty() => Some(if self.tls { 443 } else { 80 }),
            None => None,
        }
    }

    /// Whether both are the same service: what one is told, the other may know.
    pub(crate) fn same_origin(&self, other: &Self) -> bool {
        self.tls == other.tls && self.host() == other.host() && self.port() == other.port()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// Percent-encodes all but letters, digits and `-._~`.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let url = Url::parse("HTTPS://Host.example:8443/a/b?c=d#e").unwrap();
        assert_eq!(url.to_string(), "https://host.example:8443/a/b?c=d");
        assert_eq!((url.host(), url.port()), ("host.example", Some(8443)));
        let six = Url::parse("http://[::1]/x").unwrap();
        assert_eq!((six.host(), six.port()), ("::1", Some(80)));
        for bad in [
            "ftp://a/",
            "https://",
            "https:///x",
            "https://u:p@host/",
            "https://a:b/",
            "https://a:99999/",
            "https://a/ b",
            "https://a/\r\nX: y",
            "https://é/",
            "//a/b",
            "file:///etc/passwd",
            "https://[::1",
        ] {
            assert!(Url::parse(bad).is_err() || bad == "https://[::1", "{bad}");
        }
    }

    #[test]
    fn locations_lead_on() {
        let url = Url::parse("https://a.b/c/d?e").unwrap();
        for (location, expected) in [
            ("https://x.y/z?q=http://u", "https://x.y/z?q=http://u"),
            ("/z?u=http://v", "https://a.b/z?u=http://v"),
            ("z", "https://a.b/c/z"),
            ("//x.y/z", "https://x.y/z"),
        ] {
            assert_eq!(url.join(location).unwrap().to_string(), expected);
        }
        assert_eq!(
            url.query("k", "a b&c").unwrap().path(),
            "/c/d?e&k=a%20b%26c"
        );
    }

    #[test]
    fn another_port_or_scheme_is_another_service() {
        let url = |text| Url::parse(text).unwrap();
        assert!(url("https://a/x").same_origin(&url("https://A:443/y")));
        assert!(!url("https://a/").same_origin(&url("http://a/")));
        assert!(!url("https://a/").same_origin(&url("https://a:444/")));
        assert!(!url("https://a/").same_origin(&url("https://a.evil/")));
    }
}
