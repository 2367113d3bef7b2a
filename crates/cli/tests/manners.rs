//! The machine described, completions, manual pages, and no colours but on a terminal.

use crate::program::{Scratch, command, finish, scratch, strata};
use serde_json::Value;

/// The names of the commands that `--help` lists.
fn commands() -> Vec<String> {
    let help = strata(&["--help"]).text();
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<String> = names
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .filter(|name| name != "help")
        .collect();
    assert!(names.len() > 20, "{names:?}");
    names
}

#[test]
fn completions_know_every_command() {
    let commands = commands();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = strata(&["completions", shell]).text();
        for name in &commands {
            assert!(script.contains(name.as_str()), "{shell}: {name}");
        }
        assert!(
            script.contains("imatrix") && script.contains("dry-run"),
            "{shell}"
        );
    }
    assert_eq!(strata(&["completions", "tcsh"]).code, Some(2));
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = Scratch(scratch("man"));
    strata(&["man", folder.path()]).text();
    for name in commands() {
        let path = folder.0.join(format!("strata-{name}.1"));
        let page = std::fs::read_to_string(&path).expect(&name);
        assert!(
            page.contains(".TH") && page.contains(&name),
            "{name}: {page}"
        );
    }
    let whole = std::fs::read_to_string(folder.0.join("strata.1")).unwrap();
    assert_eq!(strata(&["man"]).text(), whole);
    assert!(whole.contains("Exit codes"));
    std::fs::remove_dir_all(&folder.0).unwrap();
}

#[test]
fn the_doctor_measures_and_advises() {
    let mut quick = command();
    quick.args(["doctor", "--quick", "--json", "-t", "1"]);
    quick.env("OLLAMA_MODELS", env!("CARGO_TARGET_TMPDIR"));
    let found: Value = serde_json::from_str(&finish(quick).text()).unwrap();
    for key in [
        "available_bytes",
        "read_bandwidth_bytes_s",
        "one_thread_bytes_s",
        "int_peak_ops_s",
        "processors",
    ] {
        assert!(found[key].as_f64().unwrap() > 0.0, "{key}: {found}");
    }
    assert_eq!(found["threads"], 1);
    assert!(found["disk"]["bytes_s"].as_f64().unwrap() > 0.0, "{found}");
    let models = found["models"].as_array().unwrap();
    let of = |size: &str| models.iter().find(|model| model["size"] == size).unwrap();
    let speed = |size: &str| of(size)["decode_tok_s"].as_f64().unwrap();
    assert!(speed("1b") > speed("70b"));
    assert!(!found["advice"].as_array().unwrap().is_empty());
    let mut words = command();
    words
        .args(["doctor", "--quick"])
        .env("STRATA_ISA", "scalar");
    let words = finish(words).text();
    for word in [
        "processor",
        "GB/s",
        "70b q4_k_m",
        "STRATA_ISA forces scalar",
    ] {
        assert!(words.contains(word), "{word}: {words}");
    }
}

#[test]
fn what_is_no_terminal_gets_no_colours() {
    for arguments in [
        &["--help"][..],
        &["quantize", "--help"],
        &["no-such-command"],
        &["run"],
    ] {
        for color in [None, Some("1")] {
            let mut run = command();
            run.args(arguments).env_remove("NO_COLOR");
            if let Some(color) = color {
                run.env("NO_COLOR", color);
            }
            let run = finish(run);
            assert!(!run.out.contains(&0x1b), "{arguments:?}");
            assert!(!run.err.contains('\u{1b}'), "{arguments:?}");
        }
    }
}

/// What a terminal is sent.
#[cfg(unix)]
fn at_a_terminal(arguments: &[&str], no_color: Option<&str>) -> String {
    use std::{fs::File, io::Read};
    let pty = nix::pty::openpty(None, None).expect("a terminal");
    let slave = || pty.slave.try_clone().expect("a handle");
    let mut run = command();
    run.args(arguments)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdout(slave())
        .stderr(slave());
    if let Some(value) = no_color {
        run.env("NO_COLOR", value);
    }
    let mut program = run.spawn().expect("the program starts");
    drop(run);
    drop(pty.slave);
    let (mut out, mut seen) = (File::from(pty.master), Vec::new());
    // A terminal that nobody holds any more is an error to read from, after everything was read.
    let _ = out.read_to_end(&mut seen);
    program.wait().expect("the program ends");
    String::from_utf8_lossy(&seen).into_owned()
}

#[cfg(unix)]
#[test]
fn a_terminal_gets_colours_unless_the_user_says_no() {
    let colours = "\u{1b}[";
    assert!(at_a_terminal(&["--help"], None).contains(colours));
    let plain = at_a_terminal(&["--help"], Some("1"));
    assert!(
        plain.contains("quantize") && !plain.contains(colours),
        "{plain}"
    );
}
