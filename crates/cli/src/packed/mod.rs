//! This program with models behind it, as `strata pack` writes it: what its words mean, and which model is run.

mod engine;
mod health;
mod socket;

use crate::failure::{Failure, Kind};
use crate::{Arguments, Command};
use clap::Parser;
use engine::Engines;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use strata::{Model, Options};
use strata_host::MappedFile;
use strata_pack::{Artifact, MODELS, StartMode, Zip};

const HELP: &str = "\
Usage:
  PROGRAM [PROMPT]... [FLAGS]   answer a prompt, or start as it was packed to
  PROGRAM run [PROMPT]...       chat, or answer a prompt: the flags of `strata run`
  PROGRAM serve                 serve the OpenAI, Anthropic and Ollama APIs: the flags of `strata serve`
  PROGRAM plan                  show how much memory it needs here: the flags of `strata plan`
  PROGRAM health                ask the server at STRATA_HOST or OLLAMA_HOST whether it is up
  PROGRAM status                ask that server for a token, and say how long the answer took
  PROGRAM engines               list the models inside and the memory that each needs here
  PROGRAM use-engine NAME       use that model from now on, if it fits; --auto: the largest one that fits
  PROGRAM manifest              show what is packed
  PROGRAM strata COMMAND        every other command of Strata

It holds several quantizations of a model, perhaps, and uses the largest one that fits. `unzip PROGRAM` takes
the models out. What `use-engine` chose is kept in the file that STRATA_ENGINE_FILE names.";

/// The command line, with the model where this program has models behind it.
pub(crate) fn command_line() -> Result<Vec<OsString>, Failure> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let Some(program) = std::env::current_exe().ok().filter(|path| is_packed(path)) else {
        return Ok(words);
    };
    let file =
        MappedFile::open(&program).map_err(|error| Failure::io(program.display(), &error))?;
    let refused = |error| {
        let sentence = format_args!("{}: {error}", program.display());
        Failure::new(Kind::BadModel, sentence).hint("download it again, from who made it")
    };
    let artifact = Artifact::read(file.bytes()).map_err(refused)?;
    artifact.verify_signature(None).map_err(refused)?;
    let start = &artifact.manifest.start;
    let socket = socket::Socket::of(&artifact.manifest);
    let engines = Engines::new(&artifact.manifest, &program.join(MODELS));
    let words = match meaning(words.get(1..).unwrap_or_default(), start.mode) {
        Meaning::Help => {
            println!("{}\n\n{HELP}", artifact.manifest.name);
            std::process::exit(0);
        }
        Meaning::Health => {
            health::check(&socket)?;
            std::process::exit(0);
        }
        Meaning::Status => {
            let chosen = engines.chosen()?.map(|index| engines.name(index));
            health::status(chosen, &socket)?;
            std::process::exit(0);
        }
        Meaning::Engines => {
            engines.list()?;
            std::process::exit(0);
        }
        Meaning::UseEngine(rest) => {
            engines.choose(rest)?;
            std::process::exit(0);
        }
        Meaning::Manifest => {
            return Ok(vec![
                "strata".into(),
                "pack".into(),
                "--inspect".into(),
                program.into(),
            ]);
        }
        Meaning::Plain(rest) => return Ok([&["strata".into()], rest].concat()),
        Meaning::Model(command, rest) => Words {
            command,
            context: start.context,
            // Who says `serve` says where, too: services do.
            socket: match (command, words.get(1)) {
                ("serve", first) if first.is_none_or(|word| word != "serve") => {
                    socket.unless_named(rest)?
                }
                _ => None,
            },
            rest,
        },
    };
    let index = match engines.chosen()? {
        Some(index) => index,
        None => choose(&engines, &words)?,
    };
    engines.must_be_installed(index)?;
    match engines.archive(index) {
        None => artifact.verify_model(index).map_err(refused)?,
        Some(archive) => {
            let file = MappedFile::open(archive);
            let file = file.map_err(|error| Failure::io(archive.display(), &error))?;
            let verified = Artifact::read(file.bytes())
                .and_then(|component| artifact.verify_component(index, &component));
            verified.map_err(|error| {
                let sentence = format_args!("{}: {error}", archive.display());
                Failure::new(Kind::BadModel, sentence).hint("install the component again")
            })?;
        }
    }
    Ok(words.with(&engines.paths[index]))
}

/// Whether a file ends as those with an archive behind them do.
fn is_packed(path: &Path) -> bool {
    let tail = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(-64))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        std::io::Result::Ok(tail)
    };
    tail().is_ok_and(|tail| Zip::is_at_end_of(&tail))
}

