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

/// The commands, as Tab completes them.
pub(super) const COMMANDS: &[&str] = &[
    "/?", "/bye", "/clear", "/help", "/load", "/save", "/set", "/show", "/system",
];

/// What comes after `/set`.
pub(super) const SETTINGS: &[&str] = &[
    "format",
    "history",
    "noformat",
    "nohistory",
    "nothink",
    "nowordwrap",
    "parameter",
    "quiet",
    "system",
    "think",
    "verbose",
    "wordwrap",
];

/// What comes after `/show`.
pub(super) const SHOWN: &[&str] = &[
    "info",
    "license",
    "modelfile",
    "parameters",
    "system",
    "template",
];

pub(super) const HELP: &str = "Commands:
  /set            Change a setting of this session
  /show           Show information about the model
  /load MODEL     Switch to another model or a saved session
  /save MODEL     Save this session as a model
  /system [TEXT]  Show or set the system prompt
  /clear          Clear the conversation
  /bye            Exit (or press Ctrl-D)
  /?, /help       Show this help

Press Ctrl-C to stop an answer and Tab to complete commands, models and files.
Use \"\"\" to begin and end a message of several lines.";

pub(super) const HELP_SET: &str = "Settings:
  /set parameter NAME VALUE     Set a parameter: temperature, top_k, stop, …
  /set system TEXT              Set the system prompt
  /set verbose | quiet          Show or hide timings
  /set format json | noformat   Require JSON answers, or allow any text
  /set think | nothink          Turn thinking on or off
  /set wordwrap | nowordwrap    Turn word wrap on or off
  /set history | nohistory      Turn the input history on or off";

pub(super) const HELP_SHOW: &str = "What can be shown:
  /show info         The model and its sizes
  /show license      Its license
  /show modelfile    Its Modelfile
  /show parameters   Its parameters, and those set here
  /show system       The system prompt
  /show template     The chat template";

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
            "save" => named(Self::Save, "/save needs a name: /save MODEL"),
            "load" => named(Self::Load, "/load needs a model: /load MODEL"),
            "system" => Self::System((!rest.is_empty()).then(|| unquoted(rest))),
            "set" => set(rest),
            "show" => show(rest),
            _ if word.contains('/') || word.contains('.') => return None,
            _ => Self::Wrong(format!("unknown command /{word}; /help lists the commands")),
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
        ("format", _) => return Command::Wrong("the only format is json: /set format json".into()),
        ("noformat", "") => Setting::Json(false),
        ("think", "") => Setting::Think(true),
        ("nothink", "") => Setting::Think(false),
        ("system", text) => Setting::System(unquoted(text)),
        ("parameter", rest) => match rest.split_once(char::is_whitespace) {
            Some((name, value)) => Setting::Parameter(name.into(), value.trim().into()),
            None => {
                return Command::Wrong(
                    "/set parameter needs a name and a value: /set parameter temperature 0.5"
                        .into(),
                );
            }
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
