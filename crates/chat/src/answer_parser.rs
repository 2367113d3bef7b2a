//! From generated tokens to events: thinking, text and tool calls are told apart.

use crate::json::Json;
use crate::splitter::{AnswerPart, SplitOptions, Splitter};
use crate::{CallPart, Event, Finish, TokenLogprobs, ToolCall};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Turns generated tokens into [`Event`]s, for all choices of a request.
#[derive(Debug)]
pub struct AnswerParser {
    choices: Vec<Choice>,
    id: String,
    /// Whether an answer may call several tools.
    parallel: bool,
    parts: Vec<AnswerPart>,
    thinking_tokens: usize,
}

#[derive(Debug)]
struct Choice {
    splitter: Splitter,
    calls: usize,
    /// The call being emitted.
    open: Option<OpenCall>,
    /// Whether the latest part was thinking.
    thinks: bool,
}

#[derive(Debug)]
struct OpenCall {
    id: String,
    name: String,
    arguments: String,
}

/// A generated token.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerToken<'a> {
    /// The choice it belongs to.
    pub choice: usize,
    /// The token's id and log-probabilities, if they are to be emitted.
    pub token: Option<(u32, Option<TokenLogprobs>)>,
    /// The text it completes.
    pub text: &'a str,
}

impl AnswerParser {
    /// A parser with one set of options per choice. Tool calls get ids made from `id`, which must be unique to the
    /// request.
    pub fn new(choices: Vec<SplitOptions>, id: &str, parallel: bool) -> Self {
        let choices = choices.into_iter().map(|options| Choice {
            thinks: options.begins_thinking,
            splitter: Splitter::new(options),
            calls: 0,
            open: None,
        });
        Self {
            choices: choices.collect(),
            id: id.into(),
            parallel,
            parts: Vec::new(),
            thinking_tokens: 0,
        }
    }

    /// Thinking tokens so far.
    pub fn thinking_tokens(&self) -> usize {
        self.thinking_tokens
    }

    /// Adds a token and emits the events it completes.
    pub fn push(&mut self, token: AnswerToken<'_>, emit: &mut dyn FnMut(Event)) {
        let AnswerToken {
            choice,
            token,
            text,
        } = token;
        if let Some((token, logprobs)) = token {
            emit(Event::Token {
                choice,
                token,
                logprobs,
            });
        }
        let Some(state) = self.choices.get_mut(choice) else {
            return;
        };
        state.splitter.push(text, &mut self.parts);
        self.emit_parts(choice, emit);
        self.thinking_tokens += usize::from(self.choices[choice].thinks);
    }

    /// Ends a choice with the rest of its text.
    pub fn finish(
        &mut self,
        choice: usize,
        rest: &str,
        reason: Finish,
        emit: &mut dyn FnMut(Event),
    ) {
        let Some(state) = self.choices.get_mut(choice) else {
            return;
        };
        state.splitter.push(rest, &mut self.parts);
        state.splitter.finish(&mut self.parts);
        self.emit_parts(choice, emit);
        let called = self.choices[choice].calls > 0;
        let reason = match reason {
            Finish::Stop | Finish::StopText(_) if called => Finish::ToolCalls,
            reason => reason,
        };
        emit(Event::Finished { choice, reason });
    }

    fn emit_parts(&mut self, choice: usize, emit: &mut dyn FnMut(Event)) {
        let state = &mut self.choices[choice];
        for part in self.parts.drain(..) {
            state.thinks = matches!(part, AnswerPart::Thinking(_));
            match part {
                AnswerPart::Text(text) => emit(Event::Text { choice, text }),
                AnswerPart::Thinking(text) => emit(Event::Thinking { choice, text }),
                // Only one call was asked for: the first.
                AnswerPart::Call(_) | AnswerPart::CallBegin(_)
                    if !self.parallel && state.calls > 0 => {}
                AnswerPart::Call((name, arguments)) => {
                    state.begin(choice, &self.id, name, emit);
                    state.add(choice, arguments.text(), emit);
                    state.end(choice, emit);
                }
                AnswerPart::CallBegin(name) => state.begin(choice, &self.id, name, emit),
                AnswerPart::CallArguments(text) => state.add(choice, text, emit),
                AnswerPart::CallEnd => state.end(choice, emit),
            }
        }
    }
}

impl Choice {
    fn begin(&mut self, choice: usize, id: &str, name: String, emit: &mut dyn FnMut(Event)) {
        let id = format!("call_{id}_{choice}_{}", self.calls);
        self.calls += 1;
        self.open = Some(OpenCall {
            id: id.clone(),
            name: name.clone(),
            arguments: String::new(),
        });
        self.emit(choice, CallPart::Begin { id, name }, emit);
    }

    fn add(&mut self, choice: usize, text: String, emit: &mut dyn FnMut(Event)) {
        if let Some(call) = &mut self.open {
            call.arguments.push_str(&text);
            self.emit(choice, CallPart::Arguments(text), emit);
        }
    }

    fn end(&mut self, choice: usize, emit: &mut dyn FnMut(Event)) {
        if let Some(call) = self.open.take() {
            // The arguments of an answer that was cut short are not JSON.
            let arguments = Json::parse(call.arguments.as_bytes());
            let call = ToolCall {
                id: call.id,
                name: call.name,
                arguments: arguments.unwrap_or_else(|_| call.arguments.into()),
            };
            self.emit(choice, CallPart::End(call), emit);
        }
    }

    fn emit(&self, choice: usize, part: CallPart, emit: &mut dyn FnMut(Event)) {
        emit(Event::Call {
            choice,
            index: self.calls.saturating_sub(1),
            part,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::CallFormat;
    use alloc::string::ToString;
    use alloc::vec;

    fn events(parallel: bool) -> Vec<Event> {
        let options = SplitOptions {
            calls: Some(CallFormat::Hermes),
            tools: vec!["f".to_string()],
            ..SplitOptions::default()
        };
        let mut parser = AnswerParser::new(vec![options], "x", parallel);
        let mut events = Vec::new();
        let text =
            "See. <tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"f\"}</tool_call>";
        for text in text.split_inclusive(' ') {
            let token = AnswerToken {
                choice: 0,
                token: None,
                text,
            };
            parser.push(token, &mut |event| events.push(event));
        }
        parser.finish(0, "", Finish::Stop, &mut |event| events.push(event));
        events
    }

    #[test]
    fn calls_are_numbered_and_end_the_answer() {
        let events = events(true);
        let begins = |event: &&Event| {
            matches!(
                event,
                Event::Call {
                    part: CallPart::Begin { .. },
                    ..
                }
            )
        };
        assert_eq!(events.iter().filter(begins).count(), 2);
        let end = Event::Finished {
            choice: 0,
            reason: Finish::ToolCalls,
        };
        assert_eq!(events.last(), Some(&end));
    }

    #[test]
    fn one_call_at_a_time_if_asked_for() {
        let last = |event: &Event| matches!(event, Event::Call { index, .. } if *index > 0);
        assert!(events(true).iter().any(last));
        assert!(!events(false).iter().any(last));
    }
}
