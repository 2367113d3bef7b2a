//! Whether the server of this machine is up, for those who ask by starting a program.

use super::socket::Socket;
use crate::failure::{Failure, Kind};
use crate::serve;
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
#[cfg(unix)]
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(4);
/// What a server has for a token: it may have to load its model first.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);
/// Longer answers are not looked at.
const LONGEST: u64 = 1 << 20;

/// Where a server is asked.
enum Place {
    Address(SocketAddr),
    #[cfg(unix)]
    Socket(PathBuf),
}

impl Place {
    /// What `STRATA_HOST` or `OLLAMA_HOST` names, or else the artifact's socket, or the usual address.
    fn named(socket: &Socket) -> Result<Self, Failure> {
        let set = |key| std::env::var(key).ok().filter(|value| !value.is_empty());
        let host = set("STRATA_HOST").or_else(|| set("OLLAMA_HOST"));
        #[cfg(unix)]
        {
            let named = host.as_deref().map(str::trim);
            let path = match named {
                Some(host) => host.strip_prefix("unix:").map(PathBuf::from),
                None => socket.path(),
            };
            if let Some(path) = path {
                return Ok(Self::Socket(path));
            }
        }
        #[cfg(not(unix))]
        let _ = socket;
        let address = serve::address(&host.unwrap_or_default())?;
        Ok(Self::Address(serve::reachable(address)))
    }

    fn exchange(&self, patience: Duration, request: &str) -> io::Result<String> {
        match self {
            Self::Address(address) => {
                let stream = TcpStream::connect_timeout(address, PATIENCE)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                exchange(stream, request)
            }
            #[cfg(unix)]
            Self::Socket(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                exchange(stream, request)
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "http://{address}"),
            #[cfg(unix)]
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Asks the server how it is.
pub(super) fn check(socket: &Socket) -> Result<(), Failure> {
    let place = Place::named(socket)?;
    ask(&place, PATIENCE, "GET", "/health", "").map(drop)
}

/// Asks the server for a token, and says which model answered, and when.
pub(super) fn status(engine: Option<&str>, socket: &Socket) -> Result<(), Failure> {
    let place = Place::named(socket)?;
    let models = ask(&place, PATIENCE, "GET", "/v1/models", "")?;
    let models: Value = serde_json::from_str(&models).unwrap_or_default();
    let model = models["data"][0]["id"].as_str().unwrap_or_default();
    let request = json!({ "model": model, "prompt": "Hello", "max_tokens": 1, "temperature": 0 });
    let begin = Instant::now();
    let (path, body) = ("/v1/completions", request.to_string());
    let answer = ask(&place, ANSWER_PATIENCE, "POST", path, &body)?;
    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    if answer["usage"]["completion_tokens"].as_u64() != Some(1) {
        let sentence = format_args!("the server at {place} answers without a token");
        return Err(Failure::new(Kind::Failed, sentence));
    }
    let seconds = begin.elapsed().as_secs_f64();
    let mut out = io::stdout();
    let written = writeln!(
        out,
        "engine:   {}\nmodel:    {model}\nserver:   {place}\nanswered: after {seconds:.2} s",
        engine.unwrap_or("the largest that fits")
    );
    written.map_err(|error| Failure::stdout(&error))
}

/// The body of an answer whose status is 200.
fn ask(
    place: &Place,
    patience: Duration,
    method: &str,
    path: &str,
    body: &str,
) -> Result<String, Failure> {
    let key = std::env::var("STRATA_API_KEY").ok();
    let key = key.filter(|key| key.chars().all(|c| ('!'..='~').contains(&c)));
    let key = key.map(|key| format!("Authorization: Bearer {key}\r\n"));
    let host = match place {
        Place::Address(address) => address.to_string(),
        #[cfg(unix)]
        Place::Socket(_) => "localhost".into(),
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        key.unwrap_or_default(),
        body.len()
    );
    let answer = place.exchange(patience, &request);
    let answer = answer.map_err(|error| Failure::io(place, &error))?;
    let status = answer.get(9..12).unwrap_or_default();
    if status != "200" {
        let sentence = format_args!("the server at {place} answers with status {status}");
        return Err(Failure::new(Kind::Failed, sentence));
    }
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    Ok(body.unwrap_or_default().into())
}

fn exchange(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    String::from_utf8(answer).map_err(|_| io::ErrorKind::InvalidData.into())
}
