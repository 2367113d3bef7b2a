//! A moment of fuzzing for every target, and the inputs that failed once: they are among the seeds.

use std::process::Command;

#[test]
fn no_target_fails_in_a_second() {
    let run = Command::new(env!("CARGO_BIN_EXE_strata-fuzz"))
        .args(["--seconds", "1", "--jobs", "2", "--seed", "16"])
        .output()
        .expect("the fuzzer starts");
    let said = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let targets = strata_fuzz::targets::ALL.len();
    assert_eq!(said.matches(" mutants in ").count(), targets, "{said}");
}
