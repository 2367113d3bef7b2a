//! One request of one client, in any of the dialects.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Path, body without its last brace, what ends a stream, and the field that asks for one.
const DIALECTS: &[(&str, &str, &str, bool)] = &[
    (
        "/v1/chat/completions",
        r#"{"model":"tale","max_tokens":16,"messages":[{"role":"user","content":"$"}]"#,
        "[DONE]",
        true,
    ),
    (
        "/v1/messages",
        r#"{"model":"tale","max_tokens":16,"messages":[{"role":"user","content":"$"}]"#,
        "message_stop",
        true,
    ),
    (
        "/api/chat",
        r#"{"model":"tale","options":{"num_predict":16},"messages":[{"role":"user","content":"$"}]"#,
        "\"done\":true",
        true,
    ),
    (
        "/completion",
        r#"{"prompt":"$","n_predict":16"#,
        "\"stop\":true",
        true,
    ),
    (
        "/v1/responses",
        r#"{"model":"tale","max_output_tokens":16,"input":"$""#,
        "\"output_tokens\"",
        true,
    ),
    (
        "/v1/completions",
        r#"{"model":"tale","max_tokens":16,"prompt":["$","$ and"]"#,
        "[DONE]",
        true,
    ),
    (
        "/api/generate",
        r#"{"model":"tale","options":{"num_predict":16},"prompt":"$""#,
        "\"done\":true",
        true,
    ),
    (
        "/v1/embeddings",
        r#"{"model":"tale","input":["$","漢字 😀"]"#,
        "",
        false,
    ),
    (
        "/v1/chat/completions",
        r#"{"model":"tale","max_tokens":48,"messages":[{"role":"user","content":"$"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"enum":["漢字 😀","a small dog"]}}}"#,
        "[DONE]",
        true,
    ),
];

/// What to ask.
pub(crate) struct Ask {
    path: &'static str,
    body: String,
    end: &'static str,
    stream: bool,
    /// Bytes of the answer after which the client has gone.
    leaves_after: Option<usize>,
}

/// What came of it.
pub(crate) struct Told {
    pub(crate) outcome: Outcome,
    /// When the first byte of the answer came.
    pub(crate) first: Option<Duration>,
    pub(crate) whole: Duration,
}

pub(crate) enum Outcome {
    Answered,
    /// The client went away, as it was to.
    Left,
    /// The server was full, and said when to come back.
    Refused(u16, Duration),
    Wrong(String),
}

impl Ask {
    /// Each client's own sequence of requests: dialects in turn, every other one a stream, three in ten left early.
    pub(crate) fn new(client: usize, round: usize) -> Self {
        let turn = client.wrapping_mul(7).wrapping_add(round);
        let (path, body, end, streams) = DIALECTS[turn % DIALECTS.len()];
        let stream = streams && (client + round / DIALECTS.len()).is_multiple_of(2);
        let long = turn.is_multiple_of(5);
        let words = "and they went on to the next house ".repeat(if long { 12 } else { 1 });
        let text = format!("Client {client} tells story {round}: {words}");
        let body = body.replace('$', &text);
        let field = if streams {
            format!(",\"stream\":{stream}")
        } else {
            String::new()
        };
        Self {
            path,
            body: format!("{body}{field}}}"),
            end,
            stream,
            leaves_after: [1, 4, 8]
                .contains(&(turn.wrapping_mul(3) % 10))
                .then_some(turn % 700),
        }
    }

    pub(crate) fn run(&self, address: SocketAddr, timeout: Duration) -> Told {
        let start = Instant::now();
        let mut first = None;
        let outcome = self.exchange(address, timeout, &mut |_| {
            first.get_or_insert_with(|| start.elapsed());
        });
        Told {
            outcome: outcome
                .unwrap_or_else(|error| Outcome::Wrong(format!("{}: {error}", self.path))),
            first,
            whole: start.elapsed(),
        }
    }

    fn exchange(
        &self,
        address: SocketAddr,
        timeout: Duration,
        heard: &mut dyn FnMut(usize),
    ) -> std::io::Result<Outcome> {
        let mut stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        let (path, length) = (self.path, self.body.len());
        let head = "host: localhost\r\nconnection: close\r\ncontent-type: application/json";
        let request = format!(
            "POST {path} HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{}",
            self.body
        );
        stream.write_all(request.as_bytes())?;
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            if self.leaves_after.is_some_and(|most| answer.len() >= most) {
                return Ok(Outcome::Left);
            }
            let read = stream.read(&mut piece)?;
            if read == 0 {
                break;
            }
            heard(read);
            answer.extend_from_slice(&piece[..read]);
        }
        Ok(self.judge(&String::from_utf8_lossy(&answer)))
    }

    fn judge(&self, answer: &str) -> Outcome {
        let status = answer
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse::<u16>().ok());
        match status {
            Some(200) if !self.stream || answer.contains(self.end) => Outcome::Answered,
            Some(200) => Outcome::Wrong(format!("{}: the stream has no end", self.path)),
            // Anthropic's word for a full server is 529.
            Some(status @ (429 | 503 | 529)) => {
                let lower = answer.to_ascii_lowercase();
                let after = lower.split("retry-after: ").nth(1);
                let after = after.and_then(|rest| rest.lines().next()?.trim().parse().ok());
                match after {
                    Some(seconds) => Outcome::Refused(status, Duration::from_secs(seconds)),
                    None => Outcome::Wrong(format!("{status} without Retry-After")),
                }
            }
            Some(status) => Outcome::Wrong(format!("{}: {status}", self.path)),
            None => Outcome::Wrong(format!("{}: no answer", self.path)),
        }
    }
}
