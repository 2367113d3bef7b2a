//! From generated tokens to the events that dialects write: one speaker for all choices of a request.

use crate::splitter::{Piece, SplitOptions, Splitter};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_wire::json::Json;
use strata_wire::lang::{CallPart, Event, Finish, TokenLogprobs, ToolCall};

/// Turns what is generated into events.
#[derive(Debug)]
pub struct Speaker {
    choices: Vec<Choice>,
    id: String,
    /// Whether several tools may be called in one answer.
    parallel: bool,
    pieces: Vec<Piece>,
    thinking_tokens: usize,
}

#[derive(Debug)]
struct Choice {
    splitter: Splitter,
    calls: usize,
    /// The call that is being told.
    open: Option<OpenCall>,
    /// Whether the latest piece was thinking.
    thinks: bool,
}

#[derive(Debug)]
struct OpenCall {
    id: String,
    name: String,
    arguments: String,
}

/// A token of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Spoken<'a> {
    /// The choice that it belongs to.
    pub choice: usize,
    /// The token, told only where the client asked for tokens or log-probabilities.
    pub token: Option<(u32, Option<TokenLogprobs>)>,
    /// The text that it completes.
    pub text: &'a str,
}

impl Speaker {
    /// A speaker for answers that are split so; one set of options for each choice. `id` makes the calls' names unlike
    /// any other's.
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
            pieces: Vec::new(),
            thinking_tokens: 0,
        }
    }

    /// Tokens so far that were thinking.
    pub fn thinking_tokens(&self) -> usize {
        self.thinking_tokens
    }

    /// Takes a token.
    pub fn speak(&mut self, spoken: Spoken<'_>, tell: &mut dyn FnMut(Event)) {
        let Spoken {
            choice,
            token,
            text,
        } = spoken;
        if let Some((token, logprobs)) = token {
            tell(Event::Token {
                choice,
                token,
                logprobs,
            });
        }
        let Some(state) = self.choices.get_mut(choice) else {
            return;
        };
        state.splitter.push(text, &mut self.pieces);
        self.tell_pieces(choice, tell);
        self.thinking_tokens += usize::from(self.choices[choice].thinks);
    }

    /// A choice is complete, with the rest of its text.
    pub fn finish(
        &mut self,
        choice: usize,
        rest: &str,
        reason: Finish,
        tell: &mut dyn FnMut(Event),
    ) {
        let Some(state) = self.choices.get_mut(choice) else {
            return;
        };
        state.splitter.push(rest, &mut self.pieces);
        state.splitter.finish(&mut self.pieces);
        self.tell_pieces(choice, tell);
        let called = self.choices[choice].calls > 0;
        let reason = match reason {
            Finish::Stop | Finish::StopText(_) if called => Finish::ToolCalls,
            reason => reason,
        };
        tell(Event::Finished { choice, reason });
    }

    fn tell_pieces(&mut self, choice: usize, tell: &mut dyn FnMut(Event)) {
        let state = &mut self.choices[choice];
        for piece in self.pieces.drain(..) {
            state.thinks = matches!(piece, Piece::Thinking(_));
            match piece {
                Piece::Text(text) => tell(Event::Text { choice, text }),
                Piece::Thinking(text) => tell(Event::Thinking { choice, text }),
                // The client asked for one call at a time: the first is the one.
                Piece::Call(_) | Piece::CallBegin(_) if !self.parallel && state.calls > 0 => {}
                Piece::Call((name, arguments)) => {
                    state.begin(choice, &self.id, name, tell);
                    state.add(choice, arguments.text(), tell);
                    state.end(choice, tell);
                }
                Piece::CallBegin(name) => state.begin(choice, &self.id, name, tell),
                Piece::CallArguments(text) => state.add(choice, text, tell),
                Piece::CallEnd => state.end(choice, tell),
            }
        }
    }
}

impl Choice {
    fn begin(&mut self, choice: usize, id: &str, name: String, tell: &mut dyn FnMut(Event)) {
        let id = format!("call_{id}_{choice}_{}", self.calls);
        self.calls += 1;
        self.open = Some(OpenCall {
            id: id.clone(),
            name: name.clone(),
            arguments: String::new(),
        });
        self.tell(choice, CallPart::Begin { id, name }, tell);
    }

    fn add(&mut self, choice: usize, text: String, tell: &mut dyn FnMut(Event)) {
        if let Some(call) = &mut self.open {
            call.arguments.push_str(&text);
            self.tell(choice, CallPart::Arguments(text), tell);
        }
    }

    fn end(&mut self, choice: usize, tell: &mut dyn FnMut(Event)) {
        if let Some(call) = self.open.take() {
            // An answer that was cut short has a part of its arguments, which is no JSON.
            let arguments = Json::parse(call.arguments.as_bytes());
            let call = ToolCall {
                id: call.id,
                name: call.name,
                arguments: arguments.unwrap_or_else(|_| call.arguments.into()),
            };
            self.tell(choice, CallPart::End(call), tell);
        }
    }

    fn tell(&self, choice: usize, part: CallPart, tell: &mut dyn FnMut(Event)) {
        tell(Event::Call {
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
        let mut speaker = Speaker::new(vec![options], "x", parallel);
        let mut events = Vec::new();
        let text =
            "See. <tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"f\"}</tool_call>";
        for text in text.split_inclusive(' ') {
            let spoken = Spoken {
                choice: 0,
                token: None,
                text,
            };
            speaker.speak(spoken, &mut |event| events.push(event));
        }
        speaker.finish(0, "", Finish::Stop, &mut |event| events.push(event));
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
