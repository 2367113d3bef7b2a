//! Calls with the tool's name before the object of its arguments.

use super::super::block;
use super::Step;
use alloc::string::String;

/// How the name is written.
#[derive(Copy, Clone, Debug)]
pub(super) enum Head {
    /// The name, perhaps with a number, and this separator. There is one such call in a block.
    Separated(&'static str),
    DeepSeek,
    Kimi,
    Solar,
}

/// The text around the arguments of such calls.
#[derive(Debug)]
pub(super) struct NamedCalls {
    style: Head,
    state: State,
    head: String,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Before the arguments of a first call.
    First,
    /// Before those of another.
    Next,
    /// No call comes any more that can be told before the block is over.
    Lost,
}

impl NamedCalls {
    pub(super) fn new(style: Head) -> Self {
        Self {
            style,
            state: State::First,
            head: String::new(),
        }
    }

    pub(super) fn step(&mut self, c: char, tools: &[String]) -> Step {
        if self.state == State::Lost {
            return Step::Within;
        }
        if c == '{' {
            let name = match (self.style, &self.state) {
                (Head::Separated(_), State::Next) => None,
                (style, _) => style.name(&self.head),
            };
            return match name.filter(|name| tools.iter().any(|tool| tool == name)) {
                Some(name) => Step::Begin(name.into()),
                None => {
                    self.state = State::Lost;
                    Step::Within
                }
            };
        }
        self.head.push(c);
        let closed = match self.style {
            Head::Separated(_) => false,
            Head::DeepSeek => self.head.ends_with(block::DEEPSEEK_CALL.1),
            Head::Kimi => self.head.ends_with(block::KIMI_CALL.1),
            Head::Solar => self.head.ends_with(block::SOLAR_CALL.1),
        };
        if closed {
            self.head.clear();
        }
        if self.state == State::Next && self.head.trim().is_empty() {
            Step::Past
        } else {
            Step::Within
        }
    }

    pub(super) fn end_arguments(&mut self) {
        self.head.clear();
        self.state = State::Next;
    }
}

impl Head {
    /// The tool's name in the text before its arguments.
    fn name(self, head: &str) -> Option<&str> {
        let (name, rest) = match self {
            Self::Separated(separator) => block::separated(head, separator)?,
            Self::DeepSeek => {
                let (_, head) = head.rsplit_once(block::DEEPSEEK_CALL.0)?;
                let (name, rest) = block::deep_seek_name(head)?;
                let rest = rest.trim();
                (name, rest.strip_prefix(block::FENCE).unwrap_or(rest))
            }
            Self::Kimi => {
                let (_, head) = head.rsplit_once(block::KIMI_CALL.0)?;
                block::kimi_name(head)?
            }
            Self::Solar => {
                let (_, head) = head.rsplit_once(block::SOLAR_CALL.0)?;
                block::solar_name(head)?
            }
        };
        rest.trim().is_empty().then_some(name)
    }
}
