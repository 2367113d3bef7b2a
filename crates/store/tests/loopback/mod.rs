//! A registry on loopback for tests: faithful, unless it is told to misbehave.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use strata_store::{CONFIG_TYPE, Digest, Layer, Manifest, Network, RetryPolicy, media_type};

/// What it does with a request for a blob or manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Manners {
    #[default]
    Faithful,
    /// One byte of each blob is another.
    WrongByte,
    /// Answers ranges with everything.
    IgnoresRanges,
    /// Answers ranges with everything, and never ends.
    Endless,
    /// Says another range than was asked for.
    WrongRange,
    /// Says that the bytes are compressed.
    Compressed,
    /// Sends some bytes and then nothing more, this many times.
    Stalls(u64),
    /// Takes requests for manifests and says nothing.
    SilentManifest,
    /// Sends manifests a byte at a time, with this pause after each.
    DrippingManifest(Duration),
    /// Closes the connection after some bytes, this many times.
    Breaks(u64),
    /// Answers 503 this many times.
    Busy(u64),
    /// Sends us elsewhere for blobs.
    Redirects(String),
    /// Wants a token from there.
    Token(String),
    /// Wants a token from there, which only this `Authorization` gets.
    Login(String, String),
    /// Wants this `Authorization` with each request.
    Basic(String),
    /// Sleeps after each 64 KiB.
    Slow(Duration),
}

#[derive(Default)]
pub(crate) struct State {
    pub manners: Mutex<Manners>,
    pub blobs: Mutex<HashMap<String, Vec<u8>>>,
    pub manifests: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Files at any path.
    pub files: Mutex<HashMap<String, Vec<u8>>>,
    /// Paths that are elsewhere.
    pub moved: Mutex<HashMap<String, String>>,
    uploads: Mutex<HashMap<String, Vec<u8>>>,
    /// Bytes of blobs that were sent.
    pub sent: AtomicU64,
    pub requests: Mutex<Vec<Asked>>,
    misdeeds: AtomicU64,
    closed: AtomicBool,
}

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
}

pub(crate) struct Registry {
    pub host: String,
    pub state: Arc<State>,
}

impl Registry {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.closed.load(Ordering::Relaxed) {
                    return;
                }
                let (shared, stream) = (Arc::clone(&shared), stream.unwrap());
                std::thread::spawn(move || {
                    let _ = serve(&shared, &stream);
                });
            }
        });
        Self { host, state }
    }

    pub(crate) fn behave(&self, manners: Manners) {
        self.state.misdeeds.store(0, Ordering::Relaxed);
        *self.state.manners.lock().unwrap() = manners;
    }

    pub(crate) fn add_blob(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        let blobs = &self.state.blobs;
        blobs
            .lock()
            .unwrap()
            .insert(digest.to_string(), bytes.to_vec());
        digest
    }

    /// A model of some weights and a system prompt; gives its manifest.
    pub(crate) fn add_model(&self, path: &str, weights: &[u8]) -> Vec<u8> {
        let layer = |kind: &str, bytes: &[u8]| Layer {
            media_type: kind.into(),
            digest: self.add_blob(bytes),
            size: bytes.len() as u64,
            from: None,
        };
        let manifest = Manifest {
            layers: vec![
                layer(media_type::MODEL, weights),
                layer(media_type::SYSTEM, b"You are a test."),
            ],
            config: Some(layer(CONFIG_TYPE, b"{\"model_format\":\"gguf\"}\n")),
        };
        let bytes = manifest.to_json();
        self.add_manifest(path, &bytes);
        bytes
    }

    pub(crate) fn add_manifest(&self, path: &str, bytes: &[u8]) {
        let manifests = &self.state.manifests;
        manifests
            .lock()
            .unwrap()
            .insert(path.into(), bytes.to_vec());
    }

    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.host)
    }

    pub(crate) fn sent(&self) -> u64 {
        self.state.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.state.requests.lock().unwrap().clone()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.host);
    }
}

/// Without TLS, and quick to give up.
pub(crate) fn network() -> Network {
    Network {
        insecure: true,
        parallel: 4,
        retry: RetryPolicy {
            connect: Duration::from_secs(5),
            stall: Duration::from_millis(1500),
            document: Duration::from_secs(4),
            tries: 3,
            pause: Duration::from_millis(20),
        },
        ..Network::default()
    }
}

