//! The HTTP client: redirects followed by hand, so that each step can be looked at.

use super::reach::{self, PrivateHosts, PublicOnly};
use super::{NetError, Network, Url};
use std::io::{self, Read};
use std::time::{Duration, Instant};
use ureq::http::{Request, Response, StatusCode, header};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, Proxy};

pub(crate) use ureq::http::Method;

const MOST_REDIRECTS: usize = 6;
/// How much of an error's text is worth showing.
const LONGEST_REASON: u64 = 4096;

/// Something secret, and who may know it.
#[derive(Clone)]
pub(crate) struct Credential {
    pub(crate) origin: Url,
    /// The value of `Authorization`.
    pub(crate) value: String,
}

pub(crate) struct Client {
    pub(crate) network: Network,
    any: Agent,
    public: Agent,
    /// A proxy looks names up, not we.
    proxied: bool,
}

/// An answer and where it came from in the end.
pub(crate) struct Answer {
    pub(crate) url: Url,
    response: Response<Body>,
}

impl Client {
    pub(crate) fn new(network: Network) -> Self {
        let retry = network.retry;
        let proxy = Proxy::try_from_env();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_resolve(Some(retry.connect))
            .timeout_connect(Some(retry.connect))
            .timeout_recv_response(Some(retry.stall))
            .timeout_per_read(Some(retry.stall))
            .timeout_per_write(Some(retry.stall))
            .accept_encoding("identity")
            .user_agent(concat!("strata/", env!("CARGO_PKG_VERSION")))
            .proxy(proxy.clone())
            .build();
        let public = Agent::with_parts(
            config.clone(),
            DefaultConnector::default(),
            PublicOnly::default(),
        );
        Self {
            network,
            any: config.new_agent(),
            public,
            proxied: proxy.is_some(),
        }
    }

    /// Whether a host may be asked for models at all.
    pub(crate) fn permit(&self, url: &Url) -> Result<(), NetError> {
        if let Some(hosts) = &self.network.hosts
            && !hosts
                .iter()
                .any(|host| host == url.host() || host == url.authority())
        {
            return Err(NetError::NotAllowed(url.authority().into()));
        }
        if !url.tls && !self.network.insecure {
            return Err(NetError::Insecure(url.authority().into()));
        }
        Ok(())
    }

    /// Asks for something without a body, wherever that leads. The answer must be here, all of it, by then if that is
    /// given; otherwise it may take as long as bytes keep coming.
    pub(crate) fn ask(
        &self,
        method: &Method,
        origin: &Url,
        headers: &[(&str, &str)],
        credential: Option<&Credential>,
        by: Option<Instant>,
    ) -> Result<Answer, NetError> {
        let mut url = origin.clone();
        for hop in 0..=MOST_REDIRECTS {
            let last = (by, hop, &[][..]);
            let response = self.once(method, origin, &url, headers, credential, last)?;
            let location = response.headers().get(header::LOCATION);
            let location = match (response.status().as_u16(), location) {
                (301 | 302 | 303 | 307 | 308, Some(location)) => location,
                _ => return Ok(Answer { url, response }),
            };
            let next = location.to_str().ok().map(|location| url.join(location));
            let next = next.ok_or_else(|| NetError::Url("Location".into()))??;
            if url.tls && !next.tls {
                return Err(NetError::Downgrade(url.authority().into()));
            }
            url = next;
        }
        Err(NetError::Redirects(origin.authority().into()))
    }

    /// Sends bytes; redirects are not followed.
    pub(crate) fn send(
        &self,
        method: &Method,
        (origin, url): (&Url, &Url),
        headers: &[(&str, &str)],
        credential: Option<&Credential>,
        (by, body): (Option<Instant>, &[u8]),
    ) -> Result<Answer, NetError> {
        let hop = usize::from(origin != url);
        let response = self.once(method, origin, url, headers, credential, (by, hop, body))?;
        Ok(Answer {
            url: url.clone(),
            response,
        })
    }

    fn once(
        &self,
        method: &Method,
        origin: &Url,
        url: &Url,
        headers: &[(&str, &str)],
        credential: Option<&Credential>,
        (by, hop, body): (Option<Instant>, usize, &[u8]),
    ) -> Result<Response<Body>, NetError> {
        let agent = self.agent(origin, url, hop)?;
        let mut request = Request::builder()
            .method(method.clone())
            .uri(url.to_string());
        for &(key, value) in headers {
            request = request.header(key, value);
        }
        if let Some(credential) = credential.filter(|known| known.origin.same_origin(url)) {
            request = request.header(header::AUTHORIZATION, &credential.value);
        }
        let bad = |_| NetError::Url(url.to_string());
        // None left is the shortest there is: no limit at all is what zero would mean.
        let left = by.map(|by| by.saturating_duration_since(Instant::now()));
        let left = left.map(|left| left.max(Duration::from_millis(1)));
        let answer = if *method == Method::GET || *method == Method::HEAD {
            let request = agent.configure_request(request.body(()).map_err(bad)?);
            agent.run(request.timeout_global(left).build())
        } else {
            let request = agent.configure_request(request.body(body).map_err(bad)?);
            agent.run(request.timeout_global(left).build())
        };
        answer.map_err(|error| unreachable(url, &error))
    }

