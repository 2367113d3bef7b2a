//! Calls read as they are written: a call is known by its name once its arguments begin, and these can be told piece by
//! piece.
//!
//! Only what models are taught to write is followed. Whatever is written otherwise is left to whoever reads the whole,
//! to whom it may be a call or text. A call whose beginning was told stays one, since a client that was told cannot
//! forget: if it breaks off, it ends with what there is of its arguments, and what follows it is text.

mod json_calls;
mod named_calls;

use super::block::Block;
use super::object_reader::ObjectReader;
use alloc::string::String;
use json_calls::JsonCalls;
use named_calls::{Head, NamedCalls};

/// What is known of calls by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The arguments of a call of this tool begin.
    Begin(String),
    /// The next of the arguments' text.
    Arguments(String),
    /// They are complete.
    End,
}

/// Reads calls as they are written.
#[derive(Debug, Default)]
pub(crate) struct CallReader {
    form: Form,
    /// The arguments that are being written.
    object: Option<ObjectReader>,
    calls: usize,
    end: usize,
    read: usize,
}

/// How the calls are written.
#[derive(Debug)]
enum Form {
    Json(JsonCalls),
    Named(NamedCalls),
    /// The first character will say which of the two.
    Either(Head),
    /// In a way that is read as a whole.
    Other,
}

impl Default for Form {
    fn default() -> Self {
        Self::Json(JsonCalls::default())
    }
}

/// What a character is, in the text around arguments.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Part of a call that is not told yet.
    Within,
    /// Nothing of the text up to it is left to be told.
    Past,
    /// The first of the arguments of a call of this tool.
    Begin(String),
}

impl CallReader {
    /// A reader for a block between marks.
    pub(crate) fn new(block: Block) -> Self {
        let form = match block {
            Block::Json => Form::default(),
            Block::NameThenJson(separator) => Form::Either(Head::Separated(separator)),
            Block::DeepSeek => Form::Named(NamedCalls::new(Head::DeepSeek)),
            Block::Kimi => Form::Named(NamedCalls::new(Head::Kimi)),
            Block::Solar => Form::Named(NamedCalls::new(Head::Solar)),
            Block::Parameters
            | Block::OpenParameters
            | Block::KeysAndValues(_)
            | Block::ListedKeysAndValues(_)
            | Block::Invocations(_)
            | Block::Function
            | Block::Elements(_)
            | Block::Python
            | Block::PythonLines
            | Block::Gemma
            | Block::NamedObjects => Form::Other,
        };
        Self {
            form,
            ..Self::default()
        }
    }

    /// Calls that were told, the last perhaps in part.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// Bytes read up to the end of the last call that was told.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Bytes read.
    pub(crate) fn read(&self) -> usize {
        self.read
    }

    /// Whether the last call's arguments are incomplete.
    pub(crate) fn is_open(&self) -> bool {
        self.object.is_some()
    }

    /// Takes more text. Only calls of these tools are told.
    pub(crate) fn feed(&mut self, text: &str, tools: &[String], tell: &mut dyn FnMut(Part)) {
        let mut written = String::new();
        for c in text.chars() {
            self.read += c.len_utf8();
            if let Some(object) = &mut self.object {
                if object.take(c, &mut written) {
                    tell(Part::Arguments(core::mem::take(&mut written)));
                    tell(Part::End);
                    self.object = None;
                    self.end = self.read;
                    self.form.end_arguments();
                }
                continue;
            }
            match self.form.step(c, tools) {
                Step::Within => {}
                Step::Past => self.end = self.read,
                Step::Begin(name) => {
                    let mut object = ObjectReader::default();
                    object.take(c, &mut written);
                    self.object = Some(object);
                    self.calls += 1;
                    tell(Part::Begin(name));
                }
            }
        }
        if !written.is_empty() {
            tell(Part::Arguments(written));
        }
    }
}

impl Form {
    fn step(&mut self, c: char, tools: &[String]) -> Step {
        if let Self::Either(head) = *self
            && !c.is_whitespace()
        {
            *self = match c {
                '{' | '[' => Self::default(),
                _ => Self::Named(NamedCalls::new(head)),
            };
        }
        match self {
            Self::Json(calls) => calls.step(c, tools),
            Self::Named(calls) => calls.step(c, tools),
            Self::Either(_) | Self::Other => Step::Within,
        }
    }

    fn end_arguments(&mut self) {
        match self {
            Self::Json(calls) => calls.end_arguments(),
            Self::Named(calls) => calls.end_arguments(),
            Self::Either(_) | Self::Other => {}
        }
    }
}

#[cfg(test)]
mod tests;
