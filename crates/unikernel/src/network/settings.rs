//! The network's settings: `ip=dhcp` or `ip=ADDRESS/PREFIX[,GATEWAY]`, `gw=ADDRESS`, `port=NUMBER`.

use crate::boot::CommandLine;
use alloc::string::String;
use core::net::Ipv4Addr;
use smoltcp::wire::Ipv4Cidr;
use thiserror::Error;

/// Where Ollama's clients look.
const PORT: u16 = 11434;

/// An option that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}={value} is not {wanted}")]
pub struct SettingError {
    /// The option.
    pub key: &'static str,
    /// What it says.
    pub value: String,
    /// What it should be.
    pub wanted: &'static str,
}

/// How the machine is reached.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The address; asked for by DHCP if not given.
    pub address: Option<Ipv4Cidr>,
    /// Where packets for other networks go, with a given address.
    pub gateway: Option<Ipv4Addr>,
    /// The port that is listened on.
    pub port: u16,
}

impl Settings {
    /// What the command line says.
    pub fn from_options(line: &CommandLine) -> Result<Self, SettingError> {
        let wanted = "dhcp, or an address such as 10.0.2.15/24,10.0.2.2";
        let given = option(line, "ip", wanted, |text| {
            if text == "dhcp" {
                return Some(None);
            }
            let (text, gateway) = match text.split_once(',') {
                Some((text, gateway)) => (text, Some(gateway.parse().ok()?)),
                None => (text, None),
            };
            let (address, prefix) = text.split_once('/')?;
            let address: Ipv4Addr = address.parse().ok()?;
            let prefix = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
            let usable =
                !address.is_unspecified() && !address.is_multicast() && !address.is_broadcast();
            usable.then(|| Some((Ipv4Cidr::new(address, prefix), gateway)))
        })?;
        let (address, gateway) = given.flatten().unzip();
        let apart = option(line, "gw", "an address such as 10.0.2.2", |text| {
            text.parse().ok()
        })?;
        Ok(Self {
            address,
            gateway: apart.or(gateway.flatten()),
            port: option(line, "port", "a port from 1 to 65535", |text| {
                text.parse().ok().filter(|port| *port > 0)
            })?
            .unwrap_or(PORT),
        })
    }
}

fn option<T>(
    line: &CommandLine,
    key: &'static str,
    wanted: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, SettingError> {
    let Some(value) = line.get(key) else {
        return Ok(None);
    };
    read(value).map(Some).ok_or_else(|| SettingError {
        key,
        value: value.into(),
        wanted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_others_refused() {
        let read = |line: &str| Settings::from_options(&CommandLine::copy(line.as_bytes()));
        let none = read("quiet").unwrap();
        assert_eq!((none.address, none.port), (None, 11434));
        let given = read("ip=10.1.2.3/8 gw=10.0.0.1 port=80").unwrap();
        let address = Ipv4Cidr::new(Ipv4Addr::new(10, 1, 2, 3), 8);
        assert_eq!(given.address, Some(address));
        assert_eq!(given.gateway, Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(given.port, 80);
        assert_eq!(read("ip=dhcp").unwrap(), none);
        let joined = read("ip=10.1.2.3/8,10.0.0.1 port=80").unwrap();
        assert_eq!(joined, given);
        for (line, key) in [
            ("ip=10.1.2.3", "ip"),
            ("ip=10.1.2.3/8,gate", "ip"),
            ("ip=10.1.2.3/33", "ip"),
            ("ip=0.0.0.0/0", "ip"),
            ("ip=224.0.0.1/4", "ip"),
            ("gw=host", "gw"),
            ("port=0", "port"),
            ("port=65536", "port"),
        ] {
            assert_eq!(read(line).unwrap_err().key, key, "{line}");
        }
    }
}
