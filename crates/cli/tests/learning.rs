//! `strata learn`: the book without a network, and the demonstrations, with the numbers of the engine.

use crate::program::{command, fails, strata};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

/// Asks for a page, and gives the reply's head and body.
fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.into(), body.into())
}

#[test]
fn the_book_is_served_on_loopback() {
    let mut program = command();
    program.args(["learn", "--port", "0"]);
    let mut program = program.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let (_, rest) = line.split_once("http://").unwrap();
    let address = rest.split('/').next().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    let (head, front) = get(&address, "/");
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("default-src 'none'"),
        "{head}"
    );
    assert!(front.contains("<h1") && front.contains("From power-on to the next token"));
    let (_, chapter) = get(&address, "/transformer/attention.html");
    for part in ["<svg", "<pre", "viewport", "rel=\"next\"", "head 0"] {
        assert!(chapter.contains(part), "{part}");
    }
    assert!(get(&address, "/book.css").1.contains("light-dark"));
    assert!(
        get(&address, "/contents.html")
            .1
            .contains("/models/images.html")
    );
    assert!(
        get(&address, "/../Cargo.toml")
            .0
            .starts_with("HTTP/1.1 404")
    );
    // A reader who says nothing keeps nobody waiting.
    let _silent = TcpStream::connect(&address).unwrap();
    assert!(get(&address, "/").0.starts_with("HTTP/1.1 200"));
    program.kill().unwrap();
    program.wait().unwrap();
}

/// What a demonstration prints where nothing moves, on a narrow screen.
fn shown(words: &[&str]) -> String {
    let mut program = command();
    let output = program
        .arg("learn")
        .args(words)
        .env("COLUMNS", "40")
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\x1b'), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 40, "{words:?}: {line}");
    }
    text
}

#[test]
fn demonstrations_show_the_engines_numbers() {
    let text = shown(&["tokenizer", "--prompt", "Once upon a time"]);
    for part in [
        "8192 pieces",
        "16 characters",
        "4 tokens",
        " 2050  Once",
        "  550  ·time",
    ] {
        let joined = text.replace('\n', " ");
        assert!(
            text.contains(part) || joined.contains(part),
            "{part}: {text}"
        );
    }
    let text = shown(&["attention", "--prompt", "Once upon a time", "--layer", "7"]);
    assert!(text.contains("Once      █|"), "{text}");
    // The book shows the same head: 0.87 for the first token.
    let head = text.lines().find(|line| line.starts_with("   0  "));
    assert!(
        head.is_some_and(|line| line.contains("Once    0.87")),
        "{text}"
    );
    let text = shown(&["sampling", "--top-k", "5", "--min-p", "0", "--top-p", "1"]);
    for part in [
        "logits: 8192 left",
        "top_k 5: 5 left",
        "temperature 0.8: 5 left",
        "×",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = shown(&["quantization"]);
    assert!(
        text.contains("Q8_0 (8.50 bits)") && text.contains("Q2_K"),
        "{text}"
    );
    let text = shown(&["batching"]);
    let steps = |name: &str| -> usize {
        let line = text.lines().find(|line| line.starts_with(name));
        let mut words = line.unwrap_or_else(|| panic!("{text}")).split_whitespace();
        words.nth(1).unwrap().parse().unwrap()
    };
    assert!(steps("together") < steps("apart"), "{text}");
    assert!(text.contains("ABCD"), "{text}");
}

#[test]
fn what_does_not_make_sense_is_said() {
    fails(
        2,
        &["there is no layer 8"],
        &["learn", "attention", "--layer", "8"],
    );
    fails(
        2,
        &["there is no head 9"],
        &["learn", "attention", "--head", "9"],
    );
    fails(
        2,
        &["no row"],
        &["learn", "quantization", "--row", "100000"],
    );
    fails(2, &["quantisation"], &["learn", "quantisation"]);
    let help = strata(&["learn", "--help"]).text();
    for word in [
        "tokenizer",
        "attention",
        "sampling",
        "quantization",
        "batching",
        "--port",
    ] {
        assert!(help.contains(word), "{help}");
    }
}