/// What is asked of a program with models.
#[derive(Debug, PartialEq)]
enum Meaning<'a> {
    Help,
    Health,
    Status,
    Engines,
    UseEngine(&'a [OsString]),
    Manifest,
    /// A command of the program as it always is.
    Plain(&'a [OsString]),
    /// A command that takes the model, and what comes after it.
    Model(&'static str, &'a [OsString]),
}

fn meaning(words: &[OsString], mode: StartMode) -> Meaning<'_> {
    let first = words.first().and_then(|word| word.to_str());
    let rest = words.get(1..).unwrap_or_default();
    match (first, mode) {
        (Some("--help" | "-h" | "help"), _) => Meaning::Help,
        (Some("health"), _) => Meaning::Health,
        (Some("status"), _) => Meaning::Status,
        (Some("engines"), _) => Meaning::Engines,
        (Some("use-engine"), _) => Meaning::UseEngine(rest),
        (Some("manifest"), _) => Meaning::Manifest,
        (Some("strata"), _) => Meaning::Plain(rest),
        (Some("--version" | "-V"), _) => Meaning::Plain(words),
        (Some("run"), _) => Meaning::Model("run", rest),
        (Some("serve"), _) => Meaning::Model("serve", rest),
        (Some("plan"), _) => Meaning::Model("plan", rest),
        (Some(word), StartMode::Serve | StartMode::Socket) if !word.starts_with('-') => {
            Meaning::Model("run", words)
        }
        (_, StartMode::Serve | StartMode::Socket) => Meaning::Model("serve", words),
        (_, StartMode::Chat) => Meaning::Model("run", words),
    }
}

/// A command line that lacks its model.
struct Words<'a> {
    command: &'static str,
    context: u64,
    /// Where a server listens that was packed for a socket.
    socket: Option<PathBuf>,
    rest: &'a [OsString],
}

impl Words<'_> {
    fn with(&self, model: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["strata".into(), self.command.into(), model.into()];
        let sets_context = |word: &OsString| {
            let word = word.to_string_lossy();
            word == "--ctx" || word.starts_with("--ctx=")
        };
        if !self.rest.iter().any(sets_context) {
            words.push(format!("--ctx={}", self.context).into());
        }
        if let Some(socket) = &self.socket {
            words.extend(["--socket-only".into(), "--socket".into(), socket.into()]);
        }
        words.extend_from_slice(self.rest);
        words
    }

    /// How the command would open a model; nothing where it does not, or the words make no sense.
    fn options(&self, model: &Path) -> Option<Options> {
        match Arguments::try_parse_from(self.with(model)).ok()?.command {
            Command::Run(arguments) => Some(arguments.options()),
            Command::Serve(arguments) => Some(arguments.options()),
            Command::Plan(arguments) => Some(arguments.options_within_memory()),
            _ => None,
        }
    }
}

/// The first model that fits, or else the last and smallest: the command itself says what is to be done then.
fn choose(engines: &Engines, words: &Words<'_>) -> Result<usize, Failure> {
    let installed = engines.installed();
    let Some((&last, larger)) = installed.split_last() else {
        return Err(engines.none());
    };
    for &index in larger {
        let model = &engines.paths[index];
        let Some(options) = words.options(model) else {
            return Ok(last);
        };
        if Model::plan(model, &options)?.fits {
            return Ok(index);
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_commands_or_a_prompt() {
        let words =
            |text: &str| -> Vec<OsString> { text.split_whitespace().map(OsString::from).collect() };
        let model = |text: &str, mode| match meaning(&words(text), mode) {
            Meaning::Model(command, rest) => (command, rest.len()),
            other => panic!("{text}: {other:?}"),
        };
        use StartMode::{Chat, Serve, Socket};
        assert_eq!(model("", Chat), ("run", 0));
        assert_eq!(model("", Serve), ("serve", 0));
        assert_eq!(model("Once upon", Chat), ("run", 2));
        assert_eq!(model("Once upon", Serve), ("run", 2));
        assert_eq!(model("", Socket), ("serve", 0));
        assert_eq!(model("Once upon", Socket), ("run", 2));
        assert_eq!(model("--port 80", Serve), ("serve", 2));
        assert_eq!(model("--temp 0", Chat), ("run", 2));
        assert_eq!(model("run serve", Serve), ("run", 1));
        assert_eq!(model("serve --port 80", Chat), ("serve", 2));
        assert_eq!(model("plan", Serve), ("plan", 0));
        assert_eq!(meaning(&words("--help"), Chat), Meaning::Help);
        assert_eq!(meaning(&words("manifest"), Chat), Meaning::Manifest);
        assert_eq!(meaning(&words("status"), Serve), Meaning::Status);
        let auto = words("--auto");
        let meant = Meaning::UseEngine(&auto);
        assert_eq!(meaning(&words("use-engine --auto"), Chat), meant);
        assert_eq!(
            meaning(&words("strata list"), Chat),
            Meaning::Plain(&words("list"))
        );
    }

    #[test]
    fn the_packed_context_is_used_where_no_other_is_asked_for() {
        let with = |rest: &[&str]| {
            let rest: Vec<OsString> = rest.iter().map(OsString::from).collect();
            let words = Words {
                command: "run",
                context: 256,
                socket: None,
                rest: &rest,
            };
            words.with(Path::new("m"))
        };
        assert_eq!(with(&["x"]), ["strata", "run", "m", "--ctx=256", "x"]);
        assert_eq!(with(&["--ctx", "8"]), ["strata", "run", "m", "--ctx", "8"]);
        assert_eq!(with(&["--ctx=8"]), ["strata", "run", "m", "--ctx=8"]);
    }
}
