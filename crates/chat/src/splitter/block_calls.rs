//! The calls of one block, told as they are written where their family allows it.

use super::{AnswerPart, SplitOptions, emit};
use crate::tools::block::{Block, Named};
use crate::tools::call_reader::{CallReader, Part};
use alloc::string::String;
use alloc::vec::Vec;

/// Follows a block.
#[derive(Debug, Default)]
pub(super) struct BlockCalls(CallReader);

impl BlockCalls {
    pub(super) fn new(block: Block) -> Self {
        Self(CallReader::new(block))
    }

    /// Whether a call's arguments are being written.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_open()
    }

    /// Reads on in a block, up to a position in it.
    pub(super) fn follow(
        &mut self,
        text: &str,
        to: usize,
        tools: &[String],
        out: &mut Vec<AnswerPart>,
    ) {
        let Some(text) = text.get(self.0.read()..to) else {
            return;
        };
        self.0.feed(text, tools, &mut |part| {
            out.push(match part {
                Part::Begin(name) => AnswerPart::CallBegin(name),
                Part::Arguments(text) => AnswerPart::CallArguments(text),
                Part::End => AnswerPart::CallEnd,
            });
        });
    }

    /// Gives the calls of a block that is complete, but not those that were told as they were written. What cannot be read
    /// comes out as it was written.
    pub(super) fn close(
        self,
        calls: Option<Vec<Named>>,
        inside: &str,
        written: &str,
        options: &SplitOptions,
        out: &mut Vec<AnswerPart>,
    ) {
        let known = |calls: &Vec<Named>| calls.iter().all(|(name, _)| options.tools.contains(name));
        match calls.filter(known) {
            _ if self.is_open() => out.push(AnswerPart::CallEnd),
            Some(calls) => {
                let rest = calls.into_iter().skip(self.0.calls());
                out.extend(rest.map(AnswerPart::Call));
            }
            None if options.only_calls => {}
            None if self.0.calls() == 0 => emit(AnswerPart::Text, written.into(), out),
            None => {
                let rest = &inside[self.0.end()..];
                if rest.contains(char::is_alphanumeric) {
                    emit(AnswerPart::Text, rest.into(), out);
                }
            }
        }
    }
}
