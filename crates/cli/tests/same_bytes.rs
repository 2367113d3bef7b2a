//! One model, one prompt, one seed: the same text on every instruction set, by any number of threads, in batches of any
//! size.

use crate::program::{Scratch, command, finish, instruction_sets, scratch, strata, strata_reading};

/// Tests run side by side: where threads are not the question, one is the fastest.
const ALONE: &[&str] = &["--threads", "1"];

/// Every way of computing it gives the text that the default gives.
#[track_caller]
fn same_everywhere(arguments: &[&str]) -> String {
    let run = |isa: Option<&str>, more: &[&str]| {
        let mut command = command();
        command.arg("run").args(more).args(arguments);
        if let Some(isa) = isa {
            command.env("STRATA_ISA", isa);
        }
        finish(command).text()
    };
    let text = run(None, &[]);
    for isa in instruction_sets() {
        assert_eq!(run(Some(&isa), ALONE), text, "{isa}");
    }
    for threads in ["1", "2", "3"] {
        assert_eq!(
            run(None, &["--threads", threads]),
            text,
            "{threads} threads"
        );
    }
    for batch in ["1", "7", "512"] {
        let more = [ALONE, &["--batch", batch]].concat();
        assert_eq!(run(None, &more), text, "a batch of {batch}");
    }
    text
}

#[test]
fn the_likeliest_text_is_the_same_everywhere() {
    let prompt = "Once upon a time";
    let text = same_everywhere(&["tale", "--temp", "0", "-n", "64", "--raw", prompt]);
    assert!(text.split_whitespace().count() > 30, "{text}");
}

#[test]
fn a_drawn_text_is_the_same_everywhere() {
    let prompt = "Mia had a red kite. One windy day she took it up the hill behind the mill, where \
                  the grass is tall and the wind never rests.";
    let draws = ["tale", "--temp", "0.8", "--seed", "7", "-n", "48", "--raw"];
    let text = same_everywhere(&[&draws[..], &[prompt]].concat());
    let other = [
        "tale", "--temp", "0.8", "--seed", "8", "-n", "48", "--raw", prompt,
    ];
    let other = strata(&[&["run"], &other[..]].concat()).text();
    assert_ne!(text, other, "another seed draws another text");
}

#[test]
fn recurrent_models_and_experts_write_the_same_everywhere() {
    let prompt = "Mia had a red kite. One windy day she took it up the hill behind the mill.";
    for shape in ["tiny-lfm2", "tiny-hybrid", "tiny-moe"] {
        let file = Scratch(scratch(&format!("same-{shape}")));
        strata(&["synth", file.path(), "--shape", shape]).text();
        let greedy = [file.path(), "--temp", "0", "-n", "24", "--raw", prompt];
        assert!(same_everywhere(&greedy).len() > 20, "{shape}");
    }
}

#[test]
fn every_sampler_draws_the_same_text_twice() {
    for flags in [
        &["--repeat-penalty", "1.3", "--repeat-last-n", "-1"][..],
        &["--frequency-penalty", "0.5", "--presence-penalty", "0.2"],
        &["--dry-multiplier", "0.8", "--dry-allowed-length", "1"],
        &["--top-n-sigma", "1.5", "--typical", "0.9"],
        &["--xtc-probability", "0.5", "--xtc-threshold", "0.1"],
        &["--mirostat-tau", "4", "--mirostat-eta", "0.2"],
        &["--dynatemp-range", "0.5", "--min-keep", "3"],
    ] {
        let command = ["run", "tale", "Tell me a story.", "-n", "24", "--seed", "5"];
        let command = [&command[..], ALONE, flags].concat();
        assert_eq!(
            strata(&command).text(),
            strata(&command).text(),
            "{flags:?}"
        );
    }
}

#[test]
fn a_banned_token_does_not_come_and_a_stop_text_ends_the_answer() {
    let greedy = [
        "run",
        "tale",
        "Tell me a story.",
        "--temp",
        "0",
        "-n",
        "32",
        "-t",
        "1",
    ];
    let text = strata(&greedy).text();
    let first = strata(&["tokenize", "tale", &text, "--json", "--no-special"]).text();
    let first = first
        .trim_start_matches('[')
        .split(',')
        .next()
        .unwrap()
        .to_owned();
    let ban = format!("{first}=-inf");
    let banned = strata(&[&greedy[..], &["--logit-bias", &ban]].concat()).text();
    assert_ne!(banned.chars().next(), text.chars().next());

    let word = text.split_whitespace().nth(5).unwrap();
    let (before, _) = text.split_once(word).unwrap();
    let stopped = strata(&[&greedy[..], &["--stop", word]].concat()).text();
    assert_eq!(stopped, format!("{before}\n"));
}

#[test]
fn a_prompt_can_come_on_standard_input() {
    let flags = ["--temp", "0", "-n", "8"];
    let given = strata(&[&["run", "tale", "Hello"], &flags[..]].concat()).text();
    let read = strata_reading(&[&["run"], &flags[..]].concat(), "Hello\n").text();
    let dash = strata_reading(&[&["run", "tale", "-"], &flags[..]].concat(), "Hello\n").text();
    assert_eq!(read, given);
    assert_eq!(dash, given);
    let words = |prompt: &[&'static str]| [&["run", "tale"], prompt, &flags[..]].concat();
    let given = strata(&words(&["Tell me a story."])).text();
    assert_eq!(strata(&words(&["Tell", "me", "a story."])).text(), given);
    let among = strata_reading(&words(&["Tell", "-", "story."]), "me a\n").text();
    assert_eq!(among, given);
}
