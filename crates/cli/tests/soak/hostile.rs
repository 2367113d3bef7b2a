//! Attacks, one after the other, beside clients that mean well: the server answers `/health` throughout, the clients keep
//! at least half of their throughput, and its memory comes back.
//!
//! `cargo xtask soak hostile` runs them at full size; CI for a moment, at a tenth. All of it is on loopback. The variables
//! are STRATA_HOSTILE_SECONDS for each attack, and STRATA_HOSTILE_SHARE, a percentage of the full size.

use crate::number;
use crate::server::Server;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What memory may reach beyond that of an idle server, and what may be left of it.
const MOST_MEMORY: u64 = 1 << 30;
const MOST_LEFT: u64 = 64 << 20;
/// How long `/health` may take, on a machine that does nothing else.
const HEALTH: Duration = Duration::from_secs(1);
/// Clients that mean well.
const CLIENTS: usize = 4;
/// How long memory may take to come back.
const SETTLING: Duration = Duration::from_secs(15);
/// Sockets of one attack at most, whatever is asked for.
const MOST_SOCKETS: usize = 4000;

/// An attack: a connection of it, made again and again until the time is over.
struct Attack {
    name: &'static str,
    /// How many at once.
    count: usize,
    run: fn(SocketAddr, &AtomicBool, usize),
}

const ATTACKS: &[Attack] = &[
    Attack {
        name: "silent sockets",
        count: 2000,
        run: |address, over, number| {
            let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
            hold(
                address,
                over,
                &preface[..number % 25],
                b"",
                Duration::from_secs(60),
            );
        },
    },
    Attack {
        name: "slow uploads",
        count: 600,
        run: |address, over, number| {
            let path = match number % 2 {
                0 => "/api/blobs/sha256:".to_owned() + &"0".repeat(64),
                _ => "/v1/chat/completions".to_owned(),
            };
            let head =
                format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999\r\n\r\n");
            hold(address, over, head.as_bytes(), b" ", Duration::from_secs(2));
        },
    },
    Attack {
        name: "largest bodies",
        count: 64,
        run: |address, over, number| {
            const SIZE: usize = 31 << 20;
            let (path, start, middle, end) = [
                ("/tokenize", "{\"content\":\"", "once upon a time ", "\"}"),
                ("/completion", "{\"prompt\":\"", "once upon a time ", "\"}"),
                (
                    "/v1/embeddings",
                    "{\"model\":\"tale\",\"input\":[0",
                    ",0",
                    "]}",
                ),
                (
                    "/v1/chat/completions",
                    "{\"model\":\"tale\",\"messages\":[{}",
                    ",{\"role\":\"user\",\"content\":\"\"}",
                    "]}",
                ),
            ][number % 4];
            let middle = middle.repeat((SIZE - start.len()) / middle.len());
            let length = start.len() + middle.len() + end.len();
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{start}"
            );
            while !over.load(Ordering::Relaxed) {
                let pieces = [head.as_bytes(), middle.as_bytes(), end.as_bytes()];
                exchange(address, &pieces, Duration::from_secs(60));
            }
        },
    },
    Attack {
        name: "grammar bombs",
        count: 16,
        run: |address, over, number| {
            let mut round = number;
            while !over.load(Ordering::Relaxed) {
                round += 1;
                let grammar = bomb(round);
                let body = format!("{{\"prompt\":\"a\",\"n_predict\":2,{grammar}}}");
                let head = format!(
                    "POST /completion HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                exchange(
                    address,
                    &[head.as_bytes(), body.as_bytes()],
                    Duration::from_secs(60),
                );
            }
        },
    },
];

/// A grammar made to hurt, another one each time.
fn bomb(round: usize) -> String {
    match round % 3 {
        0 => {
            let words: Vec<String> = (0..4000).map(|i| format!("\\\"w{round}x{i}\\\"")).collect();
            format!("\"grammar\":\"root ::= {}\"", words.join(" | "))
        }
        1 => {
            let rules = (0..60).map(|i| format!("r{i} ::= r{} r{}\\n", i + 1, i + 1));
            let rules: String = rules.collect();
            format!("\"grammar\":\"root ::= r0\\n{rules}r60 ::= \\\"a{round}\\\"\"")
        }
        _ => {
            let words: Vec<String> = (0..3000).map(|i| format!("\"w{round}x{i}\"")).collect();
            format!("\"json_schema\":{{\"enum\":[{}]}}", words.join(","))
        }
    }
}

