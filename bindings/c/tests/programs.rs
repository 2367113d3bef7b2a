//! Programs in C and C++ against the library: what they print is compared with what the Rust library says.

use crate::adapters::write_adapter;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo has put the shared library: beside the tests.
fn libraries() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().to_path_buf()
}

/// Compiles a program of `tests/` with all warnings.
fn compile(source: &str, standard: &str, into: &Path) -> PathBuf {
    let name = Path::new(source).file_stem().unwrap();
    let program = into.join(name);
    let compiler = if source.ends_with(".c") { "cc" } else { "c++" };
    let mut command = Command::new(compiler);
    command.arg(format!("-std={standard}"));
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g"]);
    command.arg("-I").arg(folder().join("include"));
    command.arg("-I").arg(folder().join("../cpp/include"));
    command.arg(folder().join(source));
    command.arg("-o").arg(&program);
    command.arg("-L").arg(libraries());
    command.args(["-lstrata_c", "-lpthread"]);
    let output = command.output().expect("a C compiler");
    assert!(output.status.success(), "{}", said(&output));
    program
}

fn run(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", libraries())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy;
    format!(
        "{}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

#[test]
fn a_c_program_gets_what_the_library_says() {
    let place = tempfile::tempdir().unwrap();
    let program = compile("tests/check.c", "c99", place.path());
    assert_eq!(run(&program, &[&story()]), "all is well\n");
}

#[test]
fn a_cplusplus_program_gets_what_the_library_says() {
    let place = tempfile::tempdir().unwrap();
    let program = compile("../cpp/tests/check.cpp", "c++17", place.path());
    let adapters = ["one.gguf", "two.gguf"].map(|name| place.path().join(name));
    write_adapter(&adapters[0], 1);
    write_adapter(&adapters[1], 2);
    let [one, two] = adapters.map(|path| path.to_str().unwrap().to_owned());
    assert_eq!(run(&program, &[&story(), &one, &two]), "all is well\n");
}

/// What the library says to the request that every language begins with.
fn story() -> String {
    let model = strata::Model::open("tale", strata::Options::default()).unwrap();
    let messages = [strata::user("Tell me a story about a fox.")];
    let request = model.chat(messages).temperature(0.0).max_tokens(32);
    request.text().unwrap()
}

#[test]
fn threads_cancel_and_free_in_any_order() {
    let place = tempfile::tempdir().unwrap();
    let program = compile("tests/stress.c", "c99", place.path());
    let seconds = std::env::var("STRATA_STRESS_SECONDS").unwrap_or_else(|_| "3".into());
    print!("{}", run(&program, &[&seconds]));
}

#[test]
fn the_header_is_cplusplus_too() {
    let place = tempfile::tempdir().unwrap();
    let program = compile("tests/header.cpp", "c++11", place.path());
    assert_eq!(run(&program, &[]), "1\n");
}
