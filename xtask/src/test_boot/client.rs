//! A plain HTTP client for the servers under test.

use super::guest::TIMEOUT;
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub(super) const KEY: &str = "test-key";
/// How often a client connects, waiting twice as long for an answer each time.
const ATTEMPTS: u32 = 6;
const FIRST_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that the server has accepted.
///
/// QEMU listens with a backlog of one. If it is slow to accept, the kernel drops connections that their clients take
/// for established, and neither side is told. So a client first asks for something small, and connects again if that
/// is not answered. What it asks for later is never asked twice.
pub(super) fn connect(address: SocketAddr) -> Result<TcpStream> {
    let mut timeout = FIRST_TIMEOUT;
    for _ in 1..ATTEMPTS {
        match greet(address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => eprintln!("  boot: connecting to {address} again: {error:#}"),
        }
        timeout *= 2;
    }
    greet(address, timeout)
}

/// A new connection on which the server has said, within `timeout`, that it is well.
pub(super) fn greet(address: SocketAddr, timeout: Duration) -> Result<TcpStream> {
    let mut stream = open(address, timeout)?;
    well(&mut stream)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Asks a server, on a connection that stays, whether it is well.
pub(super) fn well(stream: &mut TcpStream) -> Result<()> {
    const WELL: &str = r#"{"status":"ok"}"#;
    let begin = Instant::now();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")?;
    let mut answer = String::new();
    while !answer.ends_with(WELL) {
        let mut bytes = [0; 512];
        let len = stream.read(&mut bytes).with_context(|| {
            let seconds = begin.elapsed().as_secs_f64();
            format!("the server did not say within {seconds:.1} s that it is well")
        })?;
        ensure!(len > 0, "the server closed the connection after {answer:?}");
        answer += &String::from_utf8_lossy(&bytes[..len]);
    }
    Ok(())
}

/// A new connection, which the server may not have accepted.
pub(super) fn open(address: SocketAddr, timeout: Duration) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, timeout).context("cannot connect")?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// A connection on which `text` was sent.
pub(super) fn send(address: SocketAddr, text: &str) -> Result<TcpStream> {
    let mut stream = connect(address)?;
    stream.write_all(text.as_bytes())?;
    Ok(stream)
}

/// Sends a request with the key.
pub(super) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> Result<(u16, String)> {
    request(address, method, path, &key(), body)
}

/// Sends a request, and returns the status and the body of the answer.
pub(super) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Result<(u16, String)> {
    let mut stream = send(address, &request_text(method, path, headers, body))?;
    let begin = Instant::now();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(|| {
        let seconds = begin.elapsed().as_secs_f64();
        format!("no answer to {method} {path} after {seconds:.0} s")
    })?;
    parsed(&answer).with_context(|| format!("{method} {path} was answered with {answer:?}"))
}

/// The header with the key.
pub(super) fn key() -> String {
    format!("authorization: Bearer {KEY}\r\n")
}

/// A request that is the last of its connection.
pub(super) fn request_text(method: &str, path: &str, headers: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The status and the body of an answer.
pub(super) fn parsed(answer: &str) -> Result<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    let body = if chunked {
        joined(body).context("the chunks cannot be read")?
    } else {
        body.into()
    };
    Ok((status, body))
}

/// A body without the sizes of its chunks.
fn joined(mut body: &str) -> Option<String> {
    let mut out = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        out.push_str(rest.get(..size)?);
        body = rest.get(size..)?.strip_prefix("\r\n")?;
        if size == 0 {
            return Some(out);
        }
    }
}
