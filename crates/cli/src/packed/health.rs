//! Whether the server of this machine is up, for those who ask by starting a program.

use crate::failure::{Failure, Kind};
use crate::serve;
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(4);
/// What a server has for a token: it may have to load its model first.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);
/// Longer answers are not looked at.
const LONGEST: u64 = 1 << 20;

/// Asks the server at `OLLAMA_HOST` how it is.
pub(super) fn check() -> Result<(), Failure> {
    let address = address()?;
    ask(address, PATIENCE, "GET", "/health", "").map(drop)
}

/// Asks the server for a token, and says which model answered, and when.
pub(super) fn status(engine: Option<&str>) -> Result<(), Failure> {
    let address = address()?;
    let models = ask(address, PATIENCE, "GET", "/v1/models", "")?;
    let models: Value = serde_json::from_str(&models).unwrap_or_default();
    let model = models["data"][0]["id"].as_str().unwrap_or_default();
    let request = json!({ "model": model, "prompt": "Hello", "max_tokens": 1, "temperature": 0 });
    let begin = Instant::now();
    let (path, body) = ("/v1/completions", request.to_string());
    let answer = ask(address, ANSWER_PATIENCE, "POST", path, &body)?;
    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    if answer["usage"]["completion_tokens"].as_u64() != Some(1) {
        let sentence = format_args!("the server at {address} answers without a token");
        return Err(Failure::new(Kind::Failed, sentence));
    }
    let seconds = begin.elapsed().as_secs_f64();
    let mut out = io::stdout();
    let written = writeln!(
        out,
        "engine:   {}\nmodel:    {model}\nserver:   http://{address}\nanswered: after {seconds:.2} s",
        engine.unwrap_or("the largest that fits")
    );
    written.map_err(|error| Failure::stdout(&error))
}

fn address() -> Result<SocketAddr, Failure> {
    let host = std::env::var("OLLAMA_HOST").unwrap_or_default();
    Ok(serve::reachable(serve::address(&host)?))
}

/// The body of an answer whose status is 200.
fn ask(
    address: SocketAddr,
    patience: Duration,
    method: &str,
    path: &str,
    body: &str,
) -> Result<String, Failure> {
    let key = std::env::var("STRATA_API_KEY").ok();
    let key = key.filter(|key| key.chars().all(|c| ('!'..='~').contains(&c)));
    let key = key.map(|key| format!("Authorization: Bearer {key}\r\n"));
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        key.unwrap_or_default(),
        body.len()
    );
    let answer = exchange(address, patience, &request);
    let answer = answer.map_err(|error| Failure::io(address, &error))?;
    let status = answer.get(9..12).unwrap_or_default();
    if status != "200" {
        let sentence = format_args!("the server at {address} answers with status {status}");
        return Err(Failure::new(Kind::Failed, sentence));
    }
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    Ok(body.unwrap_or_default().into())
}

fn exchange(address: SocketAddr, patience: Duration, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    String::from_utf8(answer).map_err(|_| io::ErrorKind::InvalidData.into())
}
