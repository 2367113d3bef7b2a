//! Stores and servers of a test's own.

use super::{Run, command, finish};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A folder with a store, gone with the test.
pub(crate) struct TestFolder(PathBuf);

impl TestFolder {
    pub(crate) fn new(name: &str) -> Self {
        let path = super::scratch(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.0.join("models")
    }

    pub(crate) fn strata(&self, words: &[&str], host: &str) -> Run {
        let mut command = command();
        command.env("OLLAMA_MODELS", self.store()).args(words);
        command.env("STRATA_HOST", host).current_dir(&self.0);
        finish(command)
    }

    pub(crate) fn create(&self, name: &str, modelfile: &str) {
        let path = self.0.join("Modelfile");
        std::fs::write(&path, modelfile).unwrap();
        self.strata(&["create", name, "-f", path.to_str().unwrap()], "")
            .text();
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server of its own.
pub(crate) struct Server {
    program: Child,
    pub(crate) host: String,
}

impl Server {
    /// One of `models`, or of the built-in one, with the models of a store.
    pub(crate) fn start(store: &Path, models: &[&str]) -> Self {
        let mut command = command();
        command
            .args(["serve", "--threads", "2", "--ctx", "512"])
            .args(models)
            .env("OLLAMA_MODELS", store);
        Self::spawn(command)
    }

    /// Starts `strata serve` with the arguments of a command, on a free port.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut program = command
            .args(["--host", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let host = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let host = line.split_once("listening on http://");
            let host = host.map(|(_, host)| host.to_owned());
            said.push(line);
            host
        });
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            host: host.unwrap_or_else(|| panic!("{said:?}")),
            program,
        }
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.program.id()
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.host,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        let status = std::str::from_utf8(&bytes[9..12]).unwrap().parse().unwrap();
        let body = bytes.split_off(end + 4);
        let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        if head.contains("transfer-encoding: chunked") {
            (status, joined(&body))
        } else {
            (status, body)
        }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let (status, body) = self.ask("POST", path, body.to_string().as_bytes());
        let json: Value = serde_json::from_slice(&body).unwrap_or_default();
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        json
    }

    /// The text of an answer, whatever its status.
    pub(crate) fn post_text(&self, path: &str, body: &Value) -> String {
        let (_, body) = self.ask("POST", path, body.to_string().as_bytes());
        String::from_utf8(body).unwrap()
    }

    pub(crate) fn refused(&self, path: &str, body: &Value) -> String {
        let (status, body) = self.ask("POST", path, body.to_string().as_bytes());
        assert!((400..500).contains(&status), "{path}: {status}");
        String::from_utf8(body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Joins the chunks of a body.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = std::str::from_utf8(&body[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        out.extend_from_slice(&body[end + 2..][..size]);
        body = &body[end + 2 + size + 2..];
        if size == 0 {
            return out;
        }
    }
}
