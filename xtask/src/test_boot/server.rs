//! The server on the bare machine against the one on this system: the same requests, the same bytes.

#[path = "../../../crates/cli/tests/recorded/recording.rs"]
#[allow(dead_code, reason = "only the tests of the program write recordings")]
mod recording;

use super::client::{KEY, ask, connect, greet, key, parsed, request, request_text};
use super::guest::{Boot, Guest, ServerProcess, TIMEOUT, done, expect, free_port};
use crate::command::{root, strata_for_checks};
use crate::conformance;
use crate::unikernel::Built;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Clients at once.
const CLIENTS: usize = 32;
/// Requests at once whose answers are compared: as many as the unikernel computes side by side.
const LANES: usize = 8;
const TOKENS: usize = 32;
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
pub(super) fn here() -> Result<ServerProcess> {
    let address = free_port()?;
    let child = Command::new(strata_for_checks()?)
        .args(["serve", "tale", "--api-key", KEY, "--host"])
        .arg(address.to_string())
        .stdin(Stdio::null())
        .spawn()
        .context("cannot start the program")?;
    let mut running = ServerProcess { child, address };
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
    let started = ready(&mut guest.running);
    guest.explain(started)?;
    done(&format!("{machine} with {card} is ready"), begin);
    Ok(guest)
}

/// The first `prompts` prompts, greedy and by chance; some in pieces, with the probabilities of tokens.
pub(super) fn same_answers(here: SocketAddr, there: SocketAddr, prompts: usize) -> Result<()> {
    let begin = Instant::now();
    let prompts = &PROMPTS[..prompts.min(PROMPTS.len())];
    let requests: Vec<String> = prompts.iter().copied().flat_map(requests).collect();
    let streamed = prompts.iter().take(3).map(|prompt| stream(prompt));
    let requests: Vec<String> = requests.into_iter().chain(streamed).collect();
    let tokens = in_lanes(&requests, |request| same_answer(here, there, request))?;
    ensure!(
        tokens > prompts.len() * TOKENS / 2,
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

/// The unikernel gives the recorded answers: every one, or one of every few.
pub(super) fn recorded_answers(there: SocketAddr, one_of: usize) -> Result<()> {
    let begin = Instant::now();
    let path = root().join("crates/cli/tests/recorded/recording.txt");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut recording = recording::parse(&text);
    recording.retain(|recorded| recorded.has_tag("boot"));
    ensure!(
        recording.len() >= 30,
        "only {} requests are for the unikernel",
        recording.len()
    );
    let recording: Vec<_> = recording.iter().step_by(one_of).collect();
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
pub(super) fn ready(running: &mut ServerProcess) -> Result<()> {
    let begin = Instant::now();
    // QEMU takes a connection before the machine is there, and offers it again only after seconds: a new one is heard
    // sooner. On a busy machine an answer takes longer than on a quiet one.
    let mut timeout = Duration::from_millis(50);
    while begin.elapsed() < TIMEOUT {
        if greet(running.address, timeout).is_ok() {
            return Ok(());
        }
        if let Some(status) = running.child.try_wait()? {
            bail!("the server ended with {status}");
        }
        std::thread::sleep(Duration::from_millis(10));
        timeout = (timeout * 9 / 8).min(Duration::from_secs(20));
    }
    bail!("the server does not answer")
}

/// The guest is as well as before: it answers, and its last words are not those of a crash.
pub(super) fn well(guest: &Guest) -> Result<()> {
    doors(guest.address())?;
    let said = guest.said();
    ensure!(!said.contains("crash:"), "the machine crashed:\n{said}");
    expect(&said, "serving tale at http://")
}
