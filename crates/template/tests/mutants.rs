//! Mutants of templates never panic and always end: each is parsed, and rendered if it parses.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use strata_template::jinja::{DateTime, Limits, RenderOptions, Template, Value};

/// A small generator of random numbers (xorshift), so that every run tests the same mutants.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// What mutations put in: pieces of the language, and values at the edges.
const PIECES: [&str; 84] = [
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "-",
    "+",
    "-%}",
    "{%-",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    ".",
    "|",
    "~",
    "*",
    "**",
    "/",
    "//",
    "%",
    "==",
    "<",
    "'",
    "\"",
    "\\",
    "\n",
    " ",
    "é",
    "🙂",
    "\u{301}",
    "\0",
    "0",
    "-1",
    "1",
    "9223372036854775807",
    "-9223372036854775808",
    "1e308",
    "1e-400",
    "0.5",
    "none",
    "true",
    "undef",
    "loop",
    "range(5)",
    "messages",
    "[]",
    "{}",
    "''",
    "'é🙂x'",
    " if ",
    " else ",
    " is ",
    " not ",
    " in ",
    " and ",
    "{% if 1 %}",
    "{% endif %}",
    "{% for x in messages %}",
    "{% endfor %}",
    "{% set x = 1 %}",
    "{% endset %}",
    "{% raw %}",
    "{% endraw %}",
    "|length",
    "|tojson(indent=2)",
    "|list",
    "|sort",
    "|string",
    "|map('upper')",
    ".items()",
    ".split('e')",
    "[1:]",
    "[::-1]",
    "[-1]",
    "|indent(3)",
    "|default('x', true)",
    ".format(1)",
    "*args",
];

fn boundary(text: &str, random: &mut Random) -> usize {
    let mut at = random.below(text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn mutate(source: &str, other: &str, random: &mut Random) -> String {
    let mut text = source.to_string();
    for _ in 0..=random.below(3) {
        let from = boundary(&text, random);
        let to = boundary(&text, random);
        let (from, to) = (from.min(to), from.max(to));
        let near = (from..=to)
            .take(12)
            .filter(|&at| text.is_char_boundary(at))
            .last()
            .unwrap_or(from);
        match random.below(7) {
            0 => text.replace_range(from..near, ""),
            1 => text.replace_range(from..near, random.pick(&PIECES)),
            2 | 3 => text.insert_str(from, random.pick(&PIECES)),
            4 => {
                let copy = text[from..to].chars().take(200).collect::<String>();
                text.insert_str(to, &copy);
            }
            5 => {
                let start = boundary(other, random);
                let part: String = other[start..].chars().take(40).collect();
                text.insert_str(from, &part);
            }
            _ => text.truncate(to),
        }
    }
    text
}

fn contexts() -> Vec<Value> {
    let text = include_str!("cases/conversations.json");
    let all: Value = serde_json::from_str(text).unwrap();
    let mut contexts: Vec<Value> = all
        .as_map()
        .unwrap()
        .iter()
        .map(|(_, context)| context.clone())
        .collect();
    contexts.push(Value::map::<&str>([]));
    contexts
}

fn try_mutants(sources: &[String], count: usize, seed: u64) {
    let contexts = contexts();
    let options = RenderOptions {
        limits: Limits {
            steps: 20_000,
            ..Limits::default()
        },
        now: Some(DateTime::from_unix(1_741_338_302)),
    };
    let mut random = Random(seed);
    let mut rendered = 0;
    for _ in 0..count {
        let source = &sources[random.below(sources.len())];
        let other = &sources[random.below(sources.len())];
        let mutant = mutate(source, other, &mut random);
        let context = &contexts[random.below(contexts.len())];
        let result = catch_unwind(AssertUnwindSafe(|| {
            Template::parse(&mutant).and_then(|template| template.render(context, &options))
        }));
        match result {
            Ok(result) => rendered += usize::from(result.is_ok()),
            Err(_) => panic!("this mutant panicked:\n{mutant}"),
        }
    }
    // Mutants that all die in the parser would test little.
    assert!(
        rendered > count / 50,
        "only {rendered} of {count} mutants rendered"
    );
}

#[test]
fn mutants_of_small_templates_do_not_panic() {
    let cases: Value = serde_json::from_str(include_str!("cases/cases.json")).unwrap();
    let sources: Vec<String> = cases
        .as_slice()
        .unwrap()
        .iter()
        .map(|case| case.as_slice().unwrap()[0].as_str().unwrap().to_string())
        .collect();
    try_mutants(&sources, 60_000, 0x5eed);
}

#[test]
fn mutants_of_published_templates_do_not_panic() {
    let Ok(root) = std::env::var("STRATA_FIXTURES") else {
        eprintln!("skipped: STRATA_FIXTURES is not set");
        return;
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(PathBuf::from(root).join("templates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jinja")
        })
        .collect();
    paths.sort();
    let sources: Vec<String> = paths
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    try_mutants(&sources, 10_000, 0xfeed);
}
