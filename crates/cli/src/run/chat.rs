//! The chat: line editing, a history, and answers that Ctrl-C ends.

use super::answer::Speaker;
use super::{Style, note_full, opening};
use crate::chat_template::ChatTemplate;
use crate::failure::{Failure, Kind};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use strata_engine::FinishReason;
use strata_service::prompt;
use strata_wire::lang::{Message, Role};

const HELP: &str = "\
  /clear  forget the conversation
  /bye    leave (so does Ctrl-D)
  /help   show this
Ctrl-C ends an answer. A text pasted over several lines is one message.";

pub(crate) fn run(
    speaker: &mut Speaker<'_>,
    style: &Style<'_>,
    system: Option<&str>,
) -> Result<(), Failure> {
    let interrupted = watch_interrupts()?;
    let mut editor = DefaultEditor::new().map_err(|error| terminal(&error))?;
    let history = history_file();
    if let Some(path) = &history {
        // There is none the first time.
        let _ = editor.load_history(path);
    }
    let mut messages: Vec<Message> = Vec::new();
    eprintln!("/help lists the commands, /bye leaves.");
    loop {
        let line = match editor.readline(">>> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(&error)),
        };
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        let _ = editor.add_history_entry(text);
        match text {
            "/bye" => break,
            "/help" => eprintln!("{HELP}"),
            "/clear" => {
                messages.clear();
                eprintln!("The conversation is forgotten.");
            }
            _ if text.starts_with('/') && !text.contains(char::is_whitespace) => {
                eprintln!("{text} is not a command.\n{HELP}");
            }
            _ => {
                interrupted.store(false, Ordering::Relaxed);
                let stop = || interrupted.load(Ordering::Relaxed);
                let said = match style {
                    Style::Raw => {
                        let prompt = prompt::raw(speaker.tokenizer, text);
                        speaker
                            .answer(prompt, "", &stop)
                            .map(|answer| answer.reason)
                    }
                    Style::Chat(template) => {
                        turn(speaker, template, system, &mut messages, text, &stop)
                    }
                };
                match said {
                    Ok(Some(FinishReason::ContextFull)) => note_full(speaker.context),
                    Ok(_) => {}
                    // The conversation can go on with another message.
                    Err(failure) => {
                        failure.report();
                    }
                }
            }
        }
    }
    if let Some(path) = &history {
        let folder = path.parent().map(std::fs::create_dir_all);
        if folder.is_some_and(|made| made.is_ok()) {
            // A chat is not worth failing for its history.
            let _ = editor.save_history(path);
        }
    }
    Ok(())
}

/// One message and its answer. A message that cannot be answered is not kept.
fn turn(
    speaker: &mut Speaker<'_>,
    template: &ChatTemplate<'_>,
    system: Option<&str>,
    messages: &mut Vec<Message>,
    text: &str,
    interrupted: &dyn Fn() -> bool,
) -> Result<Option<FinishReason>, Failure> {
    if messages.is_empty() {
        *messages = opening(system, text.into());
    } else {
        messages.push(Message::text(Role::User, text));
    }
    let beginning = speaker.beginning(text);
    let answer = fit(speaker, template, messages)
        .and_then(|prompt| speaker.answer(prompt, beginning, interrupted));
    match answer {
        Ok(answer) => {
            messages.push(Message::text(Role::Assistant, answer.text));
            Ok(answer.reason)
        }
        Err(failure) => {
            messages.pop();
            if messages.iter().all(|message| message.role == Role::System) {
                messages.clear();
            }
            Err(failure)
        }
    }
}

/// The prompt of a conversation. Where it leaves less than a quarter of the context to the answer, the oldest messages
/// are forgotten.
fn fit(
    speaker: &Speaker<'_>,
    template: &ChatTemplate<'_>,
    messages: &mut Vec<Message>,
) -> Result<Vec<u32>, Failure> {
    let quarter = speaker.context / 4;
    let answer = speaker.max_tokens.map_or(quarter, |n| n.min(quarter));
    let mut forgot = false;
    loop {
        let prompt = template.encode(messages)?;
        let first = messages.iter().position(|m| m.role == Role::User);
        match first {
            // A message and its answer go together; the last message stays.
            Some(first)
                if prompt.len() + answer > speaker.context && messages.len() > first + 2 =>
            {
                messages.drain(first..first + 2);
                forgot = true;
            }
            _ => {
                if forgot {
                    eprintln!(
                        "note: the conversation's beginning no longer fits the context and was forgotten"
                    );
                }
                return Ok(prompt);
            }
        }
    }
}

/// A flag that Ctrl-C sets. While a line is edited the editor takes the key.
fn watch_interrupts() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    ctrlc::set_handler(move || set.store(true, Ordering::Relaxed)).map_err(|error| {
        Failure::new(
            Kind::Failed,
            format_args!("Ctrl-C cannot be watched: {error}"),
        )
    })?;
    Ok(flag)
}

fn terminal(error: &ReadlineError) -> Failure {
    Failure::new(
        Kind::Failed,
        format_args!("the terminal cannot be read: {error}"),
    )
}

/// Under the user's data directory, as the XDG specification has it.
fn history_file() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let data = std::env::var_os("XDG_DATA_HOME")
        .and_then(|path| absolute(path.into()))
        .or_else(|| Some(absolute(std::env::var_os("HOME")?.into())?.join(".local/share")))?;
    Some(data.join("strata").join("history"))
}
