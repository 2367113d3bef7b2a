//! Files at addresses that strangers name: from the internet alone, over TLS alone, and no longer than they may be.
//!
//! Every address that a connection is made to comes from [`PublicOnly`], whatever the host looks like: a number in any
//! spelling is looked up like a name. What was looked up is what is connected to, so a name cannot change in between;
//! and each redirect is a new request, looked at like the first. No proxy is asked: it would look names up instead.

use super::client::{broken, unreachable};
use super::reach::PublicOnly;
use super::{NetError, Url};
use std::io::Read;
use std::time::{Duration, Instant};
use ureq::http::header;
use ureq::unversioned::resolver::Resolver;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, http::Response};

const MOST_REDIRECTS: usize = 4;

/// How long a name may take to be looked up, and a connection to be made.
const CONNECT: Duration = Duration::from_secs(5);

/// Fetches files from the internet for others.
#[derive(Debug)]
pub struct WebFiles {
    agent: Agent,
    /// Whether plain HTTP will do: in tests alone.
    plain: bool,
}

impl Default for WebFiles {
    fn default() -> Self {
        Self::with(PublicOnly::default(), false)
    }
}

impl WebFiles {
    fn with(resolver: impl Resolver, plain: bool) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .https_only(!plain)
            .max_redirects(0)
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .max_idle_connections(0)
            .accept_encoding("identity")
            .user_agent(concat!("strata/", env!("CARGO_PKG_VERSION")))
            .proxy(None)
            .build();
        Self {
            agent: Agent::with_parts(config, DefaultConnector::default(), resolver),
            plain,
        }
    }

    /// The bytes of a file, of so many at most, if all of them are here by then.
    pub fn get(&self, url: &str, longest: u64, by: Instant) -> Result<Vec<u8>, NetError> {
        let mut url = Url::parse(url)?;
        for _ in 0..=MOST_REDIRECTS {
            let response = self.once(&url, by)?;
            let location = response.headers().get(header::LOCATION);
            match (response.status().as_u16(), location) {
                (200, _) => return body(&url, response, longest),
                (301 | 302 | 303 | 307 | 308, Some(location)) => {
                    let next = location.to_str().ok().map(|location| url.join(location));
                    let next = next.ok_or_else(|| NetError::Url("Location".into()))??;
                    if !next.tls && !self.plain {
                        return Err(NetError::Downgrade(url.authority().into()));
                    }
                    url = next;
                }
                (status, _) => {
                    return Err(NetError::Status {
                        host: url.authority().into(),
                        status,
                        // What a stranger's host says is nothing that our clients asked for.
                        reason: String::new(),
                    });
                }
            }
        }
        Err(NetError::Redirects(url.authority().into()))
    }

    fn once(&self, url: &Url, by: Instant) -> Result<Response<Body>, NetError> {
        if !url.tls && !self.plain {
            return Err(NetError::Insecure(url.authority().into()));
        }
        let left = by.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NetError::Stalled(url.authority().into()));
        }
        let request = self.agent.get(url.to_string());
        let answer = request.config().timeout_global(Some(left)).build().call();
        answer.map_err(|error| match error {
            // The same words for a name that nobody has and for one of our own network: it is nobody's business which.
            ureq::Error::HostNotFound => NetError::NotPublic(url.authority().into()),
            ureq::Error::Io(error) if error.raw_os_error().is_none() && is_lookup(&error) => {
                NetError::NotPublic(url.authority().into())
            }
            error => unreachable(url, &error),
        })
    }
}

/// Whether the system could not look a name up: it has no number for that, only words.
fn is_lookup(error: &std::io::Error) -> bool {
    error.to_string().contains("lookup address")
}

fn body(url: &Url, mut response: Response<Body>, longest: u64) -> Result<Vec<u8>, NetError> {
    let host = url.authority();
    let too_long = || NetError::TooLarge {
        host: host.into(),
        most: longest,
    };
    if let Some(encoding) = response.headers().get(header::CONTENT_ENCODING)
        && encoding != "identity"
    {
        return Err(NetError::Encoding {
            host: host.into(),
            encoding: encoding.to_str().unwrap_or("?").chars().take(40).collect(),
        });
    }
    let body = response.body_mut();
    if body.content_length().is_some_and(|length| length > longest) {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    let mut reader = body.as_reader().take(longest + 1);
    let read = reader.read_to_end(&mut bytes);
    read.map_err(|error| broken(host, &error))?;
    if bytes.len() as u64 > longest {
        return Err(too_long());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
