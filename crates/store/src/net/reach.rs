//! Which addresses may be asked. A registry on the internet must not be able to send us to the services of our own
//! network; and the check is made where the connection is made, so that a name cannot change in between.

use super::Url;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Whether addresses of this machine and its network may be asked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PrivateHosts {
    /// Never: for a server that fetches what strangers name.
    Never,
    /// If the registry itself is there; one on the internet may not send us there.
    AsOrigin,
}

/// Whether everybody on the internet would mean the same machine by this address.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => is_public_v4(four),
        IpAddr::V6(six) => is_public_v6(six),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        // Carriers' networks; protocol assignments; relays of 6to4; benchmarks.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(four) = address.to_ipv4_mapped() {
        return is_public_v4(four);
    }
    let s = address.segments();
    // NAT64 and 6to4 have an IPv4 address inside.
    let inside = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inside(high, low),
        [0x2002, high, low, ..] => inside(high, low),
        // Teredo, with an address inside that is written in another way, and other protocols.
        [0x2001, second, ..] if second < 0x200 => false,
        // Only 2000::/3 is global; 2001:db8::/32 and 3fff::/20 are for documentation.
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Whether a host is on this machine or its network. A name that cannot be looked up is not.
pub(super) fn is_private(url: &Url, look_up: bool) -> bool {
    if let Ok(address) = url.host().parse::<IpAddr>() {
        return !is_public(address);
    }
    if url.host() == "localhost" || url.host().ends_with(".localhost") {
        return true;
    }
    if !look_up {
        return false;
    }
    let port = url.port().unwrap_or(443);
    match (url.host(), port).to_socket_addrs() {
        Ok(mut addresses) => addresses.any(|address| !is_public(address.ip())),
        Err(_) => false,
    }
}

/// Finds only addresses on the internet.
#[derive(Debug, Default)]
pub(super) struct PublicOnly(DefaultResolver);

impl Resolver for PublicOnly {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.0.resolve(uri, config, timeout)?;
        let mut public = self.empty();
        for &address in found.iter().filter(|address| is_public(address.ip())) {
            public.push(address);
        }
        if public.is_empty() {
            return Err(ureq::Error::HostNotFound);
        }
        Ok(public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_our_own_network_are_known() {
        for private in [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.3.4",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "::127.0.0.1",
            "2001:db8::1",
            "2001:0:7f00:1::1",
            "3fff:0:1::",
            "64:ff9b:1::7f00:1",
            "192.88.99.1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in [
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        let private = |text| is_private(&Url::parse(text).unwrap(), false);
        assert!(private("http://localhost/"));
        assert!(private("http://x.localhost:1/"));
        assert!(private("http://[::1]/"));
        assert!(!private("https://example.com/"));
    }
}
