//! Tokens guessed ahead: the answer stays the same.

use crate::program;

use crate::program::{Scratch, fails, strata};

const TALE: &[u8] = include_bytes!("../../../models/tale/tale-q4_k_m.gguf");
const PROMPT: &str =
    "Say it again: the fox ran to the hill. The fox ran to the hill. The fox ran to";

#[test]
fn guessing_changes_nothing_but_the_time() {
    let tale = Scratch::new("draft", TALE);
    let draft = ["--draft", tale.path()];
    let lookups = [&["--speculate"][..], &["--speculate=3"]];
    for draws in [&["--temp", "0"][..], &["--temp", "0.7", "--seed", "11"]] {
        let run = ["run", "tale", "--raw", "-n", "48", "--threads", "1", PROMPT];
        let run = [&run[..], draws].concat();
        let plain = strata(&run).text();
        assert!(plain.len() > 60, "{plain}");
        for guess in lookups.into_iter().chain([&draft[..]]) {
            let guessed = strata(&[&run[..], guess, &["--verbose"]].concat());
            assert!(guessed.err.contains("drafted"), "{}", guessed.err);
            assert_eq!(guessed.text(), plain, "{guess:?} {draws:?}");
        }
    }
}

#[test]
fn a_model_drafts_well_for_itself() {
    let tale = Scratch::new("twin", TALE);
    let run = [
        "run",
        "tale",
        // An answer that goes on: a guessed end of the turn is no token of the answer.
        "--raw",
        PROMPT,
        "--temp",
        "0",
        "-n",
        "24",
        "--verbose",
        "--draft",
        tale.path(),
    ];
    let err = strata(&run).err;
    assert!(err.contains("(100%)"), "{err}");
}

#[test]
fn drafts_that_cannot_serve() {
    let tiny = Scratch::new("stranger", &program::tiny("stranger"));
    let words = ["draft model", "same family"];
    fails(2, &words, &["run", "tale", "x", "--draft", tiny.path()]);
    let zero = ["run", "tale", "x", "--speculate=0"];
    fails(2, &["--speculate"], &zero);
}
