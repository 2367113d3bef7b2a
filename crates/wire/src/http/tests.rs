//! Requests whole, in pieces, and broken.

use super::*;
use alloc::string::String;
use alloc::vec::Vec;

fn parse(text: &str) -> Result<Option<(Head, usize)>, HttpError> {
    Head::parse(text.as_bytes())
}

/// Feeds pieces of `size` bytes and answers each request with its path and body.
fn converse(input: &[u8], size: usize) -> (String, bool) {
    let mut connection = Connection::new(0);
    let mut out = Vec::new();
    for piece in input.chunks(size) {
        connection.feed(piece, 0);
        loop {
            match connection.next(0) {
                Next::Nothing => break,
                Next::Request(head, body) => {
                    connection.begin(200, &[], Sending::Pieces);
                    connection.piece(head.path().as_bytes());
                    connection.piece(&body);
                    connection.end(0);
                }
                Next::Refused(_) => {
                    connection.begin(400, &[], Sending::Whole(0));
                    connection.end(0);
                }
            }
        }
        out.extend_from_slice(connection.outgoing());
        connection.sent(connection.outgoing().len(), 0);
    }
    (String::from_utf8(out).unwrap(), connection.is_over())
}

const TWO: &[u8] = b"POST /a?b HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyz\
    POST /c HTTP/1.1\r\ntransfer-encoding: Chunked\r\nConnection: close\r\n\r\n\
    2;name=v\r\nhi\r\n1\r\n!\r\n0\r\nTrailer: 1\r\n\r\n";

#[test]
fn requests_follow_each_other_however_they_are_cut() {
    let answer = |body: &str, end: &str| {
        std::format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n{end}\r\n\r\n{body}0\r\n\r\n"
        )
    };
    let first = answer("2\r\n/a\r\n3\r\nxyz\r\n", "connection: keep-alive");
    let second = answer("2\r\n/c\r\n3\r\nhi!\r\n", "connection: close");
    for size in [1, 2, 3, 7, 50, 1000] {
        let (said, over) = converse(TWO, size);
        assert_eq!(said, std::format!("{first}{second}"), "pieces of {size}");
        assert!(over);
    }
}

#[test]
fn heads_that_are_not_clear_are_refused() {
    for (text, error) in [
        ("GET /\r\n\r\n", HttpError::FirstLine),
        ("GET / HTTP/2\r\n\r\n", HttpError::FirstLine),
        ("G\u{7}T / HTTP/1.1\r\n\r\n", HttpError::FirstLine),
        ("GET  / HTTP/1.1\r\n\r\n", HttpError::FirstLine),
        (
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            HttpError::Header { line: 2 },
        ),
        (
            "GET / HTTP/1.1\r\na: 1\r\n b: 2\r\n\r\n",
            HttpError::Header { line: 3 },
        ),
        (
            "GET / HTTP/1.1\r\nspace : 2\r\n\r\n",
            HttpError::Header { line: 2 },
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n",
            HttpError::Length,
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: +1\r\n\r\n",
            HttpError::Length,
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            HttpError::Length,
        ),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            HttpError::Length,
        ),
        (
            "GET / HTTP/1.1\r\na: 1\nb: 2\r\n\r\n",
            HttpError::Header { line: 2 },
        ),
        ("GET / HTTP/1.1\nhost: a\r\n\r\n", HttpError::FirstLine),
        (
            "GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n",
            HttpError::Site,
        ),
        ("GET / HTTP/1.1\r\nhost: \u{e9}\r\n\r\n", HttpError::Site),
        ("GET / HTTP/1.1\r\norigin: a b\r\n\r\n", HttpError::Site),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked, chunked\r\n\r\n",
            HttpError::Length,
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
            HttpError::BodyTooLarge,
        ),
    ] {
        assert_eq!(parse(text).unwrap_err(), error, "{text:?}");
    }
    let long = std::format!("GET / HTTP/1.1\r\na: {}", "x".repeat(MAX_HEAD));
    assert_eq!(parse(&long).unwrap_err(), HttpError::HeadTooLarge);
    let target = std::format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(MAX_TARGET));
    assert_eq!(parse(&target).unwrap_err(), HttpError::TargetTooLong);
    let many = std::format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
    assert_eq!(parse(&many).unwrap_err(), HttpError::HeadTooLarge);
    assert_eq!(parse("GET / HTTP/1.1\r\nhost: x\r\n").unwrap(), None);
}

#[test]
fn keys_and_hosts_are_found() {
    let text = "GET /x HTTP/1.1\r\nHost: 10.0.0.1\r\nAuthorization: bearer  k \r\nX-Api-Key: other\r\n\r\n";
    let (head, len) = parse(text).unwrap().unwrap();
    assert_eq!(len, text.len());
    assert_eq!(head.key.as_deref(), Some("k"));
    assert_eq!(head.host.as_deref(), Some("10.0.0.1"));
    assert!(head.keep_alive && head.chunks);
    let (old, _) = parse("GET / HTTP/1.0\r\n\r\n").unwrap().unwrap();
    assert!(!old.keep_alive && !old.chunks);
}

#[test]
fn bodies_that_are_too_large_or_broken_end_the_connection() {
    for body in [
        "content-length: 1048577\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n100001\r\n",
        "transfer-encoding: chunked\r\n\r\nffffffffffffffffffffffff\r\n",
        "transfer-encoding: chunked\r\n\r\n-1\r\n",
        "transfer-encoding: chunked\r\n\r\n1\r\nxyz",
    ] {
        let (said, over) = converse(std::format!("POST / HTTP/1.1\r\n{body}").as_bytes(), 9);
        assert!(said.starts_with("HTTP/1.1 400"), "{body:?}: {said}");
        assert!(over);
    }
}

#[test]
fn slow_and_silent_clients_are_given_up() {
    let second = 1_000_000_000;
    let mut silent = Connection::new(0);
    assert!(!silent.is_stale(9 * second) && silent.is_stale(11 * second));
    silent.feed(b"GET / HT", 50 * second);
    assert!(!silent.is_stale(79 * second));
    assert!(matches!(silent.next(79 * second), Next::Nothing));
    assert!(matches!(
        silent.next(81 * second),
        Next::Refused(HttpError::Slow)
    ));
    silent.begin(408, &[], Sending::Whole(0));
    silent.end(81 * second);
    silent.sent(0, 81 * second);
    assert!(silent.is_stale(120 * second));
}

#[test]
fn damaged_requests_do_no_harm() {
    let mut state = 5u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize
    };
    for _ in 0..50_000 {
        let mut bytes = TWO.to_vec();
        for _ in 0..random() % 5 {
            let at = random() % bytes.len();
            match random() % 3 {
                0 => bytes[at] = random() as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, random() as u8),
            }
        }
        converse_lossy(&bytes, random() % 60 + 1);
    }
}

/// As [`converse`], for what may not be UTF-8.
fn converse_lossy(input: &[u8], size: usize) {
    let mut connection = Connection::new(0);
    for piece in input.chunks(size) {
        connection.feed(piece, 0);
        for _ in 0..input.len() {
            match connection.next(0) {
                Next::Nothing => break,
                _ => {
                    connection.begin(200, &[], Sending::Pieces);
                    connection.end(0);
                }
            }
        }
    }
}