    /// The agent that may go there.
    fn agent(&self, origin: &Url, url: &Url, hop: usize) -> Result<&Agent, NetError> {
        let look_up = !self.proxied;
        let guarded = match self.network.private_hosts {
            PrivateHosts::Never => true,
            PrivateHosts::AsOrigin => hop > 0 && !reach::is_private(origin, look_up),
        };
        if !guarded {
            return Ok(&self.any);
        }
        if reach::is_private(url, look_up) {
            return Err(NetError::Private(url.authority().into()));
        }
        Ok(if self.proxied {
            &self.any
        } else {
            &self.public
        })
    }
}

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn host(&self) -> String {
        self.url.authority().into()
    }

    pub(crate) fn header(&self, key: &str) -> Option<&str> {
        self.response.headers().get(key)?.to_str().ok()
    }

    /// The answer, unless it is an error.
    pub(crate) fn ok(mut self) -> Result<Self, NetError> {
        if self.status().is_success() {
            return Ok(self);
        }
        let mut text = Vec::new();
        let _ = self
            .response
            .body_mut()
            .as_reader()
            .take(LONGEST_REASON)
            .read_to_end(&mut text);
        Err(NetError::Status {
            host: self.host(),
            status: self.status().as_u16(),
            reason: reason(&text),
        })
    }

    /// All of a short body.
    pub(crate) fn bytes(mut self, longest: u64) -> Result<Vec<u8>, NetError> {
        let host = self.host();
        self.plain()?;
        let mut bytes = Vec::new();
        let mut reader = self.response.body_mut().as_reader().take(longest + 1);
        reader
            .read_to_end(&mut bytes)
            .map_err(|error| broken(&host, &error))?;
        if bytes.len() as u64 > longest {
            let expected = longest;
            return Err(NetError::Long { host, expected });
        }
        Ok(bytes)
    }

    /// That nobody compressed the bytes.
    pub(crate) fn plain(&self) -> Result<(), NetError> {
        match self.header("content-encoding") {
            None | Some("" | "identity") => Ok(()),
            Some(encoding) => Err(NetError::Encoding {
                host: self.host(),
                encoding: encoding.chars().take(40).collect(),
            }),
        }
    }

    pub(crate) fn into_reader(self) -> impl Read {
        self.response.into_body().into_reader()
    }
}

/// What a registry says in an error: its message if it is of a known form, the first line otherwise.
fn reason(text: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(text).unwrap_or_default();
    let known = [
        &json["errors"][0]["message"],
        &json["errors"][0]["code"],
        &json["error"],
    ];
    let known = known.iter().find_map(|value| value.as_str());
    let text = String::from_utf8_lossy(text);
    let line = known.unwrap_or_else(|| text.lines().next().unwrap_or_default());
    line.chars()
        .filter(|character| !character.is_control())
        .take(200)
        .collect()
}

/// How rustls says that what came is no TLS at all.
const NOT_TLS: &str = "InvalidContentType";

/// A body that broke off.
pub(crate) fn broken(host: &str, error: &io::Error) -> NetError {
    let timeout = |error: &ureq::Error| matches!(error, ureq::Error::Timeout(_));
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<ureq::Error>());
    if error.kind() == io::ErrorKind::TimedOut || inner.is_some_and(timeout) {
        return NetError::Stalled(host.into());
    }
    // A number of the system tells nobody anything.
    let reason = error.to_string();
    let reason = reason.split(" (os error").next().unwrap_or(&reason);
    if reason.contains(NOT_TLS) {
        return NetError::PlainHttp(host.into());
    }
    NetError::Unreachable {
        host: host.into(),
        reason: reason.into(),
    }
}

pub(super) fn unreachable(url: &Url, error: &ureq::Error) -> NetError {
    let host = url.authority().to_string();
    match error {
        ureq::Error::Timeout(_) => NetError::Stalled(host),
        ureq::Error::Io(error) => broken(&host, error),
        error if error.to_string().contains(NOT_TLS) => NetError::PlainHttp(host),
        error => NetError::Unreachable {
            host,
            reason: error.to_string(),
        },
    }
}
