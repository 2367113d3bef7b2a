//! Charts of what `plan`, `bench` and `doctor` find.

use crate::program::{Scratch, scratch, strata};

#[test]
fn each_command_draws_what_it_found() {
    let bench = [
        "bench", "tale", "-p", "16", "-n", "4", "--repeat", "2", "-t", "1",
    ];
    let cases: [(&[&str], &[&str]); 3] = [
        (
            &["plan", "tale", "--memory", "100M"],
            &["Memory of tale", "KV cache", "limit 100"],
        ),
        (
            &bench,
            &["Speed of tale", "Prefill, tokens/s", "run 2", "median"],
        ),
        (
            &["doctor", "--quick", "-t", "1"],
            &["Models on this machine", "70b q8_0", "reading speed"],
        ),
    ];
    for (command, words) in cases {
        let (svg, html) = (
            Scratch(scratch(&format!("{}.svg", command[0]))),
            Scratch(scratch(&format!("{}.html", command[0]))),
        );
        let files = ["--svg", svg.path(), "--html", html.path()];
        let text = strata(&[command, &files].concat()).text();
        // Bars are for terminals.
        assert!(!text.contains('█') && !text.is_empty(), "{text}");
        let read = |file: &Scratch| std::fs::read_to_string(&file.0).unwrap();
        let (svg, html) = (read(&svg), read(&html));
        assert!(svg.starts_with("<svg ") && html.starts_with("<!doctype html>"));
        for word in words {
            assert!(svg.contains(word) && html.contains(word), "{word} {svg}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_is_a_failure() {
    let run = strata(&["plan", "tale", "--svg", "/nonexistent/chart.svg"]);
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert!(run.err.contains("/nonexistent/chart.svg"), "{}", run.err);
}
