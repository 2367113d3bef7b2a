//! GBNF at random.

use crate::support::Random;
use std::fmt::Write;

const RULES: usize = 4;

pub(super) fn any(random: &mut Random) -> String {
    let mut out = String::new();
    for rule in 0..RULES {
        let name = if rule == 0 {
            "root".into()
        } else {
            format!("r{rule}")
        };
        let mut body = alternatives(random, rule, 1);
        // A way out of a rule that uses itself.
        if random.below(3) == 0 {
            let _ = write!(
                body,
                " | \"<\" r{} \">\" | \"end\"",
                1 + random.below(RULES - 1)
            );
        }
        let _ = writeln!(out, "{name} ::= {body}");
    }
    out
}

fn alternatives(random: &mut Random, rule: usize, depth: usize) -> String {
    let count = 1 + random.below(3);
    let all: Vec<String> = (0..count).map(|_| sequence(random, rule, depth)).collect();
    all.join(" | ")
}

fn sequence(random: &mut Random, rule: usize, depth: usize) -> String {
    let count = 1 + random.below(3);
    let all: Vec<String> = (0..count).map(|_| item(random, rule, depth)).collect();
    all.join(" ")
}

fn item(random: &mut Random, rule: usize, depth: usize) -> String {
    const ATOMS: [&str; 14] = [
        "\"a\"",
        "\"b\"",
        "\"ab\"",
        "\"{\"",
        "\"}\"",
        "[a-c]",
        "[^a-z\\n]",
        "[0-9]",
        "\" \"",
        "\"ä\"",
        "[\\u4e00-\\u4fff]",
        "\"true\"",
        ".",
        "\"\\n\"",
    ];
    let atom = match random.below(5) {
        0 if depth > 0 => format!("({})", alternatives(random, rule, depth - 1)),
        1 if rule + 1 < RULES => format!("r{}", rule + 1 + random.below(RULES - rule - 1)),
        _ => ATOMS[random.below(ATOMS.len())].to_string(),
    };
    let repeat = match random.below(9) {
        0 => "*",
        1 => "+",
        2 => "?",
        3 => "{2}",
        4 => "{1,3}",
        5 => "{2,}",
        _ => "",
    };
    format!("{atom}{repeat}")
}
