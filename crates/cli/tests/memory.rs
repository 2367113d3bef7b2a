//! Memory: planned, limited, and made do with.

mod program;

use program::{Scratch, fails, scratch, strata};
use serde_json::Value;

const OUT_OF_MEMORY: i32 = 4;

fn plan(arguments: &[&str]) -> Value {
    let text = strata(&[&["plan"], arguments, &["--json"]].concat()).text();
    serde_json::from_str(&text).expect("JSON")
}

/// A model whose weights are much of what its process takes.
fn half_a_billion(name: &str) -> Scratch {
    let file = Scratch(scratch(name));
    strata(&["synth", file.path(), "--shape", "0.5b", "--mix", "q4_0"]).text();
    file
}

#[test]
fn a_plan_shows_what_recurrent_states_take() {
    let file = Scratch(scratch("plan-hybrid.gguf"));
    strata(&["synth", file.path(), "--shape", "tiny-hybrid"]).text();
    let number = |plan: &Value, key: &str| plan[key].as_u64().expect("a number");
    let one = plan(&[file.path(), "--ctx", "512"]);
    let states = number(&one, "states");
    assert!(states > 16, "running sequences and snapshots: {one}");
    assert_eq!(number(&one, "state_bytes") % states, 0, "{one}");
    assert!(number(&one, "kv_bytes") > number(&one, "state_bytes"));
    let table = strata(&["plan", file.path(), "--ctx", "512"]).text();
    let words = format!("{states} of ");
    let line = table.lines().find(|line| line.starts_with("recurrent"));
    let line = line.expect("a line about recurrent states");
    assert!(
        line.contains(&words) && line.ends_with("snapshots"),
        "{line}"
    );
    // Models without have none.
    let tale = plan(&["tale", "--ctx", "512"]);
    assert_eq!(number(&tale, "states") + number(&tale, "state_bytes"), 0);
}

#[test]
fn a_plan_adds_up_and_says_what_would_fit() {
    let bytes = |plan: &Value, key: &str| plan[key].as_u64().expect("a number");
    let small = plan(&["tale", "--ctx", "512", "-t", "2"]);
    let parts = [
        "weights_bytes",
        "kv_bytes",
        "workspace_bytes",
        "program_bytes",
    ];
    let sum: u64 = parts.iter().map(|key| bytes(&small, key)).sum();
    assert_eq!(bytes(&small, "total_bytes"), sum);
    assert_eq!(small["fits"], true, "{small}");
    let double = plan(&["tale", "--ctx", "1024", "-t", "2"]);
    assert_eq!(bytes(&double, "kv_bytes"), 2 * bytes(&small, "kv_bytes"));

    // A draft model needs as much again, here of the same model, and room for its guesses.
    let drafted = plan(&["tale", "--ctx", "512", "-t", "2", "--draft", "tale"]);
    let own = bytes(&small, "weights_bytes") + bytes(&small, "kv_bytes");
    assert!(bytes(&drafted, "draft_bytes") > own, "{drafted}");
    let more = bytes(&drafted, "total_bytes") - bytes(&small, "total_bytes");
    assert!(more >= bytes(&drafted, "draft_bytes"), "{drafted}");

    let run = strata(&["plan", "tale", "--ctx", "32768", "--memory", "100M"]);
    assert_eq!(run.code, Some(OUT_OF_MEMORY), "{}", run.err);
    assert!(run.err.contains("does not fit"), "{}", run.err);
    let table = String::from_utf8(run.out).unwrap();
    for words in [
        "weights",
        "keys and values",
        "100.0 MB",
        "would fit: --ctx ",
    ] {
        assert!(table.contains(words), "no {words:?} in {table}");
    }
    // What it says would fit does.
    let (_, ctx) = table.split_once("would fit: --ctx ").unwrap();
    let ctx = ctx.split_whitespace().next().unwrap();
    let smaller = plan(&["tale", "--ctx", ctx, "--memory", "101M"]);
    assert_eq!(smaller["fits"], true, "{smaller}");
    if !limits_processes() {
        return;
    }
    let limits = ["--memory", "101M", "-n", "4", "--raw"];
    strata(&[&["run", "tale", "Once", "--ctx", ctx], &limits[..]].concat()).text();
}

/// Whether limits of memory hold here: Wine takes them and forgets them, which the program finds out.
fn limits_processes() -> bool {
    let tried = ["run", "tale", "x", "-n", "1", "--memory", "4G"];
    let refused = cfg!(windows) && strata(&tried).err.contains("does not limit");
    if refused {
        eprintln!("skipped: this system does not limit the memory of processes");
    }
    !refused
}

#[test]
fn sizes_that_make_no_sense() {
    for size in ["", "much", "0", "6X"] {
        fails(2, &["--memory"], &["plan", "tale", "--memory", size]);
    }
}

#[test]
fn memory_that_the_program_itself_does_not_fit_in() {
    if !limits_processes() {
        return;
    }
    for size in ["1", "1M", "10M", "20M"] {
        let run = ["run", "tale", "x", "--stream", "never", "--memory", size];
        fails(OUT_OF_MEMORY, &["program"], &run);
    }
}

#[test]
fn a_model_larger_than_its_memory_gives_the_same_answer() {
    if !limits_processes() {
        return;
    }
    let model = half_a_billion("half");
    let sizes = ["--ctx", "64", "--batch", "16", "-t", "2"];
    let weights = plan(&[&[model.path()], &sizes[..]].concat());
    let half = format!("{}", weights["weights_bytes"].as_u64().unwrap() / 2);
    let run = [
        "run",
        model.path(),
        "--temp",
        "0",
        "-n",
        "6",
        "--raw",
        "w1 w2 w3",
    ];
    let run = [&run[..], &sizes].concat();
    let plain = strata(&run).text();
    let streamed = strata(&[&run[..], &["--memory", &half, "--verbose"]].concat());
    for words in ["stay in the file", "per token"] {
        assert!(streamed.err.contains(words), "{}", streamed.err);
    }
    assert_eq!(streamed.text(), plain);
    let none = strata(&[&run[..], &["--stream", "always"]].concat());
    assert_eq!(none.text(), plain);

    let never = [&run[..], &["--memory", &half, "--stream", "never"]].concat();
    fails(
        OUT_OF_MEMORY,
        &["weights", "what would fit", "--stream auto"],
        &never,
    );
}
