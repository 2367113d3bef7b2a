//! Talks to a server that runs: the one at `STRATA_HOST` or `OLLAMA_HOST`, which may be `unix:PATH`, or on this machine.

use crate::failure::{Failure, Kind};
use crate::serve;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// How long the server may take to be reached, and then to answer.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(60);
/// Longer answers are refused.
const LONGEST: u64 = 64 << 20;

/// A server.
pub(crate) struct ServerClient {
    place: Place,
    key: Option<String>,
}

/// Where it listens.
enum Place {
    Address(SocketAddr),
    #[cfg(unix)]
    Socket(std::path::PathBuf),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            #[cfg(unix)]
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

/// What it answered.
pub(crate) struct ServerAnswer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl ServerClient {
    /// The server that the environment names.
    pub(crate) fn from_env() -> Result<Self, Failure> {
        let set = |key| std::env::var(key).ok().filter(|value| !value.is_empty());
        let host = set("STRATA_HOST").or_else(|| set("OLLAMA_HOST"));
        let host = host.unwrap_or_default();
        if host.trim().starts_with("https://") {
            let sentence =
                format_args!("cannot connect to {host}: this command does not support TLS");
            return Err(Failure::new(Kind::Usage, sentence).hint("use an http:// address"));
        }
        #[cfg(unix)]
        if let Some(path) = host.trim().strip_prefix("unix:") {
            return Ok(Self {
                place: Place::Socket(path.into()),
                key: None,
            });
        }
        let mut address = serve::address(&host)?;
        // Where a server listens on all addresses, this machine's own is one.
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        Ok(Self {
            place: Place::Address(address),
            key: set("STRATA_API_KEY"),
        })
    }

    pub(crate) fn get(&self, path: &str) -> Result<ServerAnswer, Failure> {
        self.ask("GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<ServerAnswer, Failure> {
        self.ask("POST", path, &body.to_string())
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<ServerAnswer, Failure> {
        let place = &self.place;
        let unreachable = |error: std::io::Error| {
            let sentence = format_args!("cannot connect to a server at {place}: {error}");
            Failure::new(Kind::Failed, sentence)
                .hint("`strata serve` starts one; set STRATA_HOST to use another address")
        };
        let host = match place {
            Place::Address(address) => address.to_string(),
            #[cfg(unix)]
            Place::Socket(_) => "localhost".into(),
        };
        let key = self.key.as_ref();
        let key = key.map(|key| format!("authorization: Bearer {key}\r\n"));
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n{}\r\n{body}",
            body.len(),
            key.unwrap_or_default()
        );
        let bytes = match place {
            Place::Address(address) => {
                TcpStream::connect_timeout(address, CONNECT).and_then(|stream| {
                    stream.set_read_timeout(Some(ANSWER))?;
                    stream.set_write_timeout(Some(ANSWER))?;
                    exchange(stream, &request)
                })
            }
            #[cfg(unix)]
            Place::Socket(path) => {
                std::os::unix::net::UnixStream::connect(path).and_then(|stream| {
                    stream.set_read_timeout(Some(ANSWER))?;
                    stream.set_write_timeout(Some(ANSWER))?;
                    exchange(stream, &request)
                })
            }
        };
        read(&bytes.map_err(unreachable)?).ok_or_else(|| {
            let sentence = format_args!("the program at {place} is not a model server");
            Failure::new(Kind::Failed, sentence)
        })
    }
}

/// Sends a request and reads the reply to its end.
fn exchange(mut stream: impl Read + Write, request: &str) -> std::io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl ServerAnswer {
    /// The answer, or what the server says is wrong.
    pub(crate) fn ok(self) -> Result<Value, Failure> {
        if (200..300).contains(&self.status) {
            return Ok(self.body);
        }
        let said = self.body["error"].as_str().unwrap_or("no reason given");
        let failure = Failure::new(
            Kind::Failed,
            format_args!("the server reported an error: {said}"),
        );
        Err(match self.status {
            401 | 403 => failure.hint("set STRATA_API_KEY to the server's key"),
            _ => failure,
        })
    }
}

/// Status and JSON of a reply that ends with the connection.
fn read(bytes: &[u8]) -> Option<ServerAnswer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    let body = &bytes[end + 4..];
    let body = if chunked {
        dechunked(body)?
    } else {
        body.to_vec()
    };
    // A stream of lines ends with the one that counts.
    let last = body
        .split(|&byte| byte == b'\n')
        .rfind(|line| !line.is_empty());
    let body = last.map_or(Ok(Value::Null), serde_json::from_slice);
    let body = body.unwrap_or(Value::Null);
    Some(ServerAnswer { status, body })
}

fn dechunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        let from = end + 2;
        body.extend(rest.get(from..from.checked_add(size)?)?);
        rest = rest.get(from + size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_whole_and_in_pieces() {
        let whole = b"HTTP/1.1 404 Not Found\r\ncontent-length: 13\r\n\r\n{\"error\":\"x\"}";
        let answer = read(whole).unwrap();
        assert_eq!(answer.status, 404);
        assert!(answer.ok().unwrap_err().to_string().contains("an error: x"));
        let pieces = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{}\n{\r\n7\r\n\"a\":1}\n\r\n0\r\n\r\n";
        assert_eq!(read(pieces).unwrap().ok().unwrap()["a"], 1);
        for bad in [&b"SSH-2.0"[..], b"HTTP/1.1 2\r\n\r\n", b""] {
            assert!(read(bad).is_none());
        }
        assert!(dechunked(b"ffffffffffffffff\r\nx").is_none());
    }
}
