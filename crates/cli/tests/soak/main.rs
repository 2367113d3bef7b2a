//! Many clients of all dialects at once, of which some go away early: nobody starves, nothing leaks, and the only
//! refusals are those that say when to come back.
//!
//! `cargo xtask soak serve` runs it for longer, with more clients. The variables are STRATA_SOAK_SECONDS,
//! STRATA_SOAK_CLIENTS, and STRATA_SOAK_STRICT for limits that only an otherwise idle machine can keep.
#![cfg(target_os = "linux")]

mod client;
mod hostile;
mod server;

use client::{Ask, Outcome};
use server::Server;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What memory may grow by once all clients have been there: buffers and the allocator's leftovers.
const MOST_GROWTH: u64 = 48 << 20;
/// What a page of keys and values of the built-in model takes, rounded up.
const PAGE: u64 = 320 << 10;
/// Files and sockets that may be open more than before.
const MOST_FILES: usize = 4;
/// How long an answer may be waited for on a machine that has other work too.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long metrics may take, as gateways expect them.
const METRICS: Duration = Duration::from_millis(50);

/// What was seen by all clients.
#[derive(Default)]
struct Seen {
    outcomes: BTreeMap<String, usize>,
    first: Vec<Duration>,
    whole: Vec<Duration>,
    /// Answers that each client got.
    answered: Vec<usize>,
}

fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(default)
}

#[test]
fn many_clients_of_all_dialects() {
    let seconds = number("STRATA_SOAK_SECONDS", 6);
    let clients = number("STRATA_SOAK_CLIENTS", 40) as usize;
    let strict = std::env::var_os("STRATA_SOAK_STRICT").is_some();
    let server = Server::start();
    let time = Duration::from_secs(seconds);
    run(&server, clients, time / 4);
    let before = server.state_at_rest();
    let (seen, metrics) = run(&server, clients, time);
    let after = server.state_at_rest();

    println!("{clients} clients for {seconds} s after a quarter of that to warm up");
    for (kind, count) in &seen.outcomes {
        println!("  {count:7}  {kind}");
    }
    let longest = print("first byte", &seen.first);
    print("whole answer", &seen.whole);
    print("/metrics", &metrics);
    let fewest = seen.answered.iter().min().copied().unwrap_or(0);
    println!(
        "  the client with the fewest answers got {fewest}; the longest wait was {longest:.1?}"
    );
    println!("  before {before:?}\n  after  {after:?}");

    let allowed = ["answered", "left", "429", "503", "529"];
    let odd: Vec<_> = seen
        .outcomes
        .keys()
        .filter(|k| !allowed.contains(&k.as_str()))
        .collect();
    assert!(odd.is_empty(), "errors: {odd:?}");
    assert!(fewest > 0, "a client starved");
    assert!(longest < LONGEST_WAIT, "a client waited for {longest:?}");
    assert_eq!(after.used_pages, 0, "pages leaked");
    assert_eq!(after.requests, 0, "requests leaked");
    assert!(after.files <= before.files + MOST_FILES, "files leaked");
    // The cache may still have been filling: pages take memory when they are first used.
    let filled = after.cached_pages.saturating_sub(before.cached_pages) as u64 * PAGE;
    let most = before.memory + filled + MOST_GROWTH;
    assert!(after.memory <= most, "memory leaked");
    if strict {
        let median = metrics[metrics.len() / 2];
        assert!(median <= METRICS, "/metrics took {median:?}");
    }
    server.stop();
}

/// Lets clients ask until the time is over. Gives what they saw, and how long the metrics took, in order.
fn run(server: &Server, clients: usize, time: Duration) -> (Seen, Vec<Duration>) {
    let seen = Mutex::new(Seen {
        answered: vec![0; clients],
        ..Seen::default()
    });
    let metrics = Mutex::new(Vec::new());
    let (end, over) = (Instant::now() + time, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..clients)
            .map(|client| {
                scope.spawn({
                    let seen = &seen;
                    move || {
                        let mut round = 0;
                        while Instant::now() < end {
                            let ask = Ask::new(client, round);
                            let told = ask.run(server.address, 3 * LONGEST_WAIT);
                            note(&mut seen.lock().unwrap(), client, &told);
                            if let Outcome::Refused(_, after) = told.outcome {
                                std::thread::sleep(after.min(Duration::from_secs(1)));
                            }
                            round += 1;
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let start = Instant::now();
                server.metrics();
                metrics.lock().unwrap().push(start.elapsed());
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        for client in asking {
            client.join().unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    let mut metrics = metrics.into_inner().unwrap();
    metrics.sort();
    (seen.into_inner().unwrap(), metrics)
}

fn note(seen: &mut Seen, client: usize, told: &client::Told) {
    let kind = match &told.outcome {
        Outcome::Answered => {
            seen.answered[client] += 1;
            seen.whole.push(told.whole);
            "answered".to_owned()
        }
        Outcome::Left => "left".to_owned(),
        Outcome::Refused(status, _) => status.to_string(),
        Outcome::Wrong(what) => what.clone(),
    };
    seen.first.extend(told.first);
    *seen.outcomes.entry(kind).or_default() += 1;
}

/// Prints how long something took, and gives the longest.
fn print(what: &str, times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    let Some(&longest) = times.last() else {
        return Duration::ZERO;
    };
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let (half, most, nearly) = (at(0.5), at(0.95), at(0.99));
    println!(
        "  {what:12}  p50 {half:.1?}  p95 {most:.1?}  p99 {nearly:.1?}  longest {longest:.1?}"
    );
    longest
}
