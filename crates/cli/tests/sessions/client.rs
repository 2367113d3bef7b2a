//! A server with a socket, and the smallest client of it.

use crate::program::command;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder that other users may look into, gone with the test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let name = format!("strata-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// All bytes of all files of the folder.
    pub(crate) fn holds(&self, what: &[u8]) -> bool {
        fn look(path: &Path, what: &[u8]) -> bool {
            let entries = std::fs::read_dir(path).unwrap().flatten();
            entries.map(|entry| entry.path()).any(|path| {
                if path.is_dir() {
                    return look(&path, what);
                }
                let bytes = std::fs::read(&path).unwrap_or_default();
                bytes.windows(what.len()).any(|window| window == what)
            })
        }
        look(&self.0, what)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server at a socket.
pub(crate) struct SocketServer {
    program: Child,
    pub(crate) socket: PathBuf,
}

impl SocketServer {
    /// Serves the built-in model at a socket alone.
    pub(crate) fn start(socket: &Path, words: &[&str]) -> Self {
        let mut command = command();
        command.args(["serve", "tale", "--threads", "2", "--ctx", "512"]);
        command.arg("--socket").arg(socket).arg("--socket-only");
        command.args(words);
        Self::spawn(command, socket)
    }

    /// Waits until a server says that it listens.
    pub(crate) fn spawn(mut command: Command, socket: &Path) -> Self {
        let mut program = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let listens = lines.by_ref().map_while(Result::ok).any(|line| {
            let listens = line.contains("listening on the socket");
            said.push(line);
            listens
        });
        assert!(listens, "{said:?}");
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            program,
            socket: socket.into(),
        }
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Reply {
        ask(&self.socket, method, path, &body.to_string())
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &json!({})).ok()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", path, body).ok()
    }

    /// Opens a session and gives its name.
    pub(crate) fn open(&self, body: &Value) -> String {
        let opened = self.ask("POST", "/sessions", body);
        assert_eq!(opened.status, 201, "{}", opened.body);
        opened.json()["id"].as_str().unwrap().into()
    }

    /// What a turn answers.
    pub(crate) fn turn(&self, id: &str, body: &Value) -> String {
        text(&self.post(&format!("/sessions/{id}/turns"), body))
    }

    /// Sends the beginning of a turn and leaves once so many bytes of its answer came.
    pub(crate) fn leave(&self, id: &str, body: &Value, bytes: usize) -> String {
        let path = format!("/sessions/{id}/turns");
        let mut stream = connect(&self.socket);
        send(&mut stream, "POST", &path, &body.to_string());
        let mut said = Vec::new();
        while said.len() < bytes {
            let mut piece = [0; 256];
            let read = stream.read(&mut piece).unwrap();
            assert!(read > 0, "the answer ended");
            said.extend_from_slice(&piece[..read]);
        }
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{}", self.body);
        self.json()
    }
}

/// The text of an answer.
pub(crate) fn text(answer: &Value) -> String {
    let choice = &answer["choices"][0];
    let text = choice["text"]
        .as_str()
        .or(choice["message"]["content"].as_str());
    text.unwrap_or_else(|| panic!("{answer}")).into()
}

/// The texts of a stream of completions, joined.
pub(crate) fn streamed(events: &str) -> String {
    let events = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter(|event| *event != "[DONE]");
    let texts = events.map(|event| {
        let event: Value = serde_json::from_str(event).unwrap();
        event["choices"][0]["text"]
            .as_str()
            .unwrap_or("")
            .to_owned()
    });
    texts.collect()
}

fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).unwrap();
    stream
}

fn send(stream: &mut UnixStream, method: &str, path: &str, body: &str) {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
}

pub(crate) fn ask(socket: &Path, method: &str, path: &str, body: &str) -> Reply {
    let mut stream = connect(socket);
    send(&mut stream, method, path, body);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let reply = String::from_utf8(bytes).unwrap();
    let (head, body) = reply
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{reply:?}"));
    let chunked = head.to_ascii_lowercase().contains("chunked");
    Reply {
        status: head[9..12].parse().unwrap(),
        body: if chunked { joined(body) } else { body.into() },
    }
}

fn joined(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        out.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    out
}

/// Waits for something to be so.
pub(crate) fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
