//! The chat: line editing, a history, commands, and answers that Ctrl-C ends.

mod command;
mod completion;
mod echo;
mod session;
mod shown;

use super::{Arguments, Next, note_full};
use crate::failure::{Failure, Kind};
use command::{Command, HELP, HELP_SET, HELP_SHOW};
use completion::Completion;
#[cfg(unix)]
use echo::Unechoed;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use session::Session;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use strata::{Generate, Message, Model, Role, Sampling};
use strata_chat::Capability;
use strata_store::human_count;

/// Messages over several lines begin and end so.
const QUOTES: &str = "\"\"\"";

/// What a chat is about.
pub(crate) struct Topic<'a> {
    pub(crate) arguments: &'a Arguments,
    /// The model as the user named it.
    pub(crate) path: &'a Path,
    pub(crate) model: &'a Model,
    /// What the flags say of sampling.
    pub(crate) flags: &'a Sampling,
    /// What conversations begin with.
    pub(crate) opening: Vec<Message>,
}

/// Chats; `request` is asked with every message. The editor is opened where there is none yet.
pub(crate) fn run(
    topic: Topic<'_>,
    request: Generate,
    lines: &mut Option<Lines>,
) -> Result<Next, Failure> {
    let interrupted = interrupts()?;
    // Lines that were typed ahead are for the next model too.
    let lines = match lines {
        Some(lines) => lines,
        none => none.insert(Lines::open()?),
    };
    eprintln!("{}", banner(topic.model));
    let mut session = Session::new(topic, request);
    session.retell();
    loop {
        let line = match lines.next(session.keeps_history)? {
            Line::Text(line) => line,
            Line::Nothing => continue,
            Line::End => break,
        };
        let Some(command) = Command::parse(&line) else {
            interrupted.store(false, Ordering::Relaxed);
            #[cfg(unix)]
            let unechoed = Unechoed::new();
            let said = session.say(&message(&line), &|| interrupted.load(Ordering::Relaxed));
            #[cfg(unix)]
            drop(unechoed);
            match said {
                Ok(answer) if answer.is_full => note_full(session.context()),
                Ok(_) => {}
                // The conversation can go on with another message.
                Err(failure) => {
                    failure.report();
                }
            }
            continue;
        };
        let done = match command {
            Command::Bye => break,
            Command::Load(name) => match loadable(&name, session.arguments()) {
                Ok(path) => {
                    lines.save();
                    return Ok(Next::Load(path));
                }
                Err(failure) => Err(failure),
            },
            Command::Help => say(HELP),
            Command::HelpSet => say(HELP_SET),
            Command::HelpShow => say(HELP_SHOW),
            Command::Wrong(what) => say(&format!("{what}.")),
            Command::Clear => session.clear(),
            Command::Set(setting) => session.set(setting),
            Command::System(None) => session.show(command::Shown::System),
            Command::System(Some(text)) => session.set(command::Setting::System(text)),
            Command::Show(what) => session.show(what),
            Command::Save(name) => session.save(&name),
        };
        if let Err(failure) = done {
            failure.report();
        }
    }
    lines.save();
    Ok(Next::Done)
}

/// What a chat begins with: the model, its context, and where help is.
fn banner(model: &Model) -> String {
    let facts = model.facts();
    let kind = [
        facts.family.clone(),
        human_count(facts.parameters),
        facts.quantization.clone(),
    ]
    .join(" ");
    format!(
        "{} ({kind}), context {} tokens\nType a message, or /help for help.",
        facts.name,
        model.context()
    )
}

fn say(text: &str) -> Result<(), Failure> {
    eprintln!("{text}");
    Ok(())
}

/// A message without the quotes around its lines.
fn message(line: &str) -> String {
    let inner = line.strip_prefix(QUOTES);
    let inner = inner.and_then(|rest| rest.strip_suffix(QUOTES));
    inner
        .map_or(line, |text| text.trim_matches('\n'))
        .to_owned()
}

/// The model of a name, if it could be loaded: a chat is not given up for one that cannot.
fn loadable(name: &str, arguments: &Arguments) -> Result<PathBuf, Failure> {
    let facts = Model::plan(name, &arguments.options())?.facts;
    if !facts.capabilities.contains(&Capability::Completion) {
        let sentence = format_args!("{name} cannot generate text");
        return Err(Failure::new(Kind::Usage, sentence));
    }
    Ok(name.into())
}

/// What was typed.
enum Line {
    Text(String),
    Nothing,
    End,
}

/// The editor and its history.
pub(crate) struct Lines {
    editor: Editor<Completion, DefaultHistory>,
    history: Option<PathBuf>,
}

impl Lines {
    fn open() -> Result<Self, Failure> {
        let config = Config::builder().completion_type(CompletionType::List);
        let mut editor = Editor::with_config(config.build()).map_err(|error| terminal(&error))?;
        editor.set_helper(Some(Completion::default()));
        let set = |key| std::env::var_os(key).is_some_and(|value| !value.is_empty());
        let history = history_file().filter(|_| !set("OLLAMA_NOHISTORY"));
        if let Some(path) = &history {
            // There is none the first time.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    /// The next line, or the lines between quotes.
    fn next(&mut self, keeps: bool) -> Result<Line, Failure> {
        let mut text = String::new();
        loop {
            let prompt = if text.is_empty() { ">>> " } else { "... " };
            match self.editor.readline(prompt) {
                Ok(line) if text.is_empty() => text = line.trim().to_owned(),
                Ok(line) => text = format!("{text}\n{line}"),
                Err(ReadlineError::Interrupted) => return Ok(Line::Nothing),
                Err(ReadlineError::Eof) => return Ok(Line::End),
                Err(error) => return Err(terminal(&error)),
            }
            // Quotes that were opened and not closed.
            if text.matches(QUOTES).count().is_multiple_of(2) {
                break;
            }
        }
        let text = text.trim_end().to_owned();
        if text.is_empty() {
            return Ok(Line::Nothing);
        }
        if keeps {
            let _ = self.editor.add_history_entry(&text);
        }
        Ok(Line::Text(text))
    }

    fn save(&mut self) {
        if let Some(path) = &self.history {
            let folder = path.parent().map(std::fs::create_dir_all);
            if folder.is_some_and(|made| made.is_ok()) {
                // A chat is not worth failing for its history.
                let _ = self.editor.save_history(path);
            }
        }
    }
}

/// A flag that Ctrl-C sets. While a line is edited the editor takes the key.
fn interrupts() -> Result<&'static AtomicBool, Failure> {
    static FLAG: AtomicBool = AtomicBool::new(false);
    static WATCHED: OnceLock<Result<(), String>> = OnceLock::new();
    let watched = WATCHED.get_or_init(|| {
        ctrlc::set_handler(|| FLAG.store(true, Ordering::Relaxed))
            .map_err(|error| error.to_string())
    });
    match watched {
        Ok(()) => Ok(&FLAG),
        Err(error) => {
            let sentence = format_args!("cannot handle Ctrl-C: {error}");
            Err(Failure::new(Kind::Failed, sentence))
        }
    }
}

fn terminal(error: &ReadlineError) -> Failure {
    Failure::new(
        Kind::Failed,
        format_args!("cannot read from the terminal: {error}"),
    )
}

/// Under the user's data folder.
fn history_file() -> Option<PathBuf> {
    Some(strata_host::data_folder()?.join("strata").join("history"))
}

/// Who says what, for a conversation that goes on.
fn is_turn(message: &&Message) -> bool {
    matches!(message.role, Role::User | Role::Assistant)
}
