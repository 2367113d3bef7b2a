//! The server on the bare machine against the one on this system: the same requests, the same bytes.

use crate::command::cargo;
use crate::unikernel::Built;
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const QEMU: &str = "qemu-system-x86_64";
/// Emulation on a machine that is busy with other tests is slow.
const PATIENCE: Duration = Duration::from_secs(120);
/// The port that the unikernel listens on.
const GUEST_PORT: u16 = 11434;
/// Clients at once.
const CLIENTS: usize = 32;

/// A server that goes with this value.
struct Running {
    child: Child,
    address: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Boots the unikernel with its port forwarded to loopback, and compares its answers.
pub(crate) fn run(built: &Built) -> Result<()> {
    let here = here()?;
    for (machine, card, prompts) in [
        ("microvm", "virtio-net-device", &PROMPTS[..]),
        ("q35", "e1000e", &PROMPTS[..1]),
    ] {
        let begin = Instant::now();
        let guest = boot(built, machine, card)?;
        let ready = begin.elapsed();
        let health = ask(guest.address, "GET", "/health", "")?;
        ensure!(health == (200, r#"{"status":"ok"}"#.into()), "{health:?}");
        let without = request(guest.address, "GET", "/v1/models", "", "")?;
        ensure!(without.0 == 401, "without a key: {without:?}");
        for request in prompts.iter().flat_map(|prompt| requests(prompt)) {
            let path = "/v1/chat/completions";
            let expected = ask(here.address, "POST", path, &request)?;
            let got = ask(guest.address, "POST", path, &request)?;
            ensure!(expected.0 == 200, "this system said {expected:?}");
            let (expected, got) = (plain(&expected.1), plain(&got.1));
            ensure!(
                expected == got,
                "to {request}\nthis system said {expected}\nand the bare machine {got}"
            );
        }
        crowd(guest.address)?;
        eprintln!(
            "  boot: the same bytes by HTTP, {machine}, {card} (ready after {:.1} s, all after {:.1} s)",
            ready.as_secs_f64(),
            begin.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

const PROMPTS: [&str; 3] = [
    "Tell me a story about a fox.",
    "What is the sea?",
    "Write a poem about the \\u00e9toile \\ud83c\\udf1f.",
];

/// Greedy and by chance, whole and in pieces.
fn requests(prompt: &str) -> [String; 3] {
    let messages = format!(r#""messages":[{{"role":"user","content":"{prompt}"}}]"#);
    [
        format!(r#"{{"model":"tale","temperature":0,"max_tokens":24,{messages}}}"#),
        format!(r#"{{"model":"tale","temperature":0.9,"seed":7,"max_tokens":24,{messages}}}"#),
        format!(
            r#"{{"model":"tale","temperature":0.8,"seed":9,"max_tokens":16,"stream":true,"logprobs":true,"top_logprobs":2,{messages}}}"#
        ),
    ]
}

/// All clients at once are answered.
fn crowd(address: SocketAddr) -> Result<()> {
    std::thread::scope(|scope| {
        let ask = || ask(address, "GET", "/v1/models", "");
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
        for client in clients {
            let Ok(answer) = client.join() else {
                bail!("a client failed");
            };
            let answer = answer?;
            ensure!(answer.0 == 200 && answer.1.contains("tale"), "{answer:?}");
        }
        Ok(())
    })
}

/// The server on this system.
fn here() -> Result<Running> {
    let address = free_port()?;
    let child = cargo(
        "run --quiet --profile test --package strata -- serve tale --api-key test-key --host",
    )
    .arg(address.to_string())
    .stdin(Stdio::null())
    .spawn()
    .context("cannot start the program")?;
    // It is built first.
    ready(Running { child, address }, Duration::from_secs(900))
}

fn boot(built: &Built, machine: &str, card: &str) -> Result<Running> {
    let address = free_port()?;
    let network = format!("user,id=n,restrict=off,hostfwd=tcp:{address}-:{GUEST_PORT}");
    let mut command = Command::new(QEMU);
    command.args(["-M", machine, "-m", "128M"]);
    command.args("-accel tcg -cpu max -smp 2 -nodefaults -display none -serial stdio".split(' '));
    command.arg("-kernel").arg(&built.elf);
    command.args(["-append", "key=test-key", "-netdev", &network]);
    command.args(["-device", &format!("{card},netdev=n")]);
    command.stdin(Stdio::null()).stdout(Stdio::inherit());
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {QEMU}"))?;
    ready(Running { child, address }, PATIENCE)
}

/// Waits until a server answers.
fn ready(mut running: Running, patience: Duration) -> Result<Running> {
    let begin = Instant::now();
    while begin.elapsed() < patience {
        if matches!(ask(running.address, "GET", "/health", ""), Ok((200, _))) {
            return Ok(running);
        }
        if let Some(status) = running.child.try_wait()? {
            bail!("the server ended with {status}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("the server does not answer")
}

fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<(u16, String)> {
    request(
        address,
        method,
        path,
        "authorization: Bearer test-key\r\n",
        body,
    )
}

/// The status and the body of an answer.
fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    let body = match chunked {
        true => joined(body).context("the chunks cannot be read")?,
        false => body.into(),
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

/// An answer without what differs from one to the next: its name, when it was made, how long that took, and how
/// much of it was known from the answers before.
fn plain(body: &str) -> String {
    let mut out = String::new();
    let mut rest = body;
    let ends = [
        ("\"id\":\"", '"'),
        ("\"created\":", ','),
        ("\"timings\":{", '}'),
        ("\"cached_tokens\":", '}'),
    ];
    let next = |rest: &str| {
        let found = ends
            .iter()
            .filter_map(|(key, end)| Some((rest.find(key)? + key.len(), *end)));
        found.min()
    };
    while let Some((at, end)) = next(rest) {
        out.push_str(&rest[..at]);
        let value = &rest[at..];
        rest = &value[value.find(end).unwrap_or(value.len())..];
    }
    out + rest
}
