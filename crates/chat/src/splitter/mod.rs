//! Splits generated text into thinking, answer and tool calls, as it comes.
//!
//! Text that might begin a mark is held back until that is decided. A call is emitted as it is written once its
//! arguments begin, or whole where its family does not write them as JSON. A call that cannot be parsed is text, unless
//! its beginning was emitted already: see `tools/call_reader.rs`.

mod block_calls;
mod channels;

use crate::thinking::ThinkingMarks;
use crate::tools::block::{self, Block, Named};
use crate::tools::schemas::ArgumentSchemas;
use crate::tools::{CallFormat, Marks};
use alloc::string::String;
use alloc::vec::Vec;
use block_calls::BlockCalls;
use channels::Channels;
use strata_tokenizer::Tokenizer;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPart {
    /// Text of the answer.
    Text(String),
    /// Thinking.
    Thinking(String),
    /// A complete tool call.
    Call(Named),
    /// The beginning of a call to this tool.
    CallBegin(String),
    /// More of the arguments' JSON.
    CallArguments(String),
    /// The end of the call.
    CallEnd,
}

/// What to look for in a text.
#[derive(Clone, Debug, Default)]
pub struct SplitOptions {
    /// The marks around thinking, if the model thinks.
    pub thinking: Option<ThinkingMarks>,
    /// The text begins inside the thinking: the prompt opened it.
    pub begins_thinking: bool,
    /// How calls are written, if there are tools.
    pub calls: Option<CallFormat>,
    /// The tools; a call to any other is text.
    pub tools: Vec<String>,
    /// What their arguments are, for families that write values without quotes.
    pub schemas: ArgumentSchemas,
    /// The prompt explained how to call tools, as a bare list, to a model that may write calls in a way of its own.
    pub explained: bool,
    /// The answer must be calls: whatever else it has, such as the beginning of a call that was cut short, is dropped.
    pub only_calls: bool,
}

impl SplitOptions {
    /// The control tokens among the marks, which must be decoded to text for the splitter.
    pub fn spelled(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let calls = self.calls.into_iter().flat_map(CallFormat::spelled);
        let thinking = self.thinking.into_iter();
        let thinking = thinking.flat_map(|marks| [marks.begin, marks.end]);
        let marks = calls.chain(thinking);
        marks.filter_map(|mark| tokenizer.token_id(mark)).collect()
    }
}

/// Splits one answer.
#[derive(Debug)]
pub struct Splitter {
    options: SplitOptions,
    position: Position,
    /// Text that is not decided yet.
    held: String,
    /// Whether nothing but white space has come yet.
    at_start: bool,
    /// Follows the call that is being written.
    calls: BlockCalls,
    channels: Option<Channels>,
}

#[derive(Copy, Clone, Debug)]
enum Position {
    Text,
    Thinking(ThinkingMarks),
    Call(Marks),
    /// JSON that is the whole answer.
    Bare,
    /// The name of whom an answer is for, since the prompt ends with the mark before it.
    Recipient(Marks),
}

/// Whom Functionary calls if it means the user.
const USER: &str = "all";
/// What GigaChat ends a message with, and begins a call.
const GIGACHAT_END: &str = "<|message_sep|>";

impl Splitter {
    /// A splitter for one answer.
    pub fn new(options: SplitOptions) -> Self {
        let position = match options.thinking {
            Some(marks) if options.begins_thinking => Position::Thinking(marks),
            _ => match options.calls {
                Some(format @ CallFormat::Functionary32) => Position::Recipient(format.marks()[0]),
                _ => Position::Text,
            },
        };
        Self {
            position,
            held: String::new(),
            at_start: true,
            calls: BlockCalls::default(),
            channels: options.calls.and_then(Channels::new),
            options,
        }
    }

    /// Adds text and appends the parts that are decided.
    pub fn push(&mut self, text: &str, out: &mut Vec<AnswerPart>) {
        match &mut self.channels {
            Some(channels) => channels.push(text, &self.options, out),
            None => {
                self.held.push_str(text);
                while self.advance(out) {}
            }
        }
    }

    /// Ends the answer and appends the rest.
    pub fn finish(&mut self, out: &mut Vec<AnswerPart>) {
        if let Some(channels) = &mut self.channels {
            return channels.finish(&self.options, out);
        }
        if matches!(self.position, Position::Call(_) | Position::Bare) {
            self.follow(self.held.len(), out);
        }
        let mut held = core::mem::take(&mut self.held);
        if self.options.calls == Some(CallFormat::GigaChat) && held.trim_end() == GIGACHAT_END {
            held.clear();
        }
        match self.position {
            // Perhaps the beginning of a mark.
            Position::Text | Position::Recipient(_) if self.options.only_calls => {}
            Position::Text | Position::Recipient(_) => emit(AnswerPart::Text, held, out),
            Position::Thinking(_) => emit(AnswerPart::Thinking, held, out),
            Position::Call(marks) => self.close(marks, &held, "", out),
            Position::Bare => self.read(block::json(&held), &held, &held, out),
        }
    }

    /// Reads on in a call, up to a position in what is held.
    fn follow(&mut self, to: usize, out: &mut Vec<AnswerPart>) {
        self.calls.follow(&self.held, to, &self.options.tools, out);
    }

