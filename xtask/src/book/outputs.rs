//! The outputs of `strata` that the book shows and that are the same on every machine, and its command lines.

use super::source::Book;
use crate::command::root;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const CHAT: &str = r#"{"messages": [{"role": "user", "content": "Tell me a story about a fox."}],
    "add_generation_prompt": true}"#;

/// A file of `learn/book/src/output`, and the command whose output ends or contains it.
struct Output {
    file: &'static str,
    arguments: &'static [&'static str],
    input: &'static str,
}

const OUTPUTS: [Output; 3] = [
    Output {
        file: "story",
        arguments: &[
            "run",
            "tale",
            "--raw",
            "--temp",
            "0",
            "-n",
            "64",
            "Once upon a time",
        ],
        input: "",
    },
    Output {
        file: "template",
        arguments: &["template", "tale", "--input", "-"],
        input: CHAT,
    },
    Output {
        file: "architectures",
        arguments: &["inspect", "--architectures"],
        input: "",
    },
];

/// Runs the commands with a `strata`, and compares.
pub(crate) fn check(strata: &Path) -> Result<()> {
    for output in OUTPUTS {
        let path = format!("learn/book/src/output/{}.txt", output.file);
        let shown = fs::read_to_string(root().join(&path)).context(path.clone())?;
        let printed = output.run(strata)?;
        // The book's program prints the numbers of the tokens before the story.
        let equal = match (output.file, shown.split_once('\n')) {
            ("story", Some((_, story))) => printed.trim() == story.trim(),
            ("architectures", _) => printed.contains(shown.trim()),
            _ => printed == shown,
        };
        if !equal {
            bail!("{path} is not what `strata` prints:\n{printed}");
        }
    }
    let commands = run_commands(strata)?;
    eprintln!(
        "the book: {} outputs are those of `strata`, {commands} command lines work",
        OUTPUTS.len()
    );
    Ok(())
}

/// Runs the chapters' command lines of the program, but for those that measure, or stay. Says how many.
fn run_commands(strata: &Path) -> Result<usize> {
    let book = Book::read(&root().join("learn/book/src"))?;
    let short = |line: &&str| {
        let stays = ["bench", "boot", "doctor", "serve"];
        !stays
            .iter()
            .any(|name| line.contains(&format!("strata {name}")))
    };
    let lines: BTreeSet<&str> = book
        .chapters
        .iter()
        .flat_map(|chapter| chapter.commands())
        .filter(short)
        .collect();
    let folder = std::path::absolute(strata)?;
    let folder = folder.parent().context("the program is in no folder")?;
    let mut path = folder.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    for line in &lines {
        let mut shell = Command::new("bash");
        shell
            .args(["-o", "pipefail", "-c", line])
            .env("PATH", &path);
        let output = shell.current_dir(root()).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`{line}` of the book fails: {said}");
        }
    }
    Ok(lines.len())
}

impl Output {
    fn run(&self, strata: &Path) -> Result<String> {
        let mut child = Command::new(strata)
            .args(self.arguments)
            .current_dir(root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", strata.display()))?;
        let mut stdin = child.stdin.take().context("no standard input")?;
        stdin.write_all(self.input.as_bytes())?;
        drop(stdin);
        let result = child.wait_with_output()?;
        if !result.status.success() {
            bail!("`strata {}` failed", self.arguments.join(" "));
        }
        Ok(String::from_utf8(result.stdout)?)
    }
}
