//! What Tab completes: commands and their words, models after `/load`, and files.

use super::command::{COMMANDS, SETTINGS, SHOWN};
use crate::store_commands;
use rustyline::Context;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;

/// Completes the line of a chat.
#[derive(Default)]
pub(super) struct Completion {
    files: FilenameCompleter,
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..pos];
        if let Some((start, words)) = words(before) {
            let typed = &before[start..];
            let fits = words.into_iter().filter(|word| word.starts_with(typed));
            let found: Vec<Pair> = fits
                .map(|word| Pair {
                    display: word.clone(),
                    replacement: word,
                })
                .collect();
            if !found.is_empty() || !before.starts_with("/load ") {
                return Ok((start, found));
            }
        }
        let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        // A word of a message is no file unless it looks like one.
        let in_path = |letter: char| letter == '~' || std::path::is_separator(letter);
        if before[start..].contains(in_path) || before.starts_with("/load ") {
            return self.files.complete_path(line, pos);
        }
        Ok((pos, Vec::new()))
    }
}

impl Hinter for Completion {
    type Hint = String;
}
impl Highlighter for Completion {}
impl Validator for Completion {}
impl rustyline::Helper for Completion {}

/// Where the last word of a command begins, and the words that could stand there; `None` in a message.
fn words(before: &str) -> Option<(usize, Vec<String>)> {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let head = before[..start].trim_end();
    match head {
        "" if before.starts_with('/') && !before[1..].contains('/') => {
            Some((start, owned(COMMANDS)))
        }
        "/set" => Some((start, owned(SETTINGS))),
        "/set format" => Some((start, owned(&["json"]))),
        "/show" => Some((start, owned(SHOWN))),
        "/help" | "/?" => Some((start, owned(&["set", "show"]))),
        "/load" => Some((start, store_commands::known_names())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::MAIN_SEPARATOR_STR;

    fn completed(line: &str) -> Vec<String> {
        let history = rustyline::history::DefaultHistory::new();
        let context = Context::new(&history);
        let found = Completion::default().complete(line, line.len(), &context);
        let (start, found) = found.unwrap();
        let whole = |pair: Pair| format!("{}{}", &line[..start], pair.replacement);
        found.into_iter().map(whole).collect()
    }

    #[test]
    fn commands_models_and_files_are_completed() {
        assert_eq!(completed("/he"), ["/help"]);
        assert_eq!(completed("/s"), ["/save", "/set", "/show", "/system"]);
        assert_eq!(completed("/set nohi"), ["/set nohistory"]);
        assert_eq!(completed("/show te"), ["/show template"]);
        assert_eq!(completed("/load ta"), ["/load tale"]);
        assert_eq!(completed("/help s"), ["/help set", "/help show"]);
        let folder = env!("CARGO_MANIFEST_DIR").replace('/', MAIN_SEPARATOR_STR);
        let path = format!("{folder}{MAIN_SEPARATOR_STR}Cargo.toml");
        let manifest = format!("What is in {path}");
        assert_eq!(completed(manifest.trim_end_matches(".toml")), [manifest]);
        let file = format!("/load {path}");
        assert_eq!(completed(file.trim_end_matches("toml")), [file]);
        for message in ["Hello", "tell me about ta", "/system be"] {
            assert!(completed(message).is_empty(), "{message}");
        }
    }
}
