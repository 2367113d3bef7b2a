//! Requests as they come over the wire: the JSON of each dialect, and the HTTP of a machine that has no other.
//!
//! An input is a line `METHOD TARGET` and a body.

use super::JSON_WORDS;
use crate::outcome::magnitude;
use crate::{Outcome, Target, corpus};
use std::mem::discriminant;
use strata_chat::json::Json;
use strata_wire::call::Call;
use strata_wire::dialect::{HttpRequest, pattern};
use strata_wire::http::{Connection, Next, Sending};
use strata_wire::{Dialect, Stamp, anthropic, llama_server, ollama, openai};

/// Nobody is sent megabytes to be told what is wrong.
const LONGEST_FAULT: usize = 16 << 10;

pub(super) const OPENAI: Target = Target {
    made_seeds: || pairs("openai"),
    words: JSON_WORDS,
    ..Target::new(
        "openai",
        "a request of OpenAI's dialect (chats, completions, responses, embeddings) to its reader",
        |bytes| request(&openai::DIALECT, bytes),
    )
};

pub(super) const ANTHROPIC: Target = Target {
    made_seeds: || pairs("anthropic"),
    words: JSON_WORDS,
    ..Target::new(
        "anthropic",
        "a request of Anthropic's dialect to its reader",
        |bytes| request(&anthropic::DIALECT, bytes),
    )
};

pub(super) const OLLAMA: Target = Target {
    made_seeds: || pairs("ollama"),
    words: JSON_WORDS,
    ..Target::new(
        "ollama",
        "a request of Ollama's dialect to its reader",
        |bytes| request(&ollama::DIALECT, bytes),
    )
};

pub(super) const LLAMA_SERVER: Target = Target {
    made_seeds: || pairs("llama_server"),
    words: JSON_WORDS,
    ..Target::new(
        "llama_server",
        "a request of llama-server's dialect to its reader",
        |bytes| request(&llama_server::DIALECT, bytes),
    )
};

pub(super) const HTTP: Target = Target {
    words: &[
        "\r\n",
        "\r\n\r\n",
        "GET ",
        "POST ",
        " HTTP/1.1",
        " HTTP/1.0",
        "Host: ",
        "Content-Length: ",
        "Transfer-Encoding: chunked",
        "Connection: close",
        "Expect: 100-continue",
        "Authorization: Bearer ",
        "0\r\n\r\n",
        "ffffffff\r\n",
        ";",
        "\n",
        " ",
    ],
    ..Target::new(
        "http",
        "bytes of a connection, in pieces, to the bare machine's HTTP; requests are answered",
        http,
    )
};

/// The requests of the dialect's recorded pairs, and the one that has every field.
fn pairs(dialect: &str) -> Vec<Vec<u8>> {
    let folder = corpus::repository().join("crates/wire/tests").join(dialect);
    let entries = std::fs::read_dir(folder.join("pairs"))
        .into_iter()
        .flatten();
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let pair = |path: &std::path::PathBuf| {
        let pair = Json::parse(&std::fs::read(path).ok()?).ok()?;
        let word = |key: &str| pair.get(key).and_then(Json::as_str);
        let body = pair.get("request").map(Json::text).unwrap_or_default();
        Some(format!("{} {}\n{body}", word("method")?, word("path")?).into_bytes())
    };
    paths.iter().filter_map(pair).collect()
}

fn request(dialect: &'static Dialect, bytes: &[u8]) -> Outcome {
    let end = bytes.iter().position(|&byte| byte == b'\n');
    let (line, body) = bytes.split_at(end.unwrap_or(0));
    let line = str::from_utf8(line).unwrap_or_default();
    let Some((method, target)) = line.split_once(' ') else {
        return Outcome::ignored();
    };
    let request = HttpRequest {
        method,
        target,
        body: body.strip_prefix(b"\n").unwrap_or(body),
        anthropic: false,
    };
    let stamp = Stamp {
        id: "0123abcd".into(),
        unix_seconds: 1_760_000_000,
        nanoseconds: 500_000_000,
    };
    match dialect.open(&request, &stamp, &mut ()) {
        None => Outcome::ignored(),
        Some(Err(fault)) => {
            let reply = dialect.fault(&fault, &stamp);
            assert!((400..600).contains(&reply.status), "{}", reply.status);
            let len = reply.body.len();
            assert!(len <= LONGEST_FAULT, "a fault of {len} bytes");
            Outcome::refused(&fault.message)
        }
        Some(Ok(call)) => {
            let kind = discriminant(&call);
            let route = pattern(target.split('?').next().unwrap_or_default());
            match call {
                Call::Generate(request, _) => {
                    Outcome::taken((kind, route, magnitude(format!("{request:?}").len())))
                }
                _ => Outcome::taken((kind, route)),
            }
        }
    }
}

fn http(bytes: &[u8]) -> Outcome {
    let (&piece, mut rest) = bytes.split_first().unwrap_or((&0, &[]));
    let piece = usize::from(piece) * 4 + 1;
    let mut connection = Connection::new(0);
    let (mut requests, mut now) = (0, 0);
    loop {
        let room = connection.room();
        let taken = piece.min(rest.len()).min(room);
        connection.feed(&rest[..taken], now);
        rest = &rest[taken..];
        now += 1;
        match connection.next(now) {
            Next::Nothing if taken == 0 => {
                return Outcome::taken((requests, connection.is_over(), rest.is_empty()));
            }
            Next::Nothing => {}
            Next::Request(head, body) => {
                requests += 1;
                assert!(!head.method.is_empty() && !head.path().is_empty());
                if requests % 2 == 0 {
                    connection.begin(200, &[("x-a", "b")], Sending::Pieces);
                    connection.piece(&body);
                } else {
                    connection.begin(404, &[], Sending::Whole(body.len()));
                    connection.piece(&body);
                }
                connection.end(now);
                let out = connection.outgoing().len();
                connection.sent(out, now);
            }
            Next::Refused(error) => {
                connection.begin(400, &[], Sending::Whole(0));
                connection.end(now);
                assert!(
                    connection.room() == 0,
                    "a connection that goes on after {error}"
                );
                return Outcome::refused(&error);
            }
        }
    }
}
