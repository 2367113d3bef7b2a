//! Minutes of mixed load: answers, clients that vanish, what is no HTTP, clients that are slow.

use super::client;
use super::guest::{Guest, done};
use super::server;
use anyhow::{Context, Result, anyhow, ensure};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Clients at once.
const CLIENTS: usize = 12;
/// Memory that may be in use for good afterwards, in KiB: pages of the cache and of the heap.
const SLACK: usize = 4096;

/// A sequence that looks like chance and is the same every time.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

pub(super) fn run(here: SocketAddr, guest: &mut Guest, minutes: u64) -> Result<()> {
    let begin = Instant::now();
    // One round first, so that what is allocated once is.
    round(guest.address(), 0)?;
    let before = used(guest)?;
    let end = begin + Duration::from_secs(60 * minutes);
    let rounds = AtomicUsize::new(0);
    let client = |number: usize| -> Result<()> {
        while Instant::now() < end {
            let round_number = rounds.fetch_add(1, Ordering::Relaxed);
            round(guest.address(), (number + 31 * round_number) as u64)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let client = &client;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || client(number)))
            .collect();
        for client in clients {
            client.join().map_err(|_| anyhow!("a client failed"))??;
        }
        anyhow::Ok(())
    })?;
    let rounds = rounds.into_inner();
    server::well(guest)?;
    let canary = &server::requests("Tell me a story about a fox.")[0].replace("64", "12");
    server::same_answer(here, guest.address(), canary)?;
    let after = used(guest)?;
    ensure!(
        after <= before + SLACK,
        "{before} KiB were in use before the load and {after} KiB after it"
    );
    done(
        &format!("{rounds} rounds of mixed load, {before} and then {after} KiB in use"),
        begin,
    );
    Ok(())
}

/// What the shell says is in use, when nothing runs any more.
fn used(guest: &mut Guest) -> Result<usize> {
    std::thread::sleep(Duration::from_secs(3));
    let said = guest.ask("free", "pieces")?;
    let number = said.split_whitespace().zip(said.split_whitespace().skip(1));
    let mut number = number.filter(|(_, unit)| *unit == "KiB");
    let (number, _) = number
        .next()
        .context("the shell does not tell the memory")?;
    Ok(number.parse()?)
}

/// One client's doings.
fn round(address: SocketAddr, number: u64) -> Result<()> {
    let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    match dice.throw(6) {
        0 => {
            let request = format!(
                r#"{{"model":"tale","max_tokens":{},"messages":[{{"role":"user","content":"Hi"}}]}}"#,
                1 + dice.throw(8)
            );
            let answer = client::ask(address, "POST", "/v1/chat/completions", &request)?;
            // A full machine says so.
            ensure!([200, 429, 503].contains(&answer.0), "{answer:?}");
        }
        1 => vanish(address, &mut dice)?,
        2 => garbage(address, &mut dice)?,
        3 => slow(address, &mut dice)?,
        4 => {
            let answer = client::ask(address, "GET", "/metrics", "")?;
            ensure!(answer.0 == 200, "{answer:?}");
        }
        _ => {
            let answer = client::ask(address, "POST", "/v1/chat/completions", "{\"model\":7")?;
            ensure!((400..500).contains(&answer.0), "{answer:?}");
        }
    }
    Ok(())
}

/// Goes in the middle of a stream.
fn vanish(address: SocketAddr, dice: &mut Dice) -> Result<()> {
    let body = r#"{"model":"tale","max_tokens":500,"stream":true,"messages":[{"role":"user","content":"Tell a story."}]}"#;
    let text = client::request_text("POST", "/v1/chat/completions", &client::key(), body);
    let mut stream = client::send(address, &text)?;
    let mut bytes = vec![0; 1 + dice.throw(2000) as usize];
    // It may be refused, and then end sooner.
    let _ = stream.read(&mut bytes);
    Ok(())
}

/// Says what is no HTTP.
fn garbage(address: SocketAddr, dice: &mut Dice) -> Result<()> {
    let noise: String = (0..1 + dice.throw(3000))
        .map(|_| char::from(dice.throw(128) as u8))
        .collect();
    let text = match dice.throw(3) {
        0 => format!("{noise}\r\n\r\n"),
        1 => format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(100_000)),
        _ => format!(
            "POST /v1/models HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n{noise}"
        ),
    };
    // The server may close at once, before all was sent.
    if let Ok(mut stream) = client::open(address, Duration::from_secs(5)) {
        let _ = stream.write_all(text.as_bytes());
        let mut answer = [0; 12];
        if stream.read_exact(&mut answer).is_ok() {
            ensure!(answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
        }
    }
    Ok(())
}

/// Sends a request in small pieces.
fn slow(address: SocketAddr, dice: &mut Dice) -> Result<()> {
    let text = client::request_text("GET", "/health", "", "");
    let mut stream = client::send(address, "")?;
    stream.set_nodelay(true)?;
    for piece in text.as_bytes().chunks(1 + dice.throw(40) as usize) {
        stream.write_all(piece)?;
        std::thread::sleep(Duration::from_millis(dice.throw(10)));
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    Ok(())
}