/// Connects, says something, and goes on slowly until the server has enough of it; then again.
fn hold(address: SocketAddr, over: &AtomicBool, first: &[u8], more: &[u8], pause: Duration) {
    let step = Duration::from_millis(200);
    while !over.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(5)) else {
            std::thread::sleep(step);
            continue;
        };
        let _ = stream.set_read_timeout(Some(step));
        let _ = stream.write_all(first);
        let (mut said, mut heard) = (Instant::now(), [0; 256]);
        while !over.load(Ordering::Relaxed) {
            match stream.read(&mut heard) {
                Ok(0) => break,
                Err(error) if !is_timeout(&error) => break,
                _ => {}
            }
            if said.elapsed() >= pause && !more.is_empty() {
                said = Instant::now();
                if stream.write_all(more).is_err() {
                    break;
                }
            }
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}

/// Sends a request and reads the answer, whatever comes of it. Gives the status, 0 if there is none.
fn exchange(address: SocketAddr, pieces: &[&[u8]], timeout: Duration) -> u16 {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, timeout) else {
        return 0;
    };
    let _ = stream.set_read_timeout(Some(timeout));
    let _ = stream.set_write_timeout(Some(timeout));
    for piece in pieces {
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let status = answer
        .get(9..12)
        .and_then(|code| std::str::from_utf8(code).ok());
    status.and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// Answers that clients who mean well get within a time.
fn throughput(address: SocketAddr, time: Duration) -> usize {
    let body = r#"{"model":"tale","max_tokens":16,"messages":[{"role":"user","content":"Hello"}]}"#;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (answered, end) = (AtomicUsize::new(0), Instant::now() + time);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while Instant::now() < end {
                    let status = exchange(address, &[request.as_bytes()], Duration::from_secs(60));
                    answered.fetch_add(usize::from(status == 200), Ordering::Relaxed);
                }
            });
        }
    });
    answered.into_inner()
}

/// The longest that `/health` takes until `over`, and the most memory that the server has meanwhile.
fn watch(server: &Server, over: &AtomicBool) -> (Duration, u64) {
    let request = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let (mut longest, mut most) = (Duration::ZERO, 0);
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let status = exchange(server.address, &[request], Duration::from_secs(60));
        longest = longest.max(if status == 200 {
            begun.elapsed()
        } else {
            Duration::MAX
        });
        most = most.max(server.memory());
        std::thread::sleep(Duration::from_millis(100));
    }
    (longest, most)
}

#[test]
fn attacks_leave_room_for_others() {
    let time = Duration::from_secs(number("STRATA_HOSTILE_SECONDS", 3));
    let share = number("STRATA_HOSTILE_SHARE", 10) as usize;
    let strict = std::env::var_os("STRATA_SOAK_STRICT").is_some();
    // Attackers have files open too.
    strata_host::open_files_limit();
    let server = Server::start();
    throughput(server.address, time / 2);
    let alone = throughput(server.address, time);
    for attack in ATTACKS {
        let count = (attack.count * share).div_ceil(100).min(MOST_SOCKETS);
        let before = server.state_at_rest().memory;
        let over = AtomicBool::new(false);
        let (answered, (health, most)) = std::thread::scope(|scope| {
            for number in 0..count {
                let over = &over;
                let small = std::thread::Builder::new().stack_size(256 << 10);
                let address = server.address;
                let spawned =
                    small.spawn_scoped(scope, move || (attack.run)(address, over, number));
                spawned.expect("a thread for each attacker");
            }
            let watching = scope.spawn(|| watch(&server, &over));
            let answered = throughput(server.address, time);
            over.store(true, Ordering::Relaxed);
            (answered, watching.join().unwrap())
        });
        let settled = Instant::now() + SETTLING;
        let mut after = server.state_at_rest().memory;
        while after > before + MOST_LEFT && Instant::now() < settled {
            std::thread::sleep(Duration::from_millis(500));
            after = server.memory();
        }
        let mib = |bytes: u64| bytes >> 20;
        println!(
            "{count} {}: {answered} answers instead of {alone}, /health within {health:.1?}, {} MiB before, {} at most, {} \
             after",
            attack.name,
            mib(before),
            mib(most),
            mib(after)
        );
        assert!(
            health < Duration::from_secs(60),
            "{}: /health fell silent",
            attack.name
        );
        assert!(
            most < before + MOST_MEMORY,
            "{}: {} MiB",
            attack.name,
            mib(most)
        );
        if strict {
            assert!(
                after <= before + MOST_LEFT,
                "{}: {} MiB stay",
                attack.name,
                mib(after)
            );
            assert!(health <= HEALTH, "{}: /health took {health:?}", attack.name);
            assert!(
                2 * answered >= alone,
                "{}: {answered} answers of {alone}",
                attack.name
            );
        }
    }
    server.stop();
}
