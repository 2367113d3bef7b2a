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
        if !io::stdout().is_terminal() || !colours || dumb || plain {
            Self::Plain
        } else if wrap {
            Self::Wrapped
        } else {
            Self::Styled
        }
    }
}

/// Whether it is shown what a model thinks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Thoughts {
    Shown,
    Hidden,
}

/// Standard output for one answer.
pub(crate) struct Screen {
    out: io::StdoutLock<'static>,
    markdown: Option<Markdown>,
    thoughts: Thoughts,
    /// The line ends at the end of what was thought so far, if anything was and no answer has come.
    thought: Option<usize>,
}

impl Screen {
    pub(crate) fn new(look: Look, thoughts: Thoughts) -> Self {
        let width = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        Self {
            out: io::stdout().lock(),
            markdown: match look {
                Look::Plain => None,
                Look::Styled => Some(Markdown::new(None)),
                Look::Wrapped => Some(Markdown::new(width())),
            },
            thoughts,
            thought: None,
        }
    }

    /// Shows what the model thinks, in Ollama's words.
    pub(crate) fn think(&mut self, text: &str) -> io::Result<()> {
        if self.thoughts == Thoughts::Hidden {
            return Ok(());
        }
        let (text, ends) = match self.thought {
            // Line ends wait: there may be no more to come.
            Some(ends) => (text, ends),
            None => (text.trim_start(), 0),
        };
        let clear = text.trim_end_matches('\n');
        if clear.is_empty() {
            self.thought = self.thought.map(|ends| ends + text.len());
            return Ok(());
        }
        if self.thought.is_none() {
            self.style("\x1b[2m")?;
            self.out.write_all(b"Thinking...\n")?;
        }
        self.out.write_all("\n".repeat(ends).as_bytes())?;
        self.out.write_all(clear.as_bytes())?;
        self.thought = Some(text.len() - clear.len());
        self.out.flush()
    }

    /// An escape, where there are styles.
    fn style(&mut self, escape: &str) -> io::Result<()> {
        match self.markdown {
            Some(_) => self.out.write_all(escape.as_bytes()),
            None => Ok(()),
        }
    }

    /// What was thought is over.
    fn stop_thinking(&mut self) -> io::Result<()> {
        if self.thought.take().is_some() {
            self.out.write_all(b"\n...done thinking.")?;
            self.style("\x1b[22m")?;
            self.out.write_all(b"\n\n")?;
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, text: &str) -> io::Result<()> {
        self.stop_thinking()?;
        match &mut self.markdown {
            Some(markdown) => markdown.push(text, &mut self.out)?,
            None => self.out.write_all(text.as_bytes())?,
        }
        self.out.flush()
    }

    /// Ends the answer and its line.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.stop_thinking()?;
        if let Some(markdown) = &mut self.markdown {
            markdown.finish(&mut self.out)?;
        }
        writeln!(self.out)
    }
}
