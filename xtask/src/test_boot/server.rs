//! The server on the bare machine against the one on this system: the same requests, the same bytes.

#[path = "../../../crates/cli/tests/recorded/recording.rs"]
#[allow(dead_code, reason = "only the tests of the program write recordings")]
mod recording;

use super::guest::{Boot, Guest, PATIENCE, Running, done, expect, free_port};
use crate::command::{root, strata_for_checks};
use crate::conformance;
use crate::unikernel::Built;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub(super) const KEY: &str = "test-key";
/// Clients at once.
const CLIENTS: usize = 32;
/// Requests at once whose answers are compared: as many as the unikernel computes side by side.
const LANES: usize = 8;
const TOKENS: usize = 64;
const CHAT: &str = "/v1/chat/completions";

const PROMPTS: [&str; 20] = [
    "Tell me a story about a fox.",
    "What is the sea?",
    "Write a poem about the \\u00e9toile \\ud83c\\udf1f.",
    "Once upon a time",
    "Lily went to the park with her mom.",
    "The dog was sad because",
    "A boy found a red ball in the grass.",
    "Tell me about a king and a queen.",
    "Who lives in the forest?",
    "Say hello to the sun.",
    "There was a little bird that could not fly.",
    "Tim and his friend made a big cake.",
    "What did the cat do at night?",
    "The moon is made of cheese, said the mouse.",
    "Tell a story with the words tree, boat and rain.",
    "Why was the bear angry?",
    "A girl named Anna lost her doll.",
    "In the morning the snow was gone.",
    "1 2 3 4",
    "Good night!",
];

/// The server on this system, as users have it.
pub(super) fn here() -> Result<Running> {
    let address = free_port()?;
    let child = Command::new(strata_for_checks()?)
        .args(["serve", "tale", "--api-key", KEY, "--host"])
        .arg(address.to_string())
        .stdin(Stdio::null())
        .spawn()
        .context("cannot start the program")?;
    let mut running = Running { child, address };
    ready(&mut running)?;
    Ok(running)
}

/// The server on the bare machine.
pub(super) fn there(built: &Built, machine: &str, card: &str) -> Result<Guest> {
    let begin = Instant::now();
    let options = format!("key={KEY}");
    let boot = Boot {
        machine,
        options: &options,
        ..Boot::default()
    };
    let mut guest = boot.start(Some(&built.elf), Some(card))?;
    if let Err(error) = ready(&mut guest.running) {
        bail!("{error:#}; the machine said:\n{}", guest.said());
    }
    done(&format!("{machine} with {card} is ready"), begin);
    Ok(guest)
}

/// Every prompt, greedy and by chance; some in pieces, with the probabilities of tokens.
pub(super) fn same_answers(here: SocketAddr, there: SocketAddr) -> Result<()> {
    let begin = Instant::now();
    let requests: Vec<String> = PROMPTS.into_iter().flat_map(requests).collect();
    let streamed = PROMPTS[..3].iter().map(|prompt| stream(prompt));
    let requests: Vec<String> = requests.into_iter().chain(streamed).collect();
    let tokens = in_lanes(&requests, |request| same_answer(here, there, request))?;
    ensure!(
        tokens > PROMPTS.len() * TOKENS / 2,
        "only {tokens} tokens came"
    );
    let name = format!(
        "the same bytes by HTTP: {} answers, {tokens} tokens",
        requests.len()
    );
    done(&name, begin);
    Ok(())
}

/// Calls `each` on every item, as many at a time as the unikernel runs in a batch, and sums the results.
fn in_lanes<T: Sync>(list: &[T], each: impl Fn(&T) -> Result<usize> + Sync) -> Result<usize> {
    let next = AtomicUsize::new(0);
    let lane = || -> Result<usize> {
        let mut sum = 0;
        while let Some(item) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
            sum += each(item)?;
        }
        Ok(sum)
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        let ends = lanes.into_iter().map(|lane| match lane.join() {
            Ok(sum) => sum,
            Err(_) => Err(anyhow!("a client failed")),
        });
        ends.sum()
    })
}

/// The unikernel gives the recorded answers.
pub(super) fn recorded_answers(there: SocketAddr) -> Result<()> {
    let begin = Instant::now();
    let path = root().join("crates/cli/tests/recorded/recording.txt");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut recording = recording::parse(&text);
    recording.retain(|recorded| recorded.has_tag("boot"));
    let count = in_lanes(&recording, |recorded| {
        let path = recorded.path().context("the unikernel has no commands")?;
        let (status, body) = ask(there, "POST", path, &recorded.body)?;
        let answer = recording::answer(status, &body);
        ensure!(
            answer == recorded.answer,
            "{}: to {}\nthe recorded answer is {}\nand the bare machine said {answer}",
            recorded.name,
            recorded.body,
            recorded.answer
        );
        Ok(1)
    })?;
    ensure!(count >= 30, "only {count} requests are for the unikernel");
    done(&format!("{count} recorded answers"), begin);
    Ok(())
}

/// Asks both, and gives how many tokens the answer has.
pub(super) fn same_answer(here: SocketAddr, there: SocketAddr, request: &str) -> Result<usize> {
    let expected = ask(here, "POST", CHAT, request)?;
    let got = ask(there, "POST", CHAT, request)?;
    ensure!(expected.0 == 200, "this system said {expected:?}");
    let (expected, got) = (recording::plain(&expected.1), recording::plain(&got.1));
    ensure!(
        expected == got,
        "to {request}\nthis system said {expected}\nand the bare machine {got}"
    );
    let count = expected.split_once("\"completion_tokens\":");
    let count = count.map_or("", |(_, rest)| rest.split([',', '}']).next().unwrap_or(""));
    Ok(count.parse().unwrap_or(0))
}

