//! A server for one reader: the book's pages on the loopback address, each request answered and its connection closed.

use super::book;
use crate::failure::{Failure, Kind};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The port that is tried first.
const PORT: u16 = 11435;

/// Bytes of a request's head at most.
const LONGEST_HEAD: usize = 16 << 10;

/// How long a browser may take to send it, or to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections that are looked after at a time.
const MOST_CONNECTIONS: usize = 32;

/// What a browser may do for a page: show it with its own style, and load nothing.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Serves the book until the program is ended.
pub(super) fn serve(port: Option<u16>) -> Result<(), Failure> {
    let local = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let bound = match port {
        Some(port) => local(port),
        None => local(PORT).or_else(|_| local(0)),
    };
    let listener = bound.map_err(|error| {
        let what = error.to_string();
        let what = what.split(" (os error").next().unwrap_or(&what).to_owned();
        let port = port.unwrap_or(PORT);
        let sentence = format!("cannot listen on 127.0.0.1:{port}: {what}");
        Failure::new(Kind::Failed, sentence).hint("choose another port with --port")
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| Failure::io("127.0.0.1", &error))?;
    let mut out = std::io::stdout();
    writeln!(out, "The book is at http://{address}/ (Ctrl-C ends it)")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::stdout(&error))?;
    let places = Arc::new(());
    for stream in listener.incoming().flatten() {
        // Whoever finds no place tries again: browsers do.
        if Arc::strong_count(&places) > MOST_CONNECTIONS {
            continue;
        }
        let place = Arc::clone(&places);
        let answering = std::thread::Builder::new().spawn(move || {
            // A reader who has gone needs no answer.
            let _ = answer(stream);
            drop(place);
        });
        drop(answering);
    }
    Ok(())
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece)?;
        head.extend_from_slice(&piece[..read]);
        if read == 0 || head.len() > LONGEST_HEAD {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split_whitespace();
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or("/"),
    );
    let path = target.split(['?', '#']).next().unwrap_or("/");
    let html = "text/html; charset=utf-8";
    let (status, kind, body) = if !matches!(method, "GET" | "HEAD") {
        ("405 Method Not Allowed", html, String::new())
    } else if path == "/book.css" {
        ("200 OK", "text/css; charset=utf-8", book::STYLE.into())
    } else if let Some(page) = book::page(path) {
        ("200 OK", html, page)
    } else {
        let missing = "<!doctype html><title>Not found</title><p>There is no such page. \
                       <a href=\"/contents.html\">Contents</a>";
        ("404 Not Found", html, missing.into())
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\ncontent-security-policy: {POLICY}\r\n\
         x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\ncache-control: no-cache\r\n\
         connection: close\r\n\r\n",
        body.len()
    )?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}