/// Bytes that no compression shortens.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn serve(state: &State, stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace().map(String::from);
        let (method, path) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((key, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.insert(key.to_ascii_lowercase(), value.to_string());
        }
        let length = headers.get("content-length").and_then(|l| l.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let asked = Asked {
            method,
            path,
            headers,
        };
        state.requests.lock().unwrap().push(asked.clone());
        let mut out = stream.try_clone()?;
        if !answer(state, &asked, &body, &mut out)? {
            return Ok(());
        }
    }
}

fn reply(out: &mut TcpStream, status: &str, headers: &str, body: &[u8]) -> std::io::Result<bool> {
    let length = body.len();
    write!(
        out,
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n"
    )?;
    out.write_all(body)?;
    Ok(true)
}

/// Answers; says whether the connection goes on.
fn answer(state: &State, asked: &Asked, body: &[u8], out: &mut TcpStream) -> std::io::Result<bool> {
    let manners = state.manners.lock().unwrap().clone();
    if let Manners::Token(realm) = &manners {
        if asked.path.starts_with("/token?") {
            return reply(out, "200 OK", "", b"{\"token\":\"secret\"}");
        }
        if asked.headers.get("authorization").map(String::as_str) != Some("Bearer secret") {
            let challenge = format!(
                "www-authenticate: Bearer realm=\"{realm}\",service=\"test\",scope=\"repository:a/b:pull\"\r\n"
            );
            return reply(out, "401 Unauthorized", &challenge, b"");
        }
    }
    let given = asked.headers.get("authorization").map(String::as_str);
    if let Manners::Login(realm, login) = &manners {
        if asked.path.starts_with("/token?") {
            return if given == Some(login) {
                reply(out, "200 OK", "", b"{\"token\":\"secret\"}")
            } else {
                reply(out, "401 Unauthorized", "", b"")
            };
        }
        if given != Some("Bearer secret") {
            let challenge =
                format!("www-authenticate: Bearer realm=\"{realm}\",service=\"test\"\r\n");
            return reply(out, "401 Unauthorized", &challenge, b"");
        }
    }
    if let Manners::Basic(login) = &manners
        && given != Some(login)
    {
        let challenge = "www-authenticate: Basic realm=\"test\"\r\n";
        return reply(out, "401 Unauthorized", challenge, b"");
    }
    let path = asked.path.split('?').next().unwrap_or_default();
    let moved = state.moved.lock().unwrap().get(path).cloned();
    if let Some(to) = moved {
        return reply(out, "302 Found", &format!("location: {to}\r\n"), b"");
    }
    let file = state.files.lock().unwrap().get(path).cloned();
    if let Some(bytes) = file {
        return send(state, asked, bytes, &manners, out);
    }
    let parts: Vec<&str> = path.trim_start_matches("/v2/").split('/').collect();
    match (asked.method.as_str(), parts.as_slice()) {
        ("GET", [namespace, model, "manifests", tag]) => {
            let key = format!("{namespace}/{model}:{tag}");
            let found = state.manifests.lock().unwrap().get(&key).cloned();
            match found {
                Some(_) if manners == Manners::SilentManifest => {
                    std::thread::sleep(Duration::from_secs(60));
                    Ok(false)
                }
                Some(bytes) => match manners {
                    Manners::DrippingManifest(pause) => {
                        write!(
                            out,
                            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
                            bytes.len()
                        )?;
                        for byte in bytes {
                            out.write_all(&[byte])?;
                            std::thread::sleep(pause);
                        }
                        Ok(true)
                    }
                    _ => reply(out, "200 OK", "", &bytes),
                },
                None => reply(
                    out,
                    "404 Not Found",
                    "",
                    b"{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\"}]}",
                ),
            }
        }
        ("PUT", [namespace, model, "manifests", tag]) => {
            let key = format!("{namespace}/{model}:{tag}");
            state.manifests.lock().unwrap().insert(key, body.to_vec());
            reply(out, "201 Created", "", b"")
        }
        ("POST", [namespace, model, "blobs", "uploads", ""]) => {
            let id = state.uploads.lock().unwrap().len().to_string();
            state.uploads.lock().unwrap().insert(id.clone(), Vec::new());
            let location =
                format!("location: /v2/{namespace}/{model}/blobs/uploads/{id}?state=x\r\n");
            reply(out, "202 Accepted", &location, b"")
        }
        ("PATCH", [.., "uploads", id]) => {
            state
                .uploads
                .lock()
                .unwrap()
                .get_mut(*id)
                .unwrap()
                .extend_from_slice(body);
            reply(
                out,
                "202 Accepted",
                &format!("location: {}\r\n", asked.path),
                b"",
            )
        }
        ("PUT", [.., "uploads", id]) => {
            let bytes = state.uploads.lock().unwrap().remove(*id).unwrap();
            let digest = Digest::of(&bytes).to_string();
            if !asked
                .path
                .ends_with(&format!("digest={}", digest.replace(':', "%3A")))
            {
                return reply(out, "400 Bad Request", "", b"");
            }
            state.blobs.lock().unwrap().insert(digest, bytes);
            reply(out, "201 Created", "", b"")
        }
        (method, [.., "blobs", digest]) => blob(state, asked, method, digest, &manners, out),
        _ => reply(out, "404 Not Found", "", b""),
    }
}