pub(super) fn requests(prompt: &str) -> [String; 2] {
    let rest =
        format!(r#""max_tokens":{TOKENS},"messages":[{{"role":"user","content":"{prompt}"}}]"#);
    [
        format!(r#"{{"model":"tale","temperature":0,{rest}}}"#),
        format!(r#"{{"model":"tale","temperature":0.9,"seed":7,{rest}}}"#),
    ]
}

fn stream(prompt: &str) -> String {
    format!(
        r#"{{"model":"tale","temperature":0.8,"seed":9,"max_tokens":16,"stream":true,"logprobs":true,"top_logprobs":2,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
    )
}

/// What anyone may ask, and what needs the key.
pub(super) fn doors(there: SocketAddr) -> Result<()> {
    let health = request(there, "GET", "/health", "", "")?;
    ensure!(health == (200, r#"{"status":"ok"}"#.into()), "{health:?}");
    let without = request(there, "GET", "/v1/models", "", "")?;
    ensure!(without.0 == 401, "without a key: {without:?}");
    Ok(())
}

/// All clients at once are answered.
pub(super) fn crowd(address: SocketAddr) -> Result<()> {
    let begin = Instant::now();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect(address)?);
        // QEMU has room for one who waits to be let in, and forgets others without a word.
        std::thread::sleep(Duration::from_millis(50));
    }
    let key = key();
    for client in &mut clients {
        client.write_all(request_text("GET", "/v1/models", &key, "").as_bytes())?;
    }
    for mut client in clients {
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        let answer = parsed(&answer)?;
        ensure!(answer.0 == 200 && answer.1.contains("tale"), "{answer:?}");
    }
    done(&format!("{CLIENTS} connections at once"), begin);
    Ok(())
}

/// The official client of OpenAI gets the same pieces from both.
pub(super) fn official_client(here: SocketAddr, there: SocketAddr) -> Result<()> {
    let begin = Instant::now();
    let Some(python) = conformance::clients()? else {
        return Ok(());
    };
    let urls = [here, there].map(|address| format!("http://{address}/v1"));
    python.script("boot_client.py", "openai", &[KEY, &urls[0], &urls[1]])?;
    done("the official client streams", begin);
    Ok(())
}

/// Waits until a server answers.
pub(super) fn ready(running: &mut Running) -> Result<()> {
    let begin = Instant::now();
    // QEMU takes a connection before the machine is there, and offers it again only after seconds: a new one is heard
    // sooner. On a busy machine an answer takes longer than on a quiet one.
    let mut patience = Duration::from_millis(50);
    while begin.elapsed() < PATIENCE {
        if answers(running.address, patience).is_ok_and(|healthy| healthy) {
            return Ok(());
        }
        if let Some(status) = running.child.try_wait()? {
            bail!("the server ended with {status}");
        }
        std::thread::sleep(Duration::from_millis(10));
        patience = (patience * 9 / 8).min(Duration::from_secs(20));
    }
    bail!("the server does not answer")
}

/// Whether the server says within so much time that it is well.
fn answers(address: SocketAddr, patience: Duration) -> Result<bool> {
    const WELL: &[u8] = b"HTTP/1.1 200";
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(request_text("GET", "/health", "", "").as_bytes())?;
    let mut head = [0; WELL.len()];
    stream.read_exact(&mut head)?;
    Ok(head == WELL)
}

pub(super) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> Result<(u16, String)> {
    request(address, method, path, &key(), body)
}

fn key() -> String {
    format!("authorization: Bearer {KEY}\r\n")
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(20))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// A connection on which a request was sent.
pub(super) fn send(address: SocketAddr, text: &str) -> Result<TcpStream> {
    let mut stream = connect(address)?;
    stream.write_all(text.as_bytes())?;
    Ok(stream)
}

pub(super) fn request_text(method: &str, path: &str, headers: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Asks, and gives the status and the body of the answer.
fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Result<(u16, String)> {
    let text = request_text(method, path, headers, body);
    let mut answer = exchange(address, &text);
    // QEMU's user network turns some of many clients away by itself: the machine never hears of them.
    for _ in 0..3 {
        match &answer {
            Err(error) if is_reset(error) => answer = exchange(address, &text),
            _ => break,
        }
    }
    parsed(&answer?)
}

/// The status and the body of an answer.
fn parsed(answer: &str) -> Result<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    let body = if chunked {
        joined(body).context("the chunks cannot be read")?
    } else {
        body.into()
    };
    Ok((status, body))
}

fn exchange(address: SocketAddr, text: &str) -> Result<String> {
    let mut answer = String::new();
    send(address, text)?.read_to_string(&mut answer)?;
    Ok(answer)
}

fn is_reset(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::ConnectionReset)
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

/// The guest is as well as before: it answers, and its last words are not those of a crash.
pub(super) fn well(guest: &Guest) -> Result<()> {
    doors(guest.address())?;
    let said = guest.said();
    ensure!(!said.contains("crash:"), "the machine crashed:\n{said}");
    expect(&said, "serving tale at http://")
}