    /// Makes one step through what is held; `false` if more text is needed.
    fn advance(&mut self, out: &mut Vec<AnswerPart>) -> bool {
        match self.position {
            Position::Text => self.advance_text(out),
            Position::Recipient(marks) => self.advance_recipient(marks),
            Position::Bare => {
                self.follow(self.held.len(), out);
                false
            }
            Position::Thinking(marks) => match self.held.find(marks.end) {
                Some(at) => {
                    let rest = self.held.split_off(at + marks.end.len());
                    self.held.truncate(at);
                    emit(
                        AnswerPart::Thinking,
                        core::mem::replace(&mut self.held, rest),
                        out,
                    );
                    self.position = Position::Text;
                    true
                }
                None => {
                    let keep = partial(&self.held, marks.end);
                    let rest = self.held.split_off(self.held.len() - keep);
                    emit(
                        AnswerPart::Thinking,
                        core::mem::replace(&mut self.held, rest),
                        out,
                    );
                    false
                }
            },
            Position::Call(marks) => {
                if self.options.calls == Some(CallFormat::Functionary32) && !self.calls.is_open() {
                    match self.held.split_once('\n') {
                        Some((USER, _)) => {
                            self.held.drain(..=USER.len());
                            self.position = Position::Text;
                            return true;
                        }
                        None if USER.starts_with(self.held.as_str()) => return false,
                        _ => {}
                    }
                }
                let (at, end) = match marks.end {
                    Some(end) => (self.held.find(end), end),
                    // The next call begins where this one ends.
                    None => (self.held.find(marks.begin), ""),
                };
                let Some(at) = at else {
                    let mark = marks.end.unwrap_or(marks.begin);
                    let clear = self.held.len() - partial(&self.held, mark);
                    self.follow(clear, out);
                    return false;
                };
                self.follow(at, out);
                let rest = self.held.split_off(at + end.len());
                self.held.truncate(at);
                let inside = core::mem::replace(&mut self.held, rest);
                self.close(marks, &inside, end, out);
                self.position = Position::Text;
                true
            }
        }
    }

    fn advance_recipient(&mut self, marks: Marks) -> bool {
        let tools = self.options.tools.iter().map(String::as_str);
        let mut names = tools.chain([USER]);
        self.position = match self.held.split_once('\n') {
            Some((name, _)) if names.any(|known| known == name) => {
                self.calls = BlockCalls::new(marks.block);
                Position::Call(marks)
            }
            None if names.any(|known| known.starts_with(self.held.as_str())) => return false,
            _ => Position::Text,
        };
        true
    }

    fn advance_text(&mut self, out: &mut Vec<AnswerPart>) -> bool {
        if self.at_start {
            // White space before the first word is not part of an answer that was split.
            if self.splits() {
                let blank = self.held.len() - self.held.trim_start().len();
                self.held.drain(..blank);
            }
            if self.held.is_empty() {
                return false;
            }
            if let Some(marks) = self.options.thinking {
                if self.held.starts_with(marks.begin) {
                    self.held.drain(..marks.begin.len());
                    self.position = Position::Thinking(marks);
                    return true;
                }
                if marks.begin.starts_with(self.held.as_str()) {
                    return false;
                }
            }
            let explained = self.options.explained;
            let bare = |format: CallFormat| explained || format.allows_bare();
            let bare = self.options.calls.is_some_and(bare);
            if bare && self.held.starts_with(['{', '[']) {
                self.calls = BlockCalls::new(Block::Json);
                self.position = Position::Bare;
                return true;
            }
        }
        let Some(format) = self.options.calls else {
            self.at_start = false;
            emit(AnswerPart::Text, core::mem::take(&mut self.held), out);
            return false;
        };
        let first = format
            .marks()
            .iter()
            .filter_map(|marks| Some((self.held.find(marks.begin)?, *marks)))
            .min_by_key(|&(at, _)| at);
        if let Some((at, marks)) = first {
            let rest = self.held.split_off(at + marks.begin.len());
            self.held.truncate(at);
            let before = core::mem::replace(&mut self.held, rest);
            emit(AnswerPart::Text, before.trim_end().into(), out);
            self.at_start = false;
            self.calls = BlockCalls::new(marks.block);
            self.position = Position::Call(marks);
            return true;
        }
        // White space before a call is not part of the answer: it waits for what follows.
        let partly = format
            .marks()
            .iter()
            .map(|marks| partial(&self.held, marks.begin));
        let keep = partly.max().unwrap_or(0);
        let clear = self.held[..self.held.len() - keep].trim_end().len();
        let rest = self.held.split_off(clear);
        let text = core::mem::replace(&mut self.held, rest);
        self.at_start &= text.is_empty();
        emit(AnswerPart::Text, text, out);
        false
    }

    /// Reads a call's block; what cannot be read comes out as it was written.
    fn close(&mut self, marks: Marks, inside: &str, end: &str, out: &mut Vec<AnswerPart>) {
        let written = [marks.begin, inside, end].concat();
        let calls = marks.block.read(inside, &self.options.schemas);
        self.read(calls, inside, &written, out);
        self.at_start = false;
    }

    /// Gives the calls of a block, but not those that were told as they were written.
    fn read(
        &mut self,
        calls: Option<Vec<Named>>,
        inside: &str,
        written: &str,
        out: &mut Vec<AnswerPart>,
    ) {
        let told = core::mem::take(&mut self.calls);
        told.close(calls, inside, written, &self.options, out);
    }

    fn splits(&self) -> bool {
        self.options.thinking.is_some() || self.options.calls.is_some()
    }
}

fn emit(piece: fn(String) -> AnswerPart, text: String, out: &mut Vec<AnswerPart>) {
    if !text.is_empty() {
        out.push(piece(text));
    }
}

/// How many bytes at the end of a text could be the beginning of a mark.
fn partial(text: &str, mark: &str) -> usize {
    (1..mark.len().min(text.len() + 1))
        .rev()
        .find(|&len| mark.is_char_boundary(len) && text.ends_with(&mark[..len]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
