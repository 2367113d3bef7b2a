//! Where answers go: to a terminal with their markdown shown, or as they are.

use super::markdown::Markdown;
use std::io::{self, IsTerminal, Write};

/// How answers are shown.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// As they are.
    Plain,
    /// With styles, and lines broken between words.
    Wrapped,
    /// With styles.
    Styled,
}

impl Look {
    /// What suits standard output: only a terminal that wants colours gets styles.
    pub(crate) fn of_output(plain: bool, wrap: bool) -> Self {
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        match io::stdout().is_terminal() && colours && !dumb && !plain {
            true if wrap => Self::Wrapped,
            true => Self::Styled,
            false => Self::Plain,
        }
    }
}

/// Standard output for one answer.
pub(crate) struct Screen {
    out: io::StdoutLock<'static>,
    markdown: Option<Markdown>,
}

impl Screen {
    pub(crate) fn new(look: Look) -> Self {
        let width = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        Self {
            out: io::stdout().lock(),
            markdown: match look {
                Look::Plain => None,
                Look::Styled => Some(Markdown::new(None)),
                Look::Wrapped => Some(Markdown::new(width())),
            },
        }
    }

    pub(crate) fn write(&mut self, text: &str) -> io::Result<()> {
        match &mut self.markdown {
            Some(markdown) => markdown.push(text, &mut self.out)?,
            None => self.out.write_all(text.as_bytes())?,
        }
        self.out.flush()
    }

    /// Ends the answer and its line.
    pub(crate) fn end(mut self) -> io::Result<()> {
        if let Some(markdown) = &mut self.markdown {
            markdown.finish(&mut self.out)?;
        }
        writeln!(self.out)
    }
}
