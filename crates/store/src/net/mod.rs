//! Requests to other machines: who may be asked, what they are told, and how long they may take.

mod client;
mod logins;
mod reach;
mod url;
mod web_files;

pub(crate) use client::{Answer, Client, Credential, Method, broken};
pub use logins::Logins;
pub use reach::PrivateHosts;
pub(crate) use url::{Url, escape};
pub use web_files::WebFiles;

use std::time::Duration;
use thiserror::Error;

/// How to behave on the network.
#[derive(Clone, Debug)]
pub struct Network {
    /// Registries without TLS are allowed, and taken to have none.
    pub insecure: bool,
    /// Hosts that may be asked for models; any if not given. Where they send us for a blob is their choice.
    pub hosts: Option<Vec<String>>,
    /// Whether addresses of this machine and its network may be asked.
    pub private_hosts: PrivateHosts,
    /// Requests for one blob at a time.
    pub parallel: usize,
    /// How long to wait for what.
    pub retry: RetryPolicy,
    /// The token of `huggingface.co`, sent to that host only.
    pub hub_token: Option<String>,
    /// Where the Hugging Face hub is; `https://huggingface.co` if not given.
    pub hub: Option<String>,
    /// Who we are at registries.
    pub logins: Logins,
}

/// How long to wait for what.
#[derive(Copy, Clone, Debug)]
pub struct RetryPolicy {
    /// Until a connection is made.
    pub connect: Duration,
    /// Until the next byte comes.
    pub stall: Duration,
    /// Until a small document (a manifest, a token, a list of files) is here, with all tries.
    pub document: Duration,
    /// Tries in a row that bring nothing, before it is an error.
    pub tries: u32,
    /// Before the second try; it doubles each time.
    pub pause: Duration,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            insecure: false,
            hosts: None,
            private_hosts: PrivateHosts::AsOrigin,
            parallel: 8,
            retry: RetryPolicy {
                connect: Duration::from_secs(15),
                stall: Duration::from_secs(30),
                document: Duration::from_secs(30),
                tries: 6,
                pause: Duration::from_secs(1),
            },
            hub_token: None,
            hub: None,
            logins: Logins::default(),
        }
    }
}

impl Network {
    /// What the environment says: `HF_TOKEN`, `HF_ENDPOINT`, `STRATA_REGISTRIES`, a list of hosts with commas, and what
    /// [`Logins::from_env`] reads.
    /// Proxies (`HTTPS_PROXY`, `NO_PROXY` and their like) are always those of the environment.
    pub fn from_env() -> Self {
        let set = |key| std::env::var(key).ok().filter(|value| !value.is_empty());
        Self {
            hosts: set("STRATA_REGISTRIES")
                .map(|list| list.split(',').map(|host| host.trim().into()).collect()),
            hub_token: set("HF_TOKEN"),
            hub: set("HF_ENDPOINT"),
            logins: Logins::from_env(),
            ..Self::default()
        }
    }
}

/// What goes wrong between machines.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NetError {
    /// An address that is none.
    #[error("invalid address {0:?}")]
    Url(String),
    /// Plain HTTP needs to be allowed.
    #[error("refusing to connect to {0} without TLS")]
    Insecure(String),
    /// Not on the list.
    #[error("{0} is not an allowed registry")]
    NotAllowed(String),
    /// An address of this machine or its network.
    #[error("refusing to follow a redirect to {0}, an address of this machine or its network")]
    Private(String),
    /// No address on the internet.
    #[error("{0} is not found on the internet")]
    NotPublic(String),
    /// Longer than it may be.
    #[error("{host} sent more than {most} bytes")]
    TooLarge {
        /// Who.
        host: String,
        /// How many it may be.
        most: u64,
    },
    /// Somebody else would get the password.
    #[error("{host} requires a login at {realm}, and passwords are not sent to other hosts")]
    ForeignRealm {
        /// The registry.
        host: String,
        /// Where it sends us.
        realm: String,
    },
    /// From TLS to none.
    #[error("{0} redirects to an address without TLS")]
    Downgrade(String),
    /// Round and round.
    #[error("{0} redirects too many times")]
    Redirects(String),
    /// No connection, or it broke.
    #[error("cannot reach {host}: {reason}")]
    Unreachable {
        /// Who.
        host: String,
        /// Why.
        reason: String,
    },
    /// Plain HTTP where TLS was expected.
    #[error("{0} does not use TLS")]
    PlainHttp(String),
    /// Nothing came for too long.
    #[error("{0} stopped sending")]
    Stalled(String),
    /// An answer that is an error.
    #[error("{host} responded {status}{}{reason}", if reason.is_empty() { "" } else { ": " })]
    Status {
        /// Who.
        host: String,
        /// The status.
        status: u16,
        /// What it says.
        reason: String,
    },
    /// It wants to know who we are.
    #[error("{0} requires a login, and none is configured")]
    Login(String),
    /// Compressed, though we asked for the bytes.
    #[error("{host} sent unexpected content encoding {encoding}")]
    Encoding {
        /// Who.
        host: String,
        /// How.
        encoding: String,
    },
    /// Other bytes than were asked for.
    #[error("{host} sent {found} instead of {expected}")]
    Range {
        /// Who.
        host: String,
        /// What was asked for.
        expected: String,
        /// What comes.
        found: String,
    },
    /// More than there should be.
    #[error("{host} sent more than the expected {expected} bytes")]
    Long {
        /// Who.
        host: String,
        /// How many there should be.
        expected: u64,
    },
    /// Less than there should be.
    #[error("{host} closed the connection after {found} of {expected} bytes")]
    Short {
        /// Who.
        host: String,
        /// How many there should be.
        expected: u64,
        /// How many came.
        found: u64,
    },
    /// An answer that makes no sense.
    #[error("{host} sent an invalid response: {what}")]
    Answer {
        /// Who.
        host: String,
        /// What was expected.
        what: &'static str,
    },
}

impl NetError {
    /// Whether the same request may go well a moment later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Stalled(_) | Self::Short { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
            _ => false,
        }
    }
}