fn blob(
    state: &State,
    asked: &Asked,
    method: &str,
    digest: &str,
    manners: &Manners,
    out: &mut TcpStream,
) -> std::io::Result<bool> {
    let Some(bytes) = state.blobs.lock().unwrap().get(digest).cloned() else {
        return reply(out, "404 Not Found", "", b"");
    };
    if method == "HEAD" {
        write!(
            out,
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
            bytes.len()
        )?;
        return Ok(true);
    }
    send(state, asked, bytes, manners, out)
}

fn send(
    state: &State,
    asked: &Asked,
    mut bytes: Vec<u8>,
    manners: &Manners,
    out: &mut TcpStream,
) -> std::io::Result<bool> {
    if let Manners::Redirects(to) = manners {
        return reply(
            out,
            "307 Temporary Redirect",
            &format!("location: {to}{}\r\n", asked.path),
            b"",
        );
    }
    if let Manners::Busy(times) = manners
        && state.misdeeds.fetch_add(1, Ordering::Relaxed) < *times
    {
        return reply(out, "503 Service Unavailable", "", b"later");
    }
    if *manners == Manners::WrongByte {
        bytes[0] ^= 1;
    }
    let len = bytes.len();
    let range = asked
        .headers
        .get("range")
        .filter(|_| !matches!(manners, Manners::IgnoresRanges | Manners::Endless));
    let (first, end) = match range {
        None => (0, len),
        Some(range) => {
            let (first, last) = range
                .strip_prefix("bytes=")
                .unwrap()
                .split_once('-')
                .unwrap();
            (first.parse().unwrap(), last.parse::<usize>().unwrap() + 1)
        }
    };
    if first >= len {
        return reply(out, "416 Range Not Satisfiable", "", b"");
    }
    let end = end.min(len);
    let status = if range.is_some() {
        "206 Partial Content"
    } else {
        "200 OK"
    };
    write!(out, "HTTP/1.1 {status}\r\n")?;
    if range.is_some() {
        let shift = usize::from(*manners == Manners::WrongRange);
        write!(
            out,
            "content-range: bytes {}-{}/{len}\r\n",
            first + shift,
            end - 1 + shift
        )?;
    }
    match manners {
        Manners::Compressed => write!(out, "content-encoding: gzip\r\n")?,
        Manners::Endless => {
            write!(out, "\r\n")?;
            for _ in 0..10_000 {
                out.write_all(&bytes)?;
                state.sent.fetch_add(len as u64, Ordering::Relaxed);
            }
            return Ok(false);
        }
        _ => {}
    }
    write!(out, "content-length: {}\r\n\r\n", end - first)?;
    let mut rest = &bytes[first..end];
    let limit = match manners {
        Manners::Stalls(times) | Manners::Breaks(times)
            if state.misdeeds.fetch_add(1, Ordering::Relaxed) < *times =>
        {
            rest.len() / 2
        }
        _ => rest.len(),
    };
    rest = &rest[..limit];
    for piece in rest.chunks(64 << 10) {
        out.write_all(piece)?;
        state.sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
        if let Manners::Slow(pause) = manners {
            std::thread::sleep(*pause);
        }
    }
    if limit < end - first {
        if matches!(manners, Manners::Stalls(_)) {
            std::thread::sleep(Duration::from_secs(20));
        }
        return Ok(false);
    }
    Ok(true)
}
