//! Go templates against Go's own `text/template` (tools/gotemplate_vectors.py), and against those who mean harm.

use std::path::Path;
use std::time::{Duration, Instant};
use strata_template::go::{GoChat, GoError, GoFault, GoMessage, GoOptions, GoTemplate, GoValue};
use strata_template::jinja::{DateTime, LimitKind, Limits, Value as Json};

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/go"))
}

/// Read by the other template language's values, which keep the order of members.
fn vectors() -> Json {
    let text = std::fs::read_to_string(folder().join("vectors.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn get<'j>(json: &'j Json, key: &str) -> &'j Json {
    let map = json.as_map().expect("an object");
    map.get_str(key).unwrap_or(&Json::None)
}

fn items(json: &Json) -> &[Json] {
    match json {
        Json::List(items) => items,
        _ => &[],
    }
}

fn value(json: &Json) -> GoValue {
    match json {
        Json::Bool(truth) => GoValue::Bool(*truth),
        Json::Int(number) => GoValue::Int(*number),
        Json::Float(number) => GoValue::Float(*number),
        Json::Str(text) => (**text).into(),
        Json::List(items) => GoValue::list(items.iter().map(value)),
        Json::Map(pairs) => GoValue::map(
            pairs
                .iter()
                .map(|(key, item)| (key.as_str().unwrap(), value(item))),
        ),
        _ => GoValue::Nil,
    }
}

fn chat(json: &Json) -> GoChat {
    let text = |json: &Json, key: &str| get(json, key).as_str().unwrap_or_default().to_owned();
    GoChat {
        messages: items(get(json, "messages"))
            .iter()
            .map(|message| GoMessage {
                role: text(message, "role"),
                content: text(message, "content"),
                others: vec![
                    ("thinking", text(message, "thinking").into()),
                    ("tool_name", text(message, "tool_name").into()),
                    ("tool_calls", value(get(message, "tool_calls"))),
                ],
            })
            .collect(),
        tools: value(get(json, "tools")),
        think: match get(json, "think") {
            Json::Bool(think) => Some(*think),
            _ => None,
        },
        think_level: None,
    }
}

fn options() -> GoOptions {
    GoOptions {
        now: Some(DateTime::from_unix(1_794_780_000)),
        ..GoOptions::default()
    }
}

#[test]
fn conversations_become_the_prompts_that_go_makes_of_them() {
    let vectors = vectors();
    for case in items(get(&vectors, "chats")) {
        let name = get(case, "template").as_str().unwrap();
        let source = std::fs::read_to_string(folder().join("templates").join(name)).unwrap();
        let template = GoTemplate::parse(&source).unwrap();
        let conversation = get(case, "conversation").as_str().unwrap();
        let chat = chat(get(get(&vectors, "conversations"), conversation));
        let made = template.chat(&chat, &options());
        assert_eq!(
            made.as_deref().ok(),
            get(case, "output").as_str(),
            "{name}, {conversation}: {made:?}"
        );
    }
}

#[test]
fn each_part_of_the_language_does_what_it_does_in_go() {
    let vectors = vectors();
    let data = value(get(&vectors, "data"));
    for case in items(get(&vectors, "snippets")) {
        let source = get(case, "source").as_str().unwrap();
        let made = GoTemplate::parse(source).and_then(|template| {
            // The response that a template without one is given prints nothing.
            template.render(&data, &options())
        });
        assert_eq!(
            made.as_deref().ok(),
            get(case, "output").as_str(),
            "{source}: {made:?}"
        );
    }
}

#[test]
fn gaps_and_types_are_filled_in() {
    let template = GoTemplate::parse("{{ .Prompt }}<hole>{{ .Suffix }}").unwrap();
    assert!(template.reads("Suffix") && !template.reads("Messages"));
    assert_eq!(template.fill("a", "b", &options()).unwrap(), "a<hole>b");
    let types = GoTemplate::parse("{{ range .T }}{{ toTypeScriptType . }};{{ end }}").unwrap();
    let several = GoValue::list(["string".into(), "null".into()]);
    let list = GoValue::list(["integer".into(), "array".into(), several, "x".into()]);
    let made = types
        .render(&GoValue::map([("T", list)]), &options())
        .unwrap();
    assert_eq!(made, "number;any[];string | null;any;");
}

fn fails(source: &str) -> GoError {
    let list = GoValue::list(vec![GoValue::Int(1); 1000]);
    let data = GoValue::map([("L", list), ("T", "x".repeat(1000).into())]);
    let start = Instant::now();
    let failed = GoTemplate::parse(source)
        .and_then(|template| template.render(&data, &GoOptions::default()))
        .expect_err(source);
    assert!(start.elapsed() < Duration::from_secs(2), "{source}");
    failed
}

fn limit(source: &str) -> LimitKind {
    match fails(source).fault {
        GoFault::Limit(which, _) => which,
        other => panic!("{source}: {other}"),
    }
}

#[test]
fn work_nesting_memory_and_output_are_bounded() {
    let loops = "{{ range $.L }}".repeat(4) + &"{{ end }}".repeat(4);
    assert_eq!(limit(&loops), LimitKind::Steps);
    let prints = "{{ range $.L }}{{ range $.L }}{{ $.T }}{{ end }}{{ end }}";
    assert_eq!(limit(prints), LimitKind::Output);
    let doubles = "{{ $x := .T }}{{ range $.L }}{{ $x = print $x $x }}{{ end }}";
    assert_eq!(limit(doubles), LimitKind::Memory);
    let calls = "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}";
    assert_eq!(limit(calls), LimitKind::Depth);
    assert_eq!(limit(&"{{ if 1 }}".repeat(10_000)), LimitKind::Depth);
    assert_eq!(
        limit(&format!("{{{{ {}1 }}}}", "(".repeat(20_000))),
        LimitKind::Depth
    );
    let chain = "{{ if 0 }}".to_owned() + &"{{ else if 0 }}".repeat(10_000) + "{{ end }}";
    assert_eq!(limit(&chain), LimitKind::Depth);
    assert_eq!(limit(&"x".repeat(300_000)), LimitKind::Source);
    assert_eq!(limit("{{ printf \"%999999999d\" 1 }}"), LimitKind::Output);
    assert_eq!(
        limit("{{ range 9223372036854775807 }}{{ end }}"),
        LimitKind::Steps
    );
    let small = Limits {
        steps: 3,
        ..Limits::default()
    };
    let options = GoOptions {
        limits: small,
        now: None,
    };
    let template = GoTemplate::parse("{{ 1 }}{{ 2 }}").unwrap();
    assert!(template.render(&GoValue::Nil, &options).is_err());
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (source, line, words) in [
        ("a\nb{{ nothing }}", 2, "there is no function \"nothing\""),
        (
            "{{ if .X }}\n\n{{ index .X 0 }}{{ end }}{{ end }}",
            3,
            "text or an action",
        ),
        (
            "\n{{ index .L 5000 }}",
            2,
            "5000 is out of the range of 1000",
        ),
        ("{{ .T.Field }}", 1, "a text has no field \"Field\""),
        ("{{ printf \"%d\" }}", 1, "printf was given 0 arguments"),
        ("{{ slice .T 3 2 }}", 1, "3 is out of the range of 2"),
        ("{{ \"\\q\" }}", 1, "an escape"),
        ("{{ $x = 1 }}", 1, "there is no variable \"$x\""),
    ] {
        let failed = fails(source);
        assert_eq!(failed.line, line, "{source}: {failed}");
        assert!(failed.to_string().contains(words), "{source}: {failed}");
    }
}

/// Whatever bytes a template is changed to, it is refused or runs within its limits.
#[test]
fn mutants_do_no_harm() {
    let mut state = 7u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let vectors = vectors();
    let chat = chat(get(get(&vectors, "conversations"), "called"));
    let pieces = [
        "{{", "}}", "{{-", "-}}", "\"", "`", "(", ")", "|", "$", ".", "end", "/*", "\\u", "é",
        "-1", "%s",
    ];
    for entry in std::fs::read_dir(folder().join("templates")).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for _ in 0..200 {
            let mut letters: Vec<char> = source.chars().collect();
            for _ in 0..=random(3) {
                let at = random(letters.len());
                match random(3) {
                    0 => drop(letters.drain(at..(at + random(9)).min(letters.len()))),
                    1 => drop(letters.splice(at..at, pieces[random(pieces.len())].chars())),
                    _ => letters[at] = '\u{20}',
                }
            }
            let mutant: String = letters.into_iter().collect();
            if let Ok(template) = GoTemplate::parse(&mutant) {
                let _ = template.chat(&chat, &options());
            }
        }
    }
}
