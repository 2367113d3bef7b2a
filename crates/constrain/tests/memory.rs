//! Memory that grammars leave behind: a test in a process of its own, where nobody else takes any.

mod support;

use std::time::{Duration, Instant};

use strata_constrain::{Compiler, Grammar, Limits};
use support::BYTE_LEVEL;

/// Far above what is promised: machines are shared, and compiling gives way to others.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a bomb may compute, whether anybody waits for it or not.
const MOST_COMPUTED: Duration = Duration::from_secs(4);

/// Bombs that once compiled on for seconds after their clients had their answer, or kept hundreds of megabytes.
#[test]
fn a_bomb_takes_neither_time_nor_memory_for_long() {
    let words = (0..5000).map(|i| format!("\"{i:05}\""));
    let words = words.collect::<Vec<_>>().join(" | ");
    let doubling = |letter: char, is: &str, rules: usize| -> String {
        let rule = |i| format!("{letter}{i}{is}{letter}{} {letter}{}\n", i + 1, i + 1);
        (0..rules).map(rule).collect()
    };
    let rules = doubling('r', " ::= ", 60);
    let terminals = doubling('R', ": ", 20);
    let bombs = [
        Grammar::Gbnf(format!("root ::= {words}")),
        Grammar::Gbnf(format!("root ::= r0\n{rules}r60 ::= \"a\"")),
        Grammar::Lark(format!("start: R0\n{terminals}R20: \"a\"")),
    ];
    let compiler = Compiler::new(&BYTE_LEVEL.tokenizer).unwrap();
    let before = resident();
    for bomb in bombs {
        let (begun, computed) = (Instant::now(), computed_time());
        let compiled = compiler.compile(&bomb, Limits::default());
        eprintln!("{:?}: {:?}", begun.elapsed(), compiled.as_ref().err());
        assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
        drop(compiled);
        while compiler.running() > 0 {
            assert!(begun.elapsed() < TIMEOUT, "it is compiled on for nobody");
            std::thread::sleep(Duration::from_millis(5));
        }
        let computed = computed_time() - computed;
        assert!(computed < MOST_COMPUTED, "it took {computed:?} of a core");
    }
    // The thread gives memory back as its last act.
    let settled = Instant::now() + TIMEOUT;
    while resident() > before + (64 << 20) {
        assert!(
            Instant::now() < settled,
            "{} MiB stay",
            (resident() - before) >> 20
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How long this process has computed, on all cores; nothing where that cannot be known.
fn computed_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may hold spaces and brackets; what follows it does not.
    let fields = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let ticks = fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(10 * ticks.sum::<u64>())
}

/// Bytes of memory that this process has; 0 where that cannot be known.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
