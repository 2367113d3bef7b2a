//! What can be said to the chat itself.

/// A line that begins with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    HelpSet,
    HelpShow,
    Set(Setting),
    Show(Shown),
    Save(String),
    Load(String),
    /// Shows the system prompt, or sets another.
    System(Option<String>),
    Clear,
    Bye,
    /// What was meant is not clear.
    Wrong(String),
}

/// What `/set` changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Parameter(String, String),
    System(String),
    Verbose(bool),
    History(bool),
    WordWrap(bool),
    Json(bool),
    Think(bool),
}

/// What `/show` shows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Info,
    License,
    Modelfile,
    Parameters,
    System,
    Template,
}

pub(crate) const HELP: &str = "\
  /set            change how the session works
  /show           show what is known of the model
  /load MODEL     go on with another model, or with a saved session
  /save MODEL     save the session as a model
  /system [TEXT]  show the system prompt, or set another
  /clear          forget the conversation
  /bye            leave (so does Ctrl-D)
  /?, /help       show this
Ctrl-C ends an answer. A message over several lines begins and ends with \"\"\".";

pub(crate) const HELP_SET: &str = "\
  /set parameter NAME VALUE     set a parameter: temperature, top_k, stop, …
  /set system TEXT              set the system prompt
  /set verbose | quiet          tell how fast answers are, or do not
  /set format json | noformat   let answers be JSON, or anything
  /set think | nothink          let the model think, or not
  /set wordwrap | nowordwrap    break lines between words, or not
  /set history | nohistory      keep what is typed, or do not";

pub(crate) const HELP_SHOW: &str = "\
  /show info | license | modelfile | parameters | system | template";

impl Command {
    /// The command of a line; `None` for a message, which may begin with a path.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let rest = line.strip_prefix('/')?;
        let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let rest = rest.trim();
        let named = |make: fn(String) -> Self, usage: &str| match rest {
            "" => Self::Wrong(usage.into()),
            name => make(name.into()),
        };
        Some(match word {
            "?" | "help" => match rest.trim_start_matches('/') {
                "set" => Self::HelpSet,
                "show" => Self::HelpShow,
                _ => Self::Help,
            },
            "bye" | "exit" => Self::Bye,
            "clear" => Self::Clear,
            "save" => named(Self::Save, "/save needs a name for the model"),
            "load" => named(Self::Load, "/load needs the name of a model"),
            "system" => Self::System((!rest.is_empty()).then(|| unquoted(rest))),
            "set" => set(rest),
            "show" => show(rest),
            _ if word.contains('/') || word.contains('.') => return None,
            _ => Self::Wrong(format!(
                "/{word} is not a command; /help lists those there are"
            )),
        })
    }
}

fn set(rest: &str) -> Command {
    let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let rest = rest.trim();
    Command::Set(match (word, rest) {
        ("verbose", "") => Setting::Verbose(true),
        ("quiet", "") => Setting::Verbose(false),
        ("history", "") => Setting::History(true),
        ("nohistory", "") => Setting::History(false),
        ("wordwrap", "") => Setting::WordWrap(true),
        ("nowordwrap", "") => Setting::WordWrap(false),
        ("format", "json") => Setting::Json(true),
        ("format", _) => return Command::Wrong("the format that can be set is json".into()),
        ("noformat", "") => Setting::Json(false),
        ("think", "") => Setting::Think(true),
        ("nothink", "") => Setting::Think(false),
        ("system", text) => Setting::System(unquoted(text)),
        ("parameter", rest) => match rest.split_once(char::is_whitespace) {
            Some((name, value)) => Setting::Parameter(name.into(), value.trim().into()),
            None => return Command::Wrong("/set parameter needs a name and a value".into()),
        },
        _ => return Command::HelpSet,
    })
}

fn show(rest: &str) -> Command {
    Command::Show(match rest {
        "info" => Shown::Info,
        "license" => Shown::License,
        "modelfile" => Shown::Modelfile,
        "parameters" => Shown::Parameters,
        "system" => Shown::System,
        "template" => Shown::Template,
        _ => return Command::HelpShow,
    })
}

/// A text without the quotes around it.
fn unquoted(text: &str) -> String {
    for quotes in ["\"\"\"", "\""] {
        let inner = text.strip_prefix(quotes);
        if let Some(inner) = inner.and_then(|rest| rest.strip_suffix(quotes)) {
            return inner.trim_matches('\n').into();
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_messages() {
        let parameter = Setting::Parameter("stop".into(), "a b".into());
        for (line, command) in [
            ("/bye", Command::Bye),
            ("/?", Command::Help),
            ("/? set", Command::HelpSet),
            ("/set", Command::HelpSet),
            ("/set parameter stop a b", Command::Set(parameter)),
            ("/set  quiet", Command::Set(Setting::Verbose(false))),
            ("/set format json", Command::Set(Setting::Json(true))),
            ("/set nothink", Command::Set(Setting::Think(false))),
            (
                "/set system \"\"\"\nA\nB\n\"\"\"",
                Command::Set(Setting::System("A\nB".into())),
            ),
            ("/system", Command::System(None)),
            (
                "/system Be brief.",
                Command::System(Some("Be brief.".into())),
            ),
            ("/show template", Command::Show(Shown::Template)),
            ("/show nothing", Command::HelpShow),
            ("/save me/x:v1", Command::Save("me/x:v1".into())),
        ] {
            assert_eq!(Command::parse(line), Some(command), "{line}");
        }
        for wrong in [
            "/nonsense",
            "/save",
            "/load ",
            "/set parameter x",
            "/set format yaml",
        ] {
            assert!(
                matches!(Command::parse(wrong), Some(Command::Wrong(_))),
                "{wrong}"
            );
        }
        for message in ["hello", "/home/me/picture.png what is this?", ""] {
            assert_eq!(Command::parse(message), None, "{message}");
        }
    }
}
