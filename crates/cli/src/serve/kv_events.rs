//! Where `strata serve` tells what its prefix caches keep.

use super::listening::address;
use crate::failure::{Failure, Kind};
use std::net::SocketAddr;
use strata_server::KvEvents;

/// Where it is told what prefix caches keep.
#[derive(clap::Args)]
pub(crate) struct KvEventArguments {
    /// Publish what prefix caches keep over ZeroMQ, for routers: subscribers connect to this address. The events contain the
    /// tokens of prompts
    #[arg(long, value_name = "tcp://ADDR:PORT", group = "kv_endpoint")]
    kv_events: Option<String>,
    /// Publish them to a subscriber that listens at this address
    #[arg(long, value_name = "tcp://HOST:PORT", group = "kv_endpoint")]
    kv_events_to: Option<String>,
    /// Name of this server in the events' topics [default: its address]
    #[arg(long, value_name = "NAME", requires = "kv_endpoint")]
    kv_events_name: Option<String>,
}

impl KvEventArguments {
    /// The publisher, if one is asked for. `own` is the server's address; `open` if all may read who reach the port.
    pub(super) fn publisher(
        &self,
        own: SocketAddr,
        open: bool,
    ) -> Result<Option<KvEvents>, Failure> {
        let name = self.kv_events_name.clone();
        let name = name.unwrap_or_else(|| own.to_string());
        if let Some(endpoint) = &self.kv_events_to {
            let host = host_of(endpoint)?;
            return Ok(Some(KvEvents::connect(host.into(), name)));
        }
        let Some(endpoint) = &self.kv_events else {
            return Ok(None);
        };
        let address = address(host_of(endpoint)?)?;
        if !address.ip().is_loopback() && !open {
            let sentence = format_args!(
                "refusing to publish prompts at {address}: other machines could read them without a key"
            );
            return Err(Failure::new(Kind::Usage, sentence)
                .hint("use --kv-events-to, or --insecure-no-auth to allow everyone"));
        }
        let listening = KvEvents::listen(address, name);
        listening.map(Some).map_err(|error| {
            let said = error.to_string();
            let said = said.split(" (os error").next().unwrap_or(&said);
            let sentence = format_args!("cannot listen on {address}: {}", said.to_lowercase());
            Failure::new(Kind::Failed, sentence)
        })
    }
}

/// `HOST:PORT` of an endpoint.
fn host_of(endpoint: &str) -> Result<&str, Failure> {
    let host = endpoint.strip_prefix("tcp://");
    let has_port = |host: &&str| {
        let port = host.rsplit_once(':');
        port.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    };
    host.filter(has_port).ok_or_else(|| {
        Failure::new(Kind::Usage, format_args!("invalid endpoint {endpoint:?}"))
            .hint("expected tcp://ADDR:PORT, such as tcp://127.0.0.1:5557")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_have_a_scheme_a_host_and_a_port() {
        assert_eq!(host_of("tcp://127.0.0.1:5557").unwrap(), "127.0.0.1:5557");
        assert_eq!(host_of("tcp://[::1]:1").unwrap(), "[::1]:1");
        for bad in [
            "",
            "127.0.0.1:5557",
            "tcp://",
            "tcp://:1",
            "tcp://a",
            "ipc://a:1",
            "tcp://a:x",
        ] {
            assert!(host_of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prompts_are_not_published_to_other_machines_unasked() {
        let arguments = KvEventArguments {
            kv_events: Some("tcp://0.0.0.0:0".into()),
            kv_events_to: None,
            kv_events_name: None,
        };
        let own = "127.0.0.1:1".parse().unwrap();
        assert!(arguments.publisher(own, false).is_err());
        assert!(arguments.publisher(own, true).is_ok());
    }
}
